// Products of matrices by tensor cores, each by one warp: mma.sync.
#include "differ.h"

#if __CUDA_ARCH__ >= 800
// 16 x 8 x 32 bytes: the result is exact.
KERNEL tensor_s8(const u32 *a, const u32 *b, i32 *c) {
    u32 l = lane();
    i32 d[4];
    a += blockIdx.x * 128; b += blockIdx.x * 64; c += blockIdx.x * 128;
    for (int i = 0; i < 4; i++) d[i] = c[l * 4 + i];
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[l]), "r"(a[l + 32]), "r"(a[l + 64]), "r"(a[l + 96]), "r"(b[l]), "r"(b[l + 32]));
    for (int i = 0; i < 4; i++) c[l * 4 + i] = d[i];
}

// Small integers in halves: sums are exact in any order.
KERNEL tensor_f16(const u32 *a, const u32 *b, float *c) {
    u32 l = lane();
    float d[4];
    a += blockIdx.x * 128; b += blockIdx.x * 64; c += blockIdx.x * 128;
    for (int i = 0; i < 4; i++) d[i] = c[l * 4 + i];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[l]), "r"(a[l + 32]), "r"(a[l + 64]), "r"(a[l + 96]), "r"(b[l]), "r"(b[l + 32]));
    for (int i = 0; i < 4; i++) c[l * 4 + i] = d[i];
}

// Any halves: hardware adds in an unknown order and precision.
KERNEL tensor_f16_any(const u32 *a, const u32 *b, float *c) {
    u32 l = lane();
    float d[4] = {};
    a += blockIdx.x * 128; b += blockIdx.x * 64; c += blockIdx.x * 128;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[l]), "r"(a[l + 32]), "r"(a[l + 64]), "r"(a[l + 96]), "r"(b[l]), "r"(b[l + 32]));
    for (int i = 0; i < 4; i++) c[l * 4 + i] = d[i];
}

KERNEL tensor_bf16(const u32 *a, const u32 *b, float *c) {
    u32 l = lane();
    float d[4];
    a += blockIdx.x * 128; b += blockIdx.x * 64; c += blockIdx.x * 128;
    for (int i = 0; i < 4; i++) d[i] = c[l * 4 + i];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[l]), "r"(a[l + 32]), "r"(a[l + 64]), "r"(a[l + 96]), "r"(b[l]), "r"(b[l + 32]));
    for (int i = 0; i < 4; i++) c[l * 4 + i] = d[i];
}

KERNEL tensor_f64(const double *a, const double *b, double *c) {
    u32 l = lane();
    double d0 = c[blockIdx.x * 64 + 2 * l], d1 = c[blockIdx.x * 64 + 2 * l + 1];
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(d0), "+d"(d1) : "d"(a[blockIdx.x * 32 + l]), "d"(b[blockIdx.x * 32 + l]));
    c[blockIdx.x * 64 + 2 * l] = d0;
    c[blockIdx.x * 64 + 2 * l + 1] = d1;
}

// Loads a tile of shared memory into the fragments of a product.
KERNEL tensor_ldmatrix(const u32 *in, u32 *out) {
    __shared__ __attribute__((aligned(16))) u32 s[128];
    u32 l = lane(), r0, r1, r2, r3, at;
    for (int i = 0; i < 4; i++) s[l + 32 * i] = in[blockIdx.x * 128 + l + 32 * i];
    __syncwarp();
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(at) : "l"(s + 4 * l));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(at) : "memory");
    u32 sum = r0 + 3 * r1 + 5 * r2 + 7 * r3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(at) : "memory");
    out[blockIdx.x * 32 + l] = sum + 11 * r0 + 13 * r1;
}
#endif
