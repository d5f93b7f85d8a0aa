// Atomics of every type and scope. Results do not depend on the order.
#include "differ.h"

KERNEL atomic_integers(const u32 *in, u32 *out, u64 *wide) {
    u32 v = in[thread()];
    u64 w = (u64)v * 0x9e3779b97f4a7c15ull;
    atomicAdd(out, v);
    atomicSub(out + 1, v);
    atomicMin(out + 2, v);
    atomicMax(out + 3, v);
    atomicMin((i32 *)out + 4, (i32)v);
    atomicMax((i32 *)out + 5, (i32)v);
    atomicAnd(out + 6, v | 0x10101);
    atomicOr(out + 7, v & 0xf0f0f);
    atomicXor(out + 8, v);
    atomicInc(out + 9, 1000);
    atomicDec(out + 10, 777);
    atomicAdd(wide, w);
    atomicMin(wide + 1, w);
    atomicMax(wide + 2, w);
    atomicMin((i64 *)wide + 3, (i64)w);
    atomicMax((i64 *)wide + 4, (i64)w);
    atomicAnd(wide + 5, w | 0x100000001ull);
    atomicOr(wide + 6, w & 0xff00ff00ff00ull);
    atomicXor(wide + 7, w);
}

// Integers in floats: additions are exact in any order.
KERNEL atomic_floats(const u8 *in, float *f, double *d) {
    u32 v = in[thread()];
    atomicAdd(f + (v & 3), (float)v - 100);
    atomicAdd(d + (v & 3), v * 0.5);
    asm volatile("red.global.add.f32 [%0], %1;" :: "l"(f + 4), "f"((float)v) : "memory");
}

// Atomics in shared memory, and their results: the sum of the tickets is known.
KERNEL atomic_shared(const u32 *in, u32 *out) {
    __shared__ u32 s[4];
    __shared__ u64 w[2];
    if (threadIdx.x < 4) s[threadIdx.x] = 0;
    if (threadIdx.x < 2) w[threadIdx.x] = 0;
    __syncthreads();
    u32 v = in[thread()], ticket = atomicAdd(s, 1u);
    atomicAdd(s + 1, ticket);
    atomicMax(s + 2, v);
    atomicXor(s + 3, v);
    atomicAdd(w, (u64)v << 20);
    atomicCAS(w + 1, 0ull, 77ull);
    __syncthreads();
    if (threadIdx.x < 4) out[blockIdx.x * 8 + threadIdx.x] = s[threadIdx.x];
    if (threadIdx.x < 2) { out[blockIdx.x * 8 + 4 + threadIdx.x * 2] = (u32)w[threadIdx.x]; out[blockIdx.x * 8 + 5 + threadIdx.x * 2] = (u32)(w[threadIdx.x] >> 32); }
}

KERNEL atomic_scopes(const u32 *in, u32 *out, u64 *wide) {
    u32 v = in[thread()], r;
    u64 q;
    // the old value is not used, because it depends on the order
    asm volatile("atom.global.cta.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(out + 16 + blockIdx.x), "r"(v) : "memory");
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(out), "r"(v) : "memory");
    asm volatile("atom.acquire.gpu.global.max.s32 %0, [%1], %2;" : "=r"(r) : "l"(out + 1), "r"(v) : "memory");
    asm volatile("atom.release.sys.global.xor.b32 %0, [%1], %2;" : "=r"(r) : "l"(out + 2), "r"(v) : "memory");
    asm volatile("atom.acq_rel.sys.global.or.b32 %0, [%1], %2;" : "=r"(r) : "l"(out + 3), "r"(v & 0xffff) : "memory");
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" :: "l"(wide), "l"((u64)v << 8) : "memory");
    asm volatile("red.relaxed.sys.global.and.b64 [%0], %1;" :: "l"(wide + 1), "l"((u64)v | 0xf0000000full) : "memory");
    asm volatile("atom.global.sys.exch.b64 %0, [%1], 99;" : "=l"(q) : "l"(wide + 2) : "memory");
    asm volatile("atom.global.gpu.cas.b64 %0, [%1], 5, 6;" : "=l"(q) : "l"(wide + 3) : "memory");
    (void)r, (void)q;
}

// Additions of bytes and halves by compare and swap of the words that contain them.
KERNEL atomic_bytes(const u8 *in, u32 *out) {
    u32 v = in[thread()], at = v & 31, shift = (at & 3) * 8, old = *(volatile u32 *)(out + at / 4), seen;
    do {
        seen = old;
        u32 sum = (seen >> shift) + v + 1;
        old = atomicCAS(out + at / 4, seen, (seen & ~(255u << shift)) | (sum & 255) << shift);
    } while (old != seen);
}

KERNEL atomic_cas16(const u8 *in, u16 *out) {
    u32 v = in[thread()], old = 0, seen;
    u16 *p = out + (v & 7);
    do {
        seen = old;
        u16 r;
        asm volatile("{ .reg .b16 c; atom.global.cas.b16 %0, [%1], %2, %3; }" : "=h"(r) : "l"(p), "h"((u16)seen), "h"((u16)(seen + v)) : "memory");
        old = r;
    } while (old != seen);
}

// The maximum of doubles, by compare and swap of the bits.
KERNEL atomic_max_double(const double *in, u64 *out) {
    double v = in[thread()];
    u64 bits = __builtin_bit_cast(u64, v), old = *(volatile u64 *)out;
    while (v > __builtin_bit_cast(double, old)) {
        u64 seen = atomicCAS(out, old, bits);
        if (seen == old) break;
        old = seen;
    }
}
