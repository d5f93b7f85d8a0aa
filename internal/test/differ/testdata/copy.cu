// Asynchronous copies to shared memory: cp.async.
#include "differ.h"

#if __CUDA_ARCH__ >= 800
DEVICE u32 shared(const void *p) { u32 a; asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p)); return a; }

KERNEL copy_async(const u32 *in, u32 *out) {
    __shared__ __attribute__((aligned(16))) u32 s[512];
    u32 t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared(s + 4 * t)), "l"(in + blockIdx.x * 512 + 4 * t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (u32 i = t; i < 512; i += 128) out[blockIdx.x * 512 + i] = s[511 - i] * 3;
}

// Two stages in turn. The last part is padded with zeros.
KERNEL copy_stages(const u32 *in, u32 *out, u32 n) {
    __shared__ __attribute__((aligned(16))) u32 s[2][64];
    u32 t = threadIdx.x, tiles = (n + 63) / 64, sum = 0;
    for (u32 k = 0; k <= tiles; k++) {
        if (k < tiles) {
            u32 left = n - min(n, k * 64 + t), bytes = left ? 4 : 0;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(shared(&s[k & 1][t])), "l"(in + (left ? k * 64 + t : 0)), "r"(bytes) : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (k == 0) continue;
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        sum = sum * 3 + s[(k - 1) & 1][t ^ 33];
        __syncthreads();
    }
    out[t] = sum;
}
#endif
