// Stencils. IEEE 754 defines the result of every operation on floats.
#include "differ.h"

KERNEL stencil_1d(const float *in, float *out, u32 n) {
    __shared__ float s[128 + 6];
    u32 i = thread(), t = threadIdx.x + 3;
    s[t] = i < n ? in[i] : 0;
    if (threadIdx.x < 3) {
        s[t - 3] = i >= 3 ? in[i - 3] : 0;
        s[t + 128] = i + 128 < n ? in[i + 128] : 0;
    }
    __syncthreads();
    float sum = 0;
    for (int k = -3; k <= 3; k++) sum = fmaf(s[t + k], 1.0f / (k * k + 1), sum);
    if (i < n) out[i] = sum;
}

KERNEL stencil_2d(const float *in, float *out, u32 w, u32 h) {
    __shared__ float s[10][18];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    for (u32 k = threadIdx.y * 16 + threadIdx.x; k < 180; k += 128) {
        int gx = (int)(blockIdx.x * 16 + k % 18) - 1, gy = (int)(blockIdx.y * 8 + k / 18) - 1;
        s[k / 18][k % 18] = gx >= 0 && gy >= 0 && gx < (int)w && gy < (int)h ? in[gy * w + gx] : 0;
    }
    __syncthreads();
    if (x >= (int)w || y >= (int)h) return;
    u32 a = threadIdx.x + 1, b = threadIdx.y + 1;
    out[y * w + x] = 0.25f * (s[b - 1][a] + s[b + 1][a] + s[b][a - 1] + s[b][a + 1]) - s[b][a];
}

KERNEL stencil_3d(const double *in, double *out, u32 n) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= n || y >= n || z >= n) return;
    u32 i = (z * n + y) * n + x;
    if (x == 0 || y == 0 || z == 0 || x == n - 1 || y == n - 1 || z == n - 1) { out[i] = in[i]; return; }
    out[i] = in[i] + 0.1 * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - n * n] + in[i + n * n] - 6 * in[i]);
}

KERNEL stencil_life(const u8 *in, u8 *out, u32 w, u32 h) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int sum = 0;
    for (u32 dy = h - 1; dy <= h + 1; dy++)
        for (u32 dx = w - 1; dx <= w + 1; dx++)
            if (dx != w || dy != h) sum += in[(y + dy) % h * w + (x + dx) % w] & 1;
    out[y * w + x] = sum == 3 || (sum == 2 && (in[y * w + x] & 1));
}

// The Sobel operator on bytes, saturated.
KERNEL stencil_sobel(const u8 *in, u8 *out, u32 w, u32 h) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x + 1 >= w || y + 1 >= h) return;
    const u8 *p = in + y * w + x;
    int gx = p[1 - (int)w] + 2 * p[1] + p[1 + w] - p[-1 - (int)w] - 2 * p[-1] - p[w - 1];
    int gy = p[w - 1] + 2 * p[w] + p[w + 1] - p[-1 - (int)w] - 2 * p[-(int)w] - p[1 - (int)w];
    out[y * w + x] = (u8)min((int)sqrtf((float)(gx * gx + gy * gy)), 255);
}
