// Division, bit operations, saturation and rare integer instructions.
#include "differ.h"

KERNEL int_div64(const i64 *a, const i64 *b, i64 *out) {
    u32 i = thread();
    i64 x = a[i], y = b[i] ? b[i] : 1;
    if (y == -1) y = 3;
    out[4 * i] = x / y;
    out[4 * i + 1] = x % y;
    out[4 * i + 2] = (u64)x / (u64)y;
    out[4 * i + 3] = (u64)x % (u64)y;
}

KERNEL int_div32(const i32 *a, const i32 *b, i32 *out) {
    u32 i = thread();
    i32 x = a[i], y = b[i] ? b[i] : 1;
    if (y == -1) y = 3;
    out[6 * i] = x / y;
    out[6 * i + 1] = x % y;
    out[6 * i + 2] = (u32)x / (u32)y;
    out[6 * i + 3] = (u32)x % (u32)y;
    out[6 * i + 4] = x / 7 + x % 10;
    out[6 * i + 5] = (u32)x / 641 - (short)x / (short)(y | 1);
}

KERNEL int_bits(const u64 *in, u64 *out) {
    u32 i = thread();
    u64 x = in[i];
    u32 w = x, v = x >> 32;
    u64 *o = out + 8 * i;
    o[0] = (u64)__popcll(x) << 32 | __popc(w);
    o[1] = (u64)__clzll(x) << 32 | __clz(v);
    o[2] = __brevll(x);
    o[3] = (u64)__ffsll(x) << 32 | (u32)__ffs(w);
    o[4] = __byte_perm(w, v, v & 0x7777);
    o[5] = (u64)__funnelshift_l(w, v, v & 31) << 32 | __funnelshift_r(w, v, w & 31);
    x ^= x >> 32; x = (x & 0x5555555555555555ull) << 1 | (x >> 1 & 0x5555555555555555ull);
    o[6] = x;
    u32 g = w ^ w >> 1; // to Gray code and back
    g ^= g >> 16; g ^= g >> 8; g ^= g >> 4; g ^= g >> 2; g ^= g >> 1;
    o[7] = (u64)g << 32 | (w & -w);
}

// Morton codes of 16 and 16 bits, and back.
KERNEL int_morton(const u32 *in, u32 *out) {
    u32 v = in[thread()], x = v & 0xffff, y = v >> 16;
    x = (x | x << 8) & 0xff00ff; x = (x | x << 4) & 0xf0f0f0f; x = (x | x << 2) & 0x33333333; x = (x | x << 1) & 0x55555555;
    y = (y | y << 8) & 0xff00ff; y = (y | y << 4) & 0xf0f0f0f; y = (y | y << 2) & 0x33333333; y = (y | y << 1) & 0x55555555;
    out[thread()] = x | y << 1;
}

KERNEL int_saturate(const i32 *a, const i32 *b, const float *f, i32 *out) {
    u32 i = thread();
    i32 x = a[i], y = b[i], r;
    float z = f[i];
    i32 *o = out + 10 * i;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); o[0] = r;
    asm("sub.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); o[1] = r;
    asm("{ .reg .s8 t; cvt.sat.s8.s32 t, %1; cvt.s32.s8 %0, t; }" : "=r"(r) : "r"(x)); o[2] = r;
    asm("{ .reg .u16 t; cvt.sat.u16.s32 t, %1; cvt.u32.u16 %0, t; }" : "=r"(r) : "r"(y)); o[3] = r;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(z)); o[4] = r;
    asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(r) : "f"(z)); o[5] = r;
    asm("cvt.rmi.s32.f32 %0, %1;" : "=r"(r) : "f"(z)); o[6] = r;
    asm("{ .reg .s16 t; cvt.rpi.s16.f32 t, %1; cvt.s32.s16 %0, t; }" : "=r"(r) : "f"(z)); o[7] = r;
    asm("mad.hi.sat.s32 %0, %1, %2, %1;" : "=r"(r) : "r"(x), "r"(y)); o[8] = r;
    asm("sad.s32 %0, %1, %2, %1;" : "=r"(r) : "r"(x), "r"(y)); o[9] = r;
}

KERNEL int_odd(const u32 *a, const u32 *b, u32 *out) {
    u32 i = thread(), x = a[i], y = b[i], r;
    u32 *o = out + 16 * i;
    asm("mul24.lo.u32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); o[0] = r;
    asm("mul24.hi.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); o[1] = r;
    asm("mad24.lo.s32 %0, %1, %2, %1;" : "=r"(r) : "r"(x), "r"(y)); o[2] = r;
    asm("dp4a.u32.s32 %0, %1, %2, %1;" : "=r"(r) : "r"(x), "r"(y)); o[3] = r;
    asm("dp4a.s32.u32 %0, %1, %2, %2;" : "=r"(r) : "r"(x), "r"(y)); o[4] = r;
    asm("dp2a.lo.s32.s32 %0, %1, %2, %1;" : "=r"(r) : "r"(x), "r"(y)); o[5] = r;
    asm("dp2a.hi.u32.u32 %0, %1, %2, %1;" : "=r"(r) : "r"(x), "r"(y)); o[6] = r;
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y & 63), "r"(y >> 8 & 63)); o[7] = r;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y & 255), "r"(y >> 8 & 255)); o[8] = r;
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(x), "r"(y), "r"(y & 63), "r"(x & 63)); o[9] = r;
    asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(x)); o[10] = r;
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(y)); o[11] = r;
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(x & 3)); o[12] = r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(x ^ y)); o[13] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(r) : "r"(x), "r"(y), "r"(x * 77)); o[14] = r;
    asm("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(y & 63)); o[15] = r;
}

// Square roots and logarithms of integers, by bits.
KERNEL int_roots(const u64 *in, u32 *out) {
    u64 x = in[thread()], r = 0;
    for (u64 bit = 1ull << 62; bit; bit >>= 2) {
        if (x >= r + bit) { x -= r + bit; r = (r >> 1) + bit; }
        else r >>= 1;
    }
    out[2 * thread()] = r;
    out[2 * thread() + 1] = 63 - __clzll(in[thread()] | 1);
}

// Decimal digits of a fixed point number, by multiplications alone.
KERNEL int_fixed(const i32 *a, const i32 *b, i32 *out) {
    i32 x = a[thread()], y = b[thread()];
    i64 p = (i64)x * y;
    out[thread() * 4] = (i32)((p + (1 << 15)) >> 16);
    out[thread() * 4 + 1] = __mulhi(x, y) + (i32)__umulhi(x, y);
    out[thread() * 4 + 2] = (i32)((u64)p * 0x199999999999999aull >> 60);
    out[thread() * 4 + 3] = (short)x * (short)y - ((signed char)x >> 3) + (u8)(y >> 5);
}
