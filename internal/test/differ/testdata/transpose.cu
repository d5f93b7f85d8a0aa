// Transposes: naive, through shared memory, padded against bank conflicts, of bytes.
#include "differ.h"

KERNEL transpose_naive(const float *in, float *out, u32 w, u32 h) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[x * h + y] = in[y * w + x];
}

template <int PAD> DEVICE void tiled(const u32 *in, u32 *out, u32 w, u32 h) {
    __shared__ u32 tile[16][16 + PAD];
    u32 x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y];
}

KERNEL transpose_shared(const u32 *in, u32 *out, u32 w, u32 h) { tiled<0>(in, out, w, h); }
KERNEL transpose_padded(const u32 *in, u32 *out, u32 w, u32 h) { tiled<1>(in, out, w, h); }

KERNEL transpose_bytes(const u8 *in, u8 *out, u32 w, u32 h) {
    __shared__ u8 tile[32][33];
    for (u32 k = threadIdx.y; k < 32; k += blockDim.y) {
        u32 x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + k;
        if (x < w && y < h) tile[k][threadIdx.x] = in[y * w + x];
    }
    __syncthreads();
    for (u32 k = threadIdx.y; k < 32; k += blockDim.y) {
        u32 x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + k;
        if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][k];
    }
}

// A warp transposes the bits of 32 words of 32 bits.
KERNEL transpose_bits(const u32 *in, u32 *out) {
    u32 x = in[thread()], m = 0xffff;
    for (int k = 16; k > 0; k >>= 1, m ^= m << k) {
        u32 y = __shfl_xor_sync(FULL, x, k);
        x = lane() & k ? (x & ~m) | ((y >> k) & m) : (x & m) | ((y << k) & ~m);
    }
    out[thread()] = x;
}
