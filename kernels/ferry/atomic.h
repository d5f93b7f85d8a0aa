// Atomic functions. The plain ones are relaxed and atomic for the threads of the GPU, those
// with _block for the threads of a block, those with _system for CPUs and other GPUs too.
#ifndef FERRY_ATOMIC_H
#define FERRY_ATOMIC_H
#include "define.h"
#ifdef FERRY_CLANG

// FERRY_ATOMIC calls clang's atomic NAME with the scope of the GPU. Clang 18 and older have
// no scopes; their PTX has none, which means the GPU.
#if __has_builtin(__scoped_atomic_fetch_add)
#define FERRY_ATOMIC(NAME, ...) __scoped_atomic_##NAME(__VA_ARGS__, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
#define FERRY_ATOMIC_CAS(p, c, v) __scoped_atomic_compare_exchange_n(p, c, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
#else
#define FERRY_ATOMIC(NAME, ...) __atomic_##NAME(__VA_ARGS__, __ATOMIC_RELAXED)
#define FERRY_ATOMIC_CAS(p, c, v) __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#endif

#define FERRY_ATOMIC_OP(NAME, OP, T) FERRY_D T NAME(T *p, T v) { return FERRY_ATOMIC(OP, p, v); }
#define FERRY_ATOMIC_INTEGER(T)                                                            \
    FERRY_ATOMIC_OP(atomicMin, fetch_min, T)                                               \
    FERRY_ATOMIC_OP(atomicMax, fetch_max, T)                                               \
    FERRY_ATOMIC_OP(atomicAnd, fetch_and, T)                                               \
    FERRY_ATOMIC_OP(atomicOr, fetch_or, T)                                                 \
    FERRY_ATOMIC_OP(atomicXor, fetch_xor, T)
FERRY_ATOMIC_INTEGER(int)
FERRY_ATOMIC_INTEGER(unsigned)
FERRY_ATOMIC_INTEGER(long long)
FERRY_ATOMIC_INTEGER(unsigned long long)
FERRY_ATOMIC_OP(atomicAdd, fetch_add, int)
FERRY_ATOMIC_OP(atomicAdd, fetch_add, unsigned)
FERRY_ATOMIC_OP(atomicAdd, fetch_add, unsigned long long)
FERRY_ATOMIC_OP(atomicSub, fetch_sub, int)
FERRY_ATOMIC_OP(atomicSub, fetch_sub, unsigned)
FERRY_ATOMIC_OP(atomicExch, exchange_n, int)
FERRY_ATOMIC_OP(atomicExch, exchange_n, unsigned)
FERRY_ATOMIC_OP(atomicExch, exchange_n, unsigned long long)
FERRY_D float atomicExch(float *p, float v) { return __builtin_bit_cast(float, atomicExch((unsigned *)p, __builtin_bit_cast(unsigned, v))); }
FERRY_D int atomicCAS(int *p, int c, int v) { FERRY_ATOMIC_CAS(p, &c, v); return c; }
FERRY_D unsigned atomicCAS(unsigned *p, unsigned c, unsigned v) { FERRY_ATOMIC_CAS(p, &c, v); return c; }
FERRY_D unsigned long long atomicCAS(unsigned long long *p, unsigned long long c, unsigned long long v) { FERRY_ATOMIC_CAS(p, &c, v); return c; }

#if __has_builtin(__scoped_atomic_fetch_add)
FERRY_ATOMIC_OP(atomicAdd, fetch_add, float)
#else
FERRY_D float atomicAdd(float *p, float v) { return __nvvm_atom_add_gen_f(p, v); }
#endif
#if FERRY_SM >= 600
#if __has_builtin(__scoped_atomic_fetch_add)
FERRY_ATOMIC_OP(atomicAdd, fetch_add, double)
#else
FERRY_D double atomicAdd(double *p, double v) { return __nvvm_atom_add_gen_d(p, v); }
#endif
#endif
#if __clang_major__ < 20
FERRY_D unsigned atomicInc(unsigned *p, unsigned v) { return __nvvm_atom_inc_gen_ui(p, v); }
FERRY_D unsigned atomicDec(unsigned *p, unsigned v) { return __nvvm_atom_dec_gen_ui(p, v); }
#endif

// FERRY_ATOM defines NAME by one instruction, whose scope is in OP. C is the constraint of
// the type.
#define FERRY_ATOM(NAME, T, C, OP)                                                         \
    FERRY_D T NAME(T *p, T v) { T r; asm volatile("atom." OP " %0, [%1], %2;" : "=" C(r) : "l"(p), C(v) : "memory"); return r; }
