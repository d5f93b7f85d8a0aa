// Integer intrinsics: bits, wide products, shifts, dot products, and arithmetic on the
// halves and bytes of a word.
#ifndef FERRY_INTEGER_H
#define FERRY_INTEGER_H
#include "vector.h"
#ifdef FERRY_CLANG

FERRY_D int __popc(unsigned x) { return __builtin_popcount(x); }
FERRY_D int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
FERRY_D int __clz(int x) { return x ? __builtin_clz(x) : 32; }
FERRY_D int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
FERRY_D int __ffs(int x) { return __builtin_ffs(x); }
FERRY_D int __ffsll(long long x) { return __builtin_ffsll(x); }
FERRY_D unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
FERRY_D unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
FERRY_D unsigned __fns(unsigned mask, unsigned base, int offset) { unsigned r; asm("fns.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(mask), "r"(base), "r"(offset)); return r; }

FERRY_D int __mulhi(int x, int y) { return __nvvm_mulhi_i(x, y); }
FERRY_D unsigned __umulhi(unsigned x, unsigned y) { return __nvvm_mulhi_ui(x, y); }
FERRY_D long long __mul64hi(long long x, long long y) { return __nvvm_mulhi_ll(x, y); }
FERRY_D unsigned long long __umul64hi(unsigned long long x, unsigned long long y) { return __nvvm_mulhi_ull(x, y); }
FERRY_D int __mul24(int x, int y) { return (int)((unsigned)((int)((unsigned)x << 8) >> 8) * (unsigned)((int)((unsigned)y << 8) >> 8)); }
FERRY_D unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
FERRY_D unsigned __usad(unsigned x, unsigned y, unsigned z) { return (x > y ? x - y : y - x) + z; }
FERRY_D unsigned __sad(int x, int y, unsigned z) { return (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x) + z; }
FERRY_D int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
FERRY_D int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
FERRY_D unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
FERRY_D unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }

// A funnel shift takes 32 bits of hi:lo. The forms with c shift by at most 32; the others
// take the distance modulo 32.
FERRY_D unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { return (unsigned)((((unsigned long long)hi << 32 | lo) << (n & 31)) >> 32); }
FERRY_D unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31)); }
FERRY_D unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n) { return (unsigned)((((unsigned long long)hi << 32 | lo) << (n < 32 ? n : 32)) >> 32); }
FERRY_D unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n < 32 ? n : 32)); }
FERRY_D unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { return __nvvm_prmt(a, b, s); }

#if FERRY_SM >= 610
#define FERRY_DOT(NAME, T, U, V, OP)                                                       \
    FERRY_D T NAME(U a, V b, T c) { T r; asm(OP " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
FERRY_DOT(__dp4a, int, int, int, "dp4a.s32.s32")
FERRY_DOT(__dp4a, unsigned, unsigned, unsigned, "dp4a.u32.u32")
FERRY_DOT(__dp2a_lo, int, int, int, "dp2a.lo.s32.s32")
FERRY_DOT(__dp2a_lo, unsigned, unsigned, unsigned, "dp2a.lo.u32.u32")
FERRY_DOT(__dp2a_hi, int, int, int, "dp2a.hi.s32.s32")
FERRY_DOT(__dp2a_hi, unsigned, unsigned, unsigned, "dp2a.hi.u32.u32")
#undef FERRY_DOT
FERRY_D int __dp4a(char4 a, char4 b, int c) { return __dp4a(__builtin_bit_cast(int, a), __builtin_bit_cast(int, b), c); }
FERRY_D unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) { return __dp4a(__builtin_bit_cast(unsigned, a), __builtin_bit_cast(unsigned, b), c); }
#endif

// ferry_element returns the element of type E at bit i of a word. Clang 14 to 16 compile a
// signed shift of a masked word as an unsigned one, so that the signed case is an instruction.
template <class E> FERRY_D int ferry_element(unsigned v, int i) {
    if constexpr ((E)-1 > (E)0) return (E)(v >> i);
    int r;
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(v), "r"(i), "r"((int)(8 * sizeof(E))));
    return r;
}

// FERRY_LANES defines an operation on the two halves and on the four bytes of a word. x
// and y are the elements as int, signed or unsigned; the result is cut to the element.
#define FERRY_LANES(NAME, SIGN, EXPR)                                                      \
    FERRY_D unsigned NAME##2(unsigned a, unsigned b) { FERRY_LANE_LOOP(2, SIGN short, EXPR) } \
    FERRY_D unsigned NAME##4(unsigned a, unsigned b) { FERRY_LANE_LOOP(4, SIGN char, EXPR) }
#define FERRY_LANE_LOOP(N, E, EXPR)                                                        \
    const int bits = 32 / N;                                                               \
    const unsigned ones = (1u << bits) - 1;                                                \
    unsigned r = 0;                                                                        \
    _Pragma("unroll") for (int i = 0; i < 32; i += bits) {                                 \
        int x = ferry_element<E>(a, i), y = ferry_element<E>(b, i);                        \
        r |= ((unsigned)(EXPR) & ones) << i;                                               \
    }                                                                                      \
    return r;
