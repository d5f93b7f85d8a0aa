// Products of matrices.
#include "differ.h"

KERNEL matrix_naive(const float *a, const float *b, float *c, u32 n) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    float sum = 0;
    for (u32 k = 0; k < n; k++) sum = fmaf(a[y * n + k], b[k * n + x], sum);
    c[y * n + x] = sum;
}

KERNEL matrix_tiled(const float *a, const float *b, float *c, u32 n) {
    __shared__ float s[16][16], t[16][17];
    u32 x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (u32 k = 0; k < n; k += 16) {
        s[threadIdx.y][threadIdx.x] = y < n && k + threadIdx.x < n ? a[y * n + k + threadIdx.x] : 0;
        t[threadIdx.y][threadIdx.x] = x < n && k + threadIdx.y < n ? b[(k + threadIdx.y) * n + x] : 0;
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < 16; i++) sum = fmaf(s[threadIdx.y][i], t[i][threadIdx.x], sum);
        __syncthreads();
    }
    if (x < n && y < n) c[y * n + x] = sum;
}

KERNEL matrix_double(const double *a, const double *b, double *c, u32 n) {
    u32 i = thread();
    if (i >= n * n) return;
    double sum = 0;
    for (u32 k = 0; k < n; k++) sum = fma(a[i / n * n + k], b[k * n + i % n], sum);
    c[i] = sum;
}

// Four multiplications of bytes at a time.
KERNEL matrix_dp4a(const i32 *a, const i32 *b, i32 *c, u32 n, u32 words) {
    u32 i = thread();
    if (i >= n * n) return;
    i32 sum = 0;
    for (u32 k = 0; k < words; k++) {
        i32 x = a[i / n * words + k], y = b[i % n * words + k];
        asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(y));
    }
    c[i] = sum;
}

// 4 x 4 results per thread in registers.
KERNEL matrix_registers(const float *a, const float *b, float *c, u32 n) {
    float sum[4][4] = {};
    u32 x = (blockIdx.x * blockDim.x + threadIdx.x) * 4, y = (blockIdx.y * blockDim.y + threadIdx.y) * 4;
    for (u32 k = 0; k < n; k++) {
        float4 r = *(const float4 *)(b + k * n + x);
        for (int i = 0; i < 4; i++) {
            float l = a[(y + i) * n + k];
            sum[i][0] = fmaf(l, r.x, sum[i][0]);
            sum[i][1] = fmaf(l, r.y, sum[i][1]);
            sum[i][2] = fmaf(l, r.z, sum[i][2]);
            sum[i][3] = fmaf(l, r.w, sum[i][3]);
        }
    }
    for (int i = 0; i < 4; i++) *(float4 *)(c + (y + i) * n + x) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

// Gaussian elimination with pivots, one block per system.
KERNEL matrix_solve(const double *in, double *out) {
    __shared__ double m[8][9];
    __shared__ int pivot;
    u32 t = threadIdx.x;
    for (u32 k = t; k < 72; k += 8) m[k / 9][k % 9] = in[blockIdx.x * 72 + k];
    __syncthreads();
    for (int c = 0; c < 8; c++) {
        if (t == 0) {
            pivot = c;
            for (int r = c + 1; r < 8; r++)
                if (m[r][c] * m[r][c] > m[pivot][c] * m[pivot][c]) pivot = r;
        }
        __syncthreads();
        if (pivot != c)
            for (u32 k = t; k < 9; k += 8) { double x = m[c][k]; m[c][k] = m[pivot][k]; m[pivot][k] = x; }
        __syncthreads();
        double f = m[t][c] / m[c][c];
        __syncthreads();
        if ((int)t != c)
            for (int k = c; k < 9; k++) m[t][k] = fma(-f, m[c][k], m[t][k]);
        __syncthreads();
    }
    out[blockIdx.x * 8 + t] = m[t][8] / m[t][t];
}
