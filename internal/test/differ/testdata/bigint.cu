// Integers of many words: carry chains in PTX, and carry chains by the compiler.
#include "differ.h"

KERNEL big_add(const u32 *a, const u32 *b, u32 *out) {
    const u32 *x = a + thread() * 4, *y = b + thread() * 4;
    u32 s0, s1, s2, s3, c, d0, d1, d2, d3, e;
    asm("add.cc.u32 %0, %5, %9;\n\taddc.cc.u32 %1, %6, %10;\n\taddc.cc.u32 %2, %7, %11;\n\taddc.cc.u32 %3, %8, %12;\n\taddc.u32 %4, 0, 0;"
        : "=r"(s0), "=r"(s1), "=r"(s2), "=r"(s3), "=r"(c) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
    asm("sub.cc.u32 %0, %5, %9;\n\tsubc.cc.u32 %1, %6, %10;\n\tsubc.cc.u32 %2, %7, %11;\n\tsubc.cc.u32 %3, %8, %12;\n\tsubc.u32 %4, 0, 0;"
        : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3), "=r"(e) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
    u32 *o = out + thread() * 10;
    o[0] = s0; o[1] = s1; o[2] = s2; o[3] = s3; o[4] = c;
    o[5] = d0; o[6] = d1; o[7] = d2; o[8] = d3; o[9] = e;
}

// 256 x 256 bits by rows of mad.lo.cc and madc.hi.cc.
KERNEL big_multiply(const u32 *a, const u32 *b, u32 *out) {
    const u32 *x = a + thread() * 8, *y = b + thread() * 8;
    u32 r[16] = {};
    for (int i = 0; i < 8; i++) {
        u32 carry = 0;
        for (int j = 0; j < 8; j++) {
            u32 lo = r[i + j], hi;
            asm("mad.lo.cc.u32 %0, %2, %3, %0;\n\tmadc.hi.u32 %1, %2, %3, 0;\n\tadd.cc.u32 %0, %0, %4;\n\taddc.u32 %1, %1, 0;"
                : "+&r"(lo), "=&r"(hi) : "r"(x[i]), "r"(y[j]), "r"(carry));
            r[i + j] = lo;
            carry = hi;
        }
        r[i + 8] = carry;
    }
    for (int i = 0; i < 16; i++) out[thread() * 16 + i] = r[i];
}

typedef unsigned __int128 u128;

KERNEL big_128(const u64 *a, const u64 *b, u64 *out) {
    u32 i = thread();
    u128 x = (u128)a[2 * i] << 64 | a[2 * i + 1], y = (u128)b[2 * i] << 64 | b[2 * i + 1];
    u128 r[4] = {x + y, x * y, x >> (b[2 * i] & 127), (x - y) ^ (x << (a[2 * i] & 63))};
    for (int k = 0; k < 4; k++) {
        out[8 * i + 2 * k] = r[k] >> 64;
        out[8 * i + 2 * k + 1] = r[k];
    }
}

// x to the y modulo an odd m, by Montgomery's method.
KERNEL big_power(const u64 *a, const u64 *b, const u64 *modulus, u64 *out) {
    u32 i = thread();
    u64 m = modulus[i] | 1, inverse = m;
    for (int k = 0; k < 5; k++) inverse *= 2 - m * inverse;
    u64 one = (0 - m) % m, x = a[i] % m, base = x;
    for (int k = 0; k < 64; k++) base = base >= m - base ? base - (m - base) : base + base; // x * 2^64 mod m
    u64 result = one;
    for (u64 e = b[i] >> 40; e; e >>= 1) {
        for (int which = e & 1 ? 0 : 1; which < 2; which++) {
            u64 p = which ? base : result;
            u128 t = (u128)p * base;
            u64 q = (u64)t * (0 - inverse);
            u128 s = (u128)q * m;
            u64 hi = (u64)(t >> 64), add = (u64)(s >> 64), carry = (u64)t != 0;
            u64 r = hi + add;
            bool over = r < hi;
            r += carry;
            over |= r < carry;
            if (over || r >= m) r -= m;
            if (which) base = r; else result = r;
        }
    }
    u128 t = result; // converted from Montgomery's form
    u64 q = (u64)t * (0 - inverse);
    u128 s = (u128)q * m;
    u64 r = (u64)(s >> 64) + ((u64)t != 0);
    out[i] = r >= m ? r - m : r;
}