#define FERRY_ATOM_CAS(NAME, T, C, OP)                                                     \
    FERRY_D T NAME(T *p, T c, T v) { T r; asm volatile("atom." OP " %0, [%1], %2, %3;" : "=" C(r) : "l"(p), C(c), C(v) : "memory"); return r; }
#if __clang_major__ >= 20
FERRY_ATOM(atomicInc, unsigned, "r", "inc.u32")
FERRY_ATOM(atomicDec, unsigned, "r", "dec.u32")
#endif
#if FERRY_SM >= 700
FERRY_ATOM_CAS(atomicCAS, unsigned short, "h", "cas.b16")
#endif

#if FERRY_SM >= 600
#define FERRY_ATOMS(SUFFIX, SCOPE)                                                         \
    FERRY_ATOM(atomicAdd##SUFFIX, int, "r", SCOPE ".add.s32")                              \
    FERRY_ATOM(atomicAdd##SUFFIX, unsigned, "r", SCOPE ".add.u32")                         \
    FERRY_ATOM(atomicAdd##SUFFIX, unsigned long long, "l", SCOPE ".add.u64")               \
    FERRY_ATOM(atomicAdd##SUFFIX, float, "f", SCOPE ".add.f32")                            \
    FERRY_ATOM(atomicAdd##SUFFIX, double, "d", SCOPE ".add.f64")                           \
    FERRY_D int atomicSub##SUFFIX(int *p, int v) { return atomicAdd##SUFFIX(p, (int)(0 - (unsigned)v)); } \
    FERRY_D unsigned atomicSub##SUFFIX(unsigned *p, unsigned v) { return atomicAdd##SUFFIX(p, 0 - v); } \
    FERRY_ATOM(atomicExch##SUFFIX, int, "r", SCOPE ".exch.b32")                            \
    FERRY_ATOM(atomicExch##SUFFIX, unsigned, "r", SCOPE ".exch.b32")                       \
    FERRY_ATOM(atomicExch##SUFFIX, unsigned long long, "l", SCOPE ".exch.b64")             \
    FERRY_ATOM(atomicExch##SUFFIX, float, "f", SCOPE ".exch.b32")                          \
    FERRY_ATOM(atomicInc##SUFFIX, unsigned, "r", SCOPE ".inc.u32")                         \
    FERRY_ATOM(atomicDec##SUFFIX, unsigned, "r", SCOPE ".dec.u32")                         \
    FERRY_ATOM_CAS(atomicCAS##SUFFIX, int, "r", SCOPE ".cas.b32")                          \
    FERRY_ATOM_CAS(atomicCAS##SUFFIX, unsigned, "r", SCOPE ".cas.b32")                     \
    FERRY_ATOM_CAS(atomicCAS##SUFFIX, unsigned long long, "l", SCOPE ".cas.b64")           \
    FERRY_ATOMS_INTEGER(SUFFIX, SCOPE, int, "r", "s32", "b32")                             \
    FERRY_ATOMS_INTEGER(SUFFIX, SCOPE, unsigned, "r", "u32", "b32")                        \
    FERRY_ATOMS_INTEGER(SUFFIX, SCOPE, long long, "l", "s64", "b64")                       \
    FERRY_ATOMS_INTEGER(SUFFIX, SCOPE, unsigned long long, "l", "u64", "b64")
#define FERRY_ATOMS_INTEGER(SUFFIX, SCOPE, T, C, TYPE, BITS)                               \
    FERRY_ATOM(atomicMin##SUFFIX, T, C, SCOPE ".min." TYPE)                                \
    FERRY_ATOM(atomicMax##SUFFIX, T, C, SCOPE ".max." TYPE)                                \
    FERRY_ATOM(atomicAnd##SUFFIX, T, C, SCOPE ".and." BITS)                                \
    FERRY_ATOM(atomicOr##SUFFIX, T, C, SCOPE ".or." BITS)                                  \
    FERRY_ATOM(atomicXor##SUFFIX, T, C, SCOPE ".xor." BITS)
FERRY_ATOMS(_block, "cta")
FERRY_ATOMS(_system, "sys")
#if FERRY_SM >= 700
FERRY_ATOM_CAS(atomicCAS_block, unsigned short, "h", "cta.cas.b16")
FERRY_ATOM_CAS(atomicCAS_system, unsigned short, "h", "sys.cas.b16")
#endif
#endif

// Pairs and quadruples of floats: each element is added atomically, not all at once.
#if FERRY_SM >= 900
FERRY_D float2 atomicAdd(float2 *p, float2 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }
FERRY_D float4 atomicAdd(float4 *p, float4 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z), atomicAdd(&p->w, v.w)}; }
#endif
#endif
#endif
