// Threads of a warp: votes, matches, shuffles, reductions. All take the mask of the lanes
// that take part.
#ifndef FERRY_WARP_H
#define FERRY_WARP_H
#include "define.h"
#ifdef FERRY_CLANG

FERRY_D void __syncwarp(unsigned mask = 0xffffffff) { __nvvm_bar_warp_sync(mask); }
FERRY_D unsigned __activemask() { unsigned m; asm volatile("activemask.b32 %0;" : "=r"(m)); return m; }
FERRY_D unsigned __ballot_sync(unsigned mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
FERRY_D int __any_sync(unsigned mask, int p) { return __nvvm_vote_any_sync(mask, p); }
FERRY_D int __all_sync(unsigned mask, int p) { return __nvvm_vote_all_sync(mask, p); }
FERRY_D int __uni_sync(unsigned mask, int p) { return __nvvm_vote_uni_sync(mask, p); }

FERRY_D unsigned __lane_id() { return __nvvm_read_ptx_sreg_laneid(); }
FERRY_D unsigned __lanemask_lt() { unsigned m; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(m)); return m; }
FERRY_D unsigned __lanemask_le() { unsigned m; asm("mov.u32 %0, %%lanemask_le;" : "=r"(m)); return m; }
FERRY_D unsigned __lanemask_eq() { unsigned m; asm("mov.u32 %0, %%lanemask_eq;" : "=r"(m)); return m; }
FERRY_D unsigned __lanemask_ge() { unsigned m; asm("mov.u32 %0, %%lanemask_ge;" : "=r"(m)); return m; }
FERRY_D unsigned __lanemask_gt() { unsigned m; asm("mov.u32 %0, %%lanemask_gt;" : "=r"(m)); return m; }

// FERRY_SHUFFLES defines the shuffle NAME for all types. BUILTIN takes the lanes of a group
// and the clamp as one word: (32 - width) << 8, and 31 or, for up, 0. Types of 64 bits are
// moved as two words.
#define FERRY_SHUFFLES(NAME, BUILTIN, LANE, CLAMP)                                         \
    FERRY_D int NAME(unsigned mask, int v, LANE k, int width = 32) { return BUILTIN##_i32(mask, v, k, (32 - width) << 8 | CLAMP); } \
    FERRY_D unsigned NAME(unsigned mask, unsigned v, LANE k, int width = 32) { return BUILTIN##_i32(mask, v, k, (32 - width) << 8 | CLAMP); } \
    FERRY_D float NAME(unsigned mask, float v, LANE k, int width = 32) { return BUILTIN##_f32(mask, v, k, (32 - width) << 8 | CLAMP); } \
    FERRY_D unsigned long long NAME(unsigned mask, unsigned long long v, LANE k, int width = 32) { \
        unsigned lo = NAME(mask, (unsigned)v, k, width), hi = NAME(mask, (unsigned)(v >> 32), k, width); \
        return (unsigned long long)hi << 32 | lo;                                          \
    }                                                                                      \
    FERRY_D long long NAME(unsigned mask, long long v, LANE k, int width = 32) { return (long long)NAME(mask, (unsigned long long)v, k, width); } \
    FERRY_D double NAME(unsigned mask, double v, LANE k, int width = 32) { return __builtin_bit_cast(double, NAME(mask, __builtin_bit_cast(unsigned long long, v), k, width)); } \
    FERRY_D long NAME(unsigned mask, long v, LANE k, int width = 32) { return (long)NAME(mask, FERRY_LONG_WORD(v), k, width); } \
    FERRY_D unsigned long NAME(unsigned mask, unsigned long v, LANE k, int width = 32) { return (unsigned long)NAME(mask, FERRY_LONG_WORD(v), k, width); }
#if __SIZEOF_LONG__ == 8
#define FERRY_LONG_WORD(v) ((unsigned long long)(v))
#else
#define FERRY_LONG_WORD(v) ((unsigned)(v))
#endif
FERRY_SHUFFLES(__shfl_sync, __nvvm_shfl_sync_idx, int, 31)
FERRY_SHUFFLES(__shfl_up_sync, __nvvm_shfl_sync_up, unsigned, 0)
FERRY_SHUFFLES(__shfl_down_sync, __nvvm_shfl_sync_down, unsigned, 31)
FERRY_SHUFFLES(__shfl_xor_sync, __nvvm_shfl_sync_bfly, int, 31)

// The forms without a mask exist below sm_70 only, as with nvcc.
#if __CUDA_ARCH__ < 700
FERRY_D unsigned __ballot(int p) { return __ballot_sync(__activemask(), p); }
FERRY_D int __any(int p) { return __any_sync(__activemask(), p); }
FERRY_D int __all(int p) { return __all_sync(__activemask(), p); }
template <class T> FERRY_D T __shfl(T v, int k, int width = 32) { return __shfl_sync(__activemask(), v, k, width); }
template <class T> FERRY_D T __shfl_up(T v, unsigned k, int width = 32) { return __shfl_up_sync(__activemask(), v, k, width); }
template <class T> FERRY_D T __shfl_down(T v, unsigned k, int width = 32) { return __shfl_down_sync(__activemask(), v, k, width); }
template <class T> FERRY_D T __shfl_xor(T v, int k, int width = 32) { return __shfl_xor_sync(__activemask(), v, k, width); }
#endif

#if FERRY_SM >= 700
// FERRY_MATCH defines the matches of type T, as unsigned words U.
#define FERRY_MATCH(T, U, BITS)                                                            \
    FERRY_D unsigned __match_any_sync(unsigned mask, T v) { return __nvvm_match_any_sync_i##BITS(mask, __builtin_bit_cast(U, v)); } \
    FERRY_D unsigned __match_all_sync(unsigned mask, T v, int *same) { return __nvvm_match_all_sync_i##BITS##p(mask, __builtin_bit_cast(U, v), same); }
FERRY_MATCH(int, unsigned, 32)
FERRY_MATCH(unsigned, unsigned, 32)
FERRY_MATCH(float, unsigned, 32)
FERRY_MATCH(long long, unsigned long long, 64)
FERRY_MATCH(unsigned long long, unsigned long long, 64)
FERRY_MATCH(double, unsigned long long, 64)
#if __SIZEOF_LONG__ == 8
FERRY_MATCH(long, unsigned long long, 64)
FERRY_MATCH(unsigned long, unsigned long long, 64)
#else
FERRY_MATCH(long, unsigned, 32)
FERRY_MATCH(unsigned long, unsigned, 32)
#endif
#undef FERRY_MATCH
#endif

#if FERRY_SM >= 800
FERRY_D int __reduce_add_sync(unsigned mask, int v) { return __nvvm_redux_sync_add(v, mask); }
FERRY_D unsigned __reduce_add_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_add(v, mask); }
FERRY_D int __reduce_min_sync(unsigned mask, int v) { return __nvvm_redux_sync_min(v, mask); }
FERRY_D unsigned __reduce_min_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_umin(v, mask); }
FERRY_D int __reduce_max_sync(unsigned mask, int v) { return __nvvm_redux_sync_max(v, mask); }
FERRY_D unsigned __reduce_max_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_umax(v, mask); }
FERRY_D unsigned __reduce_and_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_and(v, mask); }
FERRY_D unsigned __reduce_or_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_or(v, mask); }
FERRY_D unsigned __reduce_xor_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_xor(v, mask); }
#endif
#endif
#endif
