// What a thread knows of its place, barriers, fences, clocks and stops.
#ifndef FERRY_BUILTINS_H
#define FERRY_BUILTINS_H
#include "vector.h"
#ifdef FERRY_CLANG

// threadIdx and the others are objects whose members read special registers.
#define FERRY_PLACE(NAME, REGISTER)                                                        \
    struct ferry_##REGISTER {                                                              \
        __declspec(property(get = get_x)) unsigned x;                                      \
        __declspec(property(get = get_y)) unsigned y;                                      \
        __declspec(property(get = get_z)) unsigned z;                                      \
        FERRY_M unsigned get_x() const { return __nvvm_read_ptx_sreg_##REGISTER##_x(); } \
        FERRY_M unsigned get_y() const { return __nvvm_read_ptx_sreg_##REGISTER##_y(); } \
        FERRY_M unsigned get_z() const { return __nvvm_read_ptx_sreg_##REGISTER##_z(); } \
        FERRY_M operator uint3() const { return {get_x(), get_y(), get_z()}; } \
        FERRY_M operator dim3() const { return {get_x(), get_y(), get_z()}; } \
    };                                                                                     \
    extern const __device__ __attribute__((weak)) ferry_##REGISTER NAME;
FERRY_PLACE(threadIdx, tid)
FERRY_PLACE(blockIdx, ctaid)
FERRY_PLACE(blockDim, ntid)
FERRY_PLACE(gridDim, nctaid)
static constexpr int warpSize = 32;

// __syncthreads is a builtin of clang.
FERRY_D int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
FERRY_D int __syncthreads_and(int p) { return __nvvm_bar0_and(p); }
FERRY_D int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
FERRY_D void __barrier_sync(unsigned id) { asm volatile("barrier.sync %0;" ::"r"(id) : "memory"); }
FERRY_D void __barrier_sync_count(unsigned id, unsigned n) { asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }

FERRY_D void __threadfence_block() { __nvvm_membar_cta(); }
FERRY_D void __threadfence() { __nvvm_membar_gl(); }
FERRY_D void __threadfence_system() { __nvvm_membar_sys(); }

FERRY_D int clock() { return (int)__nvvm_read_ptx_sreg_clock(); }
FERRY_D long long clock64() { return __nvvm_read_ptx_sreg_clock64(); }
FERRY_D unsigned long long __globaltimer() { unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
FERRY_D void __trap() { __builtin_trap(); }
FERRY_D void __brkpt() { asm volatile("brkpt;"); }
FERRY_D void __prof_trigger(int) {}
#if FERRY_SM >= 700
FERRY_D void __nanosleep(unsigned ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }
#endif
#endif
#endif