#define FERRY_CLAMP(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))

FERRY_LANES(__vadd, unsigned, x + y)
FERRY_LANES(__vsub, unsigned, x - y)
FERRY_LANES(__vaddss, signed, FERRY_CLAMP(x + y, -(int)(ones / 2) - 1, (int)(ones / 2)))
FERRY_LANES(__vsubss, signed, FERRY_CLAMP(x - y, -(int)(ones / 2) - 1, (int)(ones / 2)))
FERRY_LANES(__vaddus, unsigned, FERRY_CLAMP(x + y, 0, (int)ones))
FERRY_LANES(__vsubus, unsigned, FERRY_CLAMP(x - y, 0, (int)ones))
FERRY_LANES(__vavgs, signed, (x + y + (x + y >= 0)) >> 1)
FERRY_LANES(__vavgu, unsigned, (x + y + 1) >> 1)
FERRY_LANES(__vhaddu, unsigned, (x + y) >> 1)
FERRY_LANES(__vmins, signed, x < y ? x : y)
FERRY_LANES(__vminu, unsigned, x < y ? x : y)
FERRY_LANES(__vmaxs, signed, x > y ? x : y)
FERRY_LANES(__vmaxu, unsigned, x > y ? x : y)
FERRY_LANES(__vabsdiffs, signed, x > y ? x - y : y - x)
FERRY_LANES(__vabsdiffu, unsigned, x > y ? x - y : y - x)
FERRY_LANES(__vcmpeq, unsigned, x == y ? -1 : 0)
FERRY_LANES(__vcmpne, unsigned, x != y ? -1 : 0)
FERRY_LANES(__vcmpges, signed, x >= y ? -1 : 0)
FERRY_LANES(__vcmpgeu, unsigned, x >= y ? -1 : 0)
FERRY_LANES(__vcmpgts, signed, x > y ? -1 : 0)
FERRY_LANES(__vcmpgtu, unsigned, x > y ? -1 : 0)
FERRY_LANES(__vcmples, signed, x <= y ? -1 : 0)
FERRY_LANES(__vcmpleu, unsigned, x <= y ? -1 : 0)
FERRY_LANES(__vcmplts, signed, x < y ? -1 : 0)
FERRY_LANES(__vcmpltu, unsigned, x < y ? -1 : 0)
FERRY_LANES(__vseteq, unsigned, x == y)
FERRY_LANES(__vsetne, unsigned, x != y)
FERRY_LANES(__vsetges, signed, x >= y)
FERRY_LANES(__vsetgeu, unsigned, x >= y)
FERRY_LANES(__vsetgts, signed, x > y)
FERRY_LANES(__vsetgtu, unsigned, x > y)
FERRY_LANES(__vsetles, signed, x <= y)
FERRY_LANES(__vsetleu, unsigned, x <= y)
FERRY_LANES(__vsetlts, signed, x < y)
FERRY_LANES(__vsetltu, unsigned, x < y)

// FERRY_LANES1 defines an operation on one word in the same way.
#define FERRY_LANES1(NAME, EXPR)                                                           \
    FERRY_D unsigned NAME##2(unsigned a) { unsigned b = 0; FERRY_LANE_LOOP(2, short, EXPR + y) } \
    FERRY_D unsigned NAME##4(unsigned a) { unsigned b = 0; FERRY_LANE_LOOP(4, signed char, EXPR + y) }
FERRY_LANES1(__vabs, (x < 0 ? -x : x))
FERRY_LANES1(__vabsss, (x < 0 ? FERRY_CLAMP(-x, 0, (int)(ones / 2)) : x))
FERRY_LANES1(__vneg, (-x))
FERRY_LANES1(__vnegss, FERRY_CLAMP(-x, -(int)(ones / 2) - 1, (int)(ones / 2)))

// FERRY_SAD defines sums of absolute differences.
#define FERRY_SAD(NAME, N, E)                                                              \
    FERRY_D unsigned NAME(unsigned a, unsigned b) {                                        \
        unsigned r = 0;                                                                    \
        _Pragma("unroll") for (int i = 0; i < 32; i += 32 / N) {                           \
            int x = ferry_element<E>(a, i), y = ferry_element<E>(b, i);                    \
            r += x > y ? x - y : y - x;                                                    \
        }                                                                                  \
        return r;                                                                          \
    }
FERRY_SAD(__vsadu2, 2, unsigned short)
FERRY_SAD(__vsadu4, 4, unsigned char)
FERRY_SAD(__vsads2, 2, short)
FERRY_SAD(__vsads4, 4, signed char)
#undef FERRY_SAD
#undef FERRY_LANES
#undef FERRY_LANES1
#undef FERRY_LANE_LOOP
#undef FERRY_CLAMP
#endif
#endif
