// Kernels that each do one kind of work, to measure their speed. clang 19 compiled them to
// workload.ptx, with the command in ../simt/testdata/prelude.h.

typedef unsigned int u32;
#define G extern "C" __global__ void
#define TID (blockIdx.x * blockDim.x + threadIdx.x)

// One element per thread.
G vector_add(const float *a, const float *b, float *c, int n) { int i = TID; if (i < n) c[i] = a[i] + b[i]; }

// Integer arithmetic: two dependent instructions in each round of the loop.
G arithmetic(u32 *out, int rounds)
{
    u32 i = TID, x = i;
#pragma unroll 1
    for (int k = 0; k < rounds; k++) {
        x = x * 1664525u + 1013904223u;
        x ^= i;
    }
    out[i] = x;
}

G arithmetic_f32(float *out, int rounds)
{
    u32 i = TID;
    float x = (float)i, y = 0.5f;
#pragma unroll 1
    for (int k = 0; k < rounds; k++) {
        y = fmaf(x, 0.999f, y);
        x = x * 0.75f + 1.0f;
    }
    out[i] = x + y;
}

G arithmetic_f64(double *out, int rounds)
{
    u32 i = TID;
    double x = (double)i, y = 0.5;
#pragma unroll 1
    for (int k = 0; k < rounds; k++) {
        y = fma(x, 0.999, y);
        x = x * 0.75 + 1.0;
    }
    out[i] = x + y;
}

// Transposes through shared memory, with blocks of 32 by 8 threads and tiles of 32 by 32.
G transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

// Sums each block of 256 numbers. Each step adds the upper half to the lower half.
G reduce_barrier(const float *in, float *out)
{
    __shared__ float part[256];
    u32 t = threadIdx.x;
    part[t] = in[TID];
    __syncthreads();
#pragma unroll 1
    for (u32 s = 128; s > 0; s >>= 1) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

// The same with shuffles.
G reduce_shuffle(const int *in, int *out)
{
    __shared__ int part[8];
    u32 t = threadIdx.x;
    int v = in[TID];
#pragma unroll
    for (int s = 16; s > 0; s >>= 1) v += __shfl_down_sync(~0u, v, s);
    if ((t & 31) == 0) part[t >> 5] = v;
    __syncthreads();
    if (t < 32) {
        v = t < 8 ? part[t] : 0;
#pragma unroll
        for (int s = 4; s > 0; s >>= 1) v += __shfl_down_sync(~0u, v, s);
        if (t == 0) out[blockIdx.x] = v;
    }
}

// Every thread loops until its point diverges.
G mandelbrot(u32 *out, int width, int limit)
{
    u32 i = TID;
    float cx = -2.0f + 3.0f * (float)(i % width) / (float)width, cy = -1.5f + 3.0f * (float)(i / width) / (float)width;
    float x = 0, y = 0;
    int k = 0;
#pragma unroll 1
    while (k < limit) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4.0f) break;
        y = 2.0f * x * y + cy;
        x = xx - yy + cx;
        k++;
    }
    out[i] = k;
}

// Multiplies n by n matrices in tiles of 16 by 16.
G matrix_product(const float *a, const float *b, float *c, int n)
{
    __shared__ float ta[16][16], tb[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        ta[ty][tx] = a[y * n + t + tx];
        tb[ty][tx] = b[(t + ty) * n + x];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) sum = fmaf(ta[ty][k], tb[k][tx], sum);
        __syncthreads();
    }
    c[y * n + x] = sum;
}

// Counts the low bytes in shared memory, then adds the counts of all blocks.
G histogram(const u32 *in, u32 *out, int n)
{
    __shared__ u32 bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = TID; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i] & 255], 1);
    __syncthreads();
    atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
