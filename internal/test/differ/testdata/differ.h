// Declarations that the kernels in this directory share. nvcc has CUDA's own names. For
// clang without a CUDA installation they are defined here.
#pragma once
#define KERNEL extern "C" __global__ void
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
#define FULL 0xffffffffu

#ifdef __clang__
#include "../../simt/testdata/prelude.h"
struct __attribute__((aligned(8))) uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
struct __attribute__((aligned(4))) uchar4 { unsigned char x, y, z, w; };
struct __attribute__((aligned(16))) double2 { double x, y; };
struct __attribute__((aligned(8))) short4 { short x, y, z, w; };
struct __attribute__((aligned(8))) float2 { float x, y; };
struct float3 { float x, y, z; };
struct uchar3 { unsigned char x, y, z; };
DEVICE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
DEVICE uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
DEVICE float2 make_float2(float x, float y) { return {x, y}; }
DEVICE double2 make_double2(double x, double y) { return {x, y}; }
DEVICE unsigned __shfl_sync(unsigned m, unsigned v, int k) { return __nvvm_shfl_sync_idx_i32(m, v, k, 31); }
DEVICE unsigned __shfl_xor_sync(unsigned m, unsigned v, int k) { return __nvvm_shfl_sync_bfly_i32(m, v, k, 31); }
DEVICE unsigned __shfl_up_sync(unsigned m, unsigned v, int k) { return __nvvm_shfl_sync_up_i32(m, v, k, 0); }
DEVICE unsigned __shfl_down_sync(unsigned m, unsigned v, int k) { return __nvvm_shfl_sync_down_i32(m, v, k, 31); }
DEVICE float __shfl_xor_sync(unsigned m, float v, int k) { return __nvvm_shfl_sync_bfly_f32(m, v, k, 31); }
DEVICE float __shfl_down_sync(unsigned m, float v, int k) { return __nvvm_shfl_sync_down_f32(m, v, k, 31); }
DEVICE unsigned __activemask() { unsigned m; asm volatile("activemask.b32 %0;" : "=r"(m)); return m; }
DEVICE void __syncwarp(unsigned m = FULL) { __nvvm_bar_warp_sync(m); }
DEVICE unsigned __match_any_sync(unsigned m, unsigned v) { return __nvvm_match_any_sync_i32(m, v); }
DEVICE int __ffs(unsigned x) { return __builtin_ffs(x); }
DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
DEVICE void __threadfence() { __nvvm_membar_gl(); }
DEVICE void __threadfence_block() { __nvvm_membar_cta(); }
DEVICE void __nanosleep(unsigned n) { asm volatile("nanosleep.u32 %0;" :: "r"(n)); }
DEVICE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31)); }
DEVICE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
DEVICE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
DEVICE unsigned atomicCAS(unsigned *p, unsigned c, unsigned v) { __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return c; }
DEVICE unsigned long long atomicCAS(unsigned long long *p, unsigned long long c, unsigned long long v) { __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return c; }
DEVICE unsigned atomicExch(unsigned *p, unsigned v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
DEVICE unsigned long long atomicExch(unsigned long long *p, unsigned long long v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
DEVICE double atomicAdd(double *p, double v) { return __nvvm_atom_add_gen_d(p, v); }
DEVICE unsigned long long atomicXor(unsigned long long *p, unsigned long long v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }
DEVICE unsigned atomicSub(unsigned *p, unsigned v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); }
template <class T> DEVICE T min(T a, T b) { return b < a ? b : a; }
template <class T> DEVICE T max(T a, T b) { return a < b ? b : a; }
#else
#define DEVICE static __device__ __forceinline__
#endif

DEVICE u32 thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u32 lane() { return threadIdx.x & 31; }
DEVICE u32 below() { u32 m; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(m)); return m; }
DEVICE u32 rotl(u32 x, int n) { return x << n | x >> (32 - n); }
DEVICE u32 rotr(u32 x, int n) { return x >> n | x << (32 - n); }
DEVICE u64 rotl64(u64 x, int n) { return x << n | x >> (64 - n); }
