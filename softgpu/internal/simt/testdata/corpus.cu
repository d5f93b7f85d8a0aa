// Ordinary kernels, written to make compilers use the instructions that users
// meet. corpus_nvcc.ptx and corpus_clang.ptx are what two compilers made of it.

typedef unsigned int u32;
typedef unsigned long long u64;
#define G extern "C" __global__ void
#define TID (blockIdx.x * blockDim.x + threadIdx.x)

G add_one_each(const float *a, const float *b, float *c, int n) { int i = TID; if (i < n) c[i] = a[i] + b[i]; }

G saxpy(float a, const float *x, float *y, int n) { int i = TID; if (i < n) y[i] = a * x[i] + y[i]; }

G int_ops(const int *a, const int *b, int *out, int n)
{
    int i = TID;
    if (i >= n) return;
    int x = a[i], y = b[i];
    u32 ux = x, uy = y;
    int *o = out + i * 24;
    o[0] = x + y; o[1] = x - y; o[2] = x * y; o[3] = y ? x / y : 0; o[4] = y ? x % y : 0;
    o[5] = uy ? ux / uy : 0; o[6] = uy ? ux % uy : 0; o[7] = x & y; o[8] = x | y; o[9] = x ^ y;
    o[10] = ~x; o[11] = x << (y & 31); o[12] = x >> (y & 31); o[13] = ux >> (uy & 31);
    o[14] = x < y ? x : y; o[15] = x > y ? x : y; o[16] = ux < uy ? ux : uy; o[17] = x < 0 ? -x : x;
    o[18] = __popc(x); o[19] = __clz(x); o[20] = __brev(x); o[21] = __mulhi(x, y); o[22] = __umulhi(ux, uy);
    o[23] = __ffs(x);
}

G long_ops(const long long *a, const long long *b, long long *out, int n)
{
    int i = TID;
    if (i >= n) return;
    long long x = a[i], y = b[i];
    u64 ux = x, uy = y;
    long long *o = out + i * 16;
    o[0] = x + y; o[1] = x * y; o[2] = y ? x / y : 0; o[3] = y ? x % y : 0; o[4] = uy ? ux / uy : 0;
    o[5] = uy ? ux % uy : 0; o[6] = x << (y & 63); o[7] = x >> (y & 63); o[8] = ux >> (uy & 63);
    o[9] = __popcll(x); o[10] = __clzll(x); o[11] = __brevll(x); o[12] = __mul64hi(x, y);
    o[13] = x < y; o[14] = ux < uy; o[15] = (int)x;
}

G float_ops(const float *a, const float *b, float *out, int n)
{
    int i = TID;
    if (i >= n) return;
    float x = a[i], y = b[i], *o = out + i * 24;
    o[0] = x + y; o[1] = x - y; o[2] = x * y; o[3] = x / y; o[4] = fmaf(x, y, 1.5f); o[5] = sqrtf(x);
    o[6] = fminf(x, y); o[7] = fmaxf(x, y); o[8] = fabsf(x); o[9] = -x; o[10] = rintf(x); o[11] = floorf(x);
    o[12] = ceilf(x); o[13] = truncf(x); o[14] = (float)(int)x; o[15] = (float)(u32)y; o[16] = __fdividef(x, y);
    o[17] = x < y ? x : y; o[18] = 1.0f / x; o[19] = __fadd_rz(x, y); o[20] = __fmul_ru(x, y);
    o[21] = copysignf(x, y); o[22] = isnan(x) ? 1.f : 0.f; o[23] = __saturatef(x);
}

G double_ops(const double *a, const double *b, double *out, int n)
{
    int i = TID;
    if (i >= n) return;
    double x = a[i], y = b[i], *o = out + i * 12;
    o[0] = x + y; o[1] = x - y; o[2] = x * y; o[3] = x / y; o[4] = fma(x, y, 1.5); o[5] = sqrt(x);
    o[6] = fmin(x, y); o[7] = fmax(x, y); o[8] = (double)(float)x; o[9] = (double)(long long)x; o[10] = floor(x);
    o[11] = (double)(int)y;
}

G approx_ops(const float *a, float *out, int n)
{
    int i = TID;
    if (i >= n) return;
    float x = a[i], *o = out + i * 8;
    o[0] = __sinf(x); o[1] = __cosf(x); o[2] = __expf(x); o[3] = __log2f(x); o[4] = rsqrtf(x); o[5] = __frcp_rn(x);
    o[6] = exp2f(x); o[7] = __fsqrt_rn(x);
}

G narrow_ops(const signed char *a, const unsigned char *b, const short *c, const unsigned short *d, int *out, int n)
{
    int i = TID;
    if (i >= n) return;
    signed char x = a[i]; unsigned char y = b[i]; short z = c[i]; unsigned short w = d[i];
    int *o = out + i * 6;
    o[0] = x + y; o[1] = z * w; o[2] = (signed char)(x + z); o[3] = (unsigned char)(y + w); o[4] = (short)(z + w);
    o[5] = (unsigned short)(z - y);
}

G vectors(const float4 *a, float4 *out, const int2 *b, int2 *out2, int n)
{
    int i = TID;
    if (i >= n) return;
    float4 v = a[i];
    int2 w = b[i];
    out[i] = make_float4(v.w, v.z, v.y, v.x);
    out2[i] = make_int2(w.y + 1, w.x - 1);
}

G grid3d(u32 *out)
{
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
        z = blockIdx.z * blockDim.z + threadIdx.z, w = gridDim.x * blockDim.x, h = gridDim.y * blockDim.y;
    out[(z * h + y) * w + x] = x | y << 10 | z << 20;
}

G reduce_shared(const float *in, float *out, int n)
{
    __shared__ float s[256];
    int t = threadIdx.x, i = TID;
    s[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

G reverse_dynamic(const int *in, int *out)
{
    extern __shared__ int d[];
    int t = threadIdx.x;
    d[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    out[blockIdx.x * blockDim.x + t] = d[blockDim.x - 1 - t];
}

G transpose(const float *in, float *out, int w, int h)
{
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x; y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y];
}

G histogram(const unsigned char *in, u32 *bins, int n)
{
    __shared__ u32 s[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) s[k] = 0;
    __syncthreads();
    for (int i = TID; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[in[i]], 1);
    __syncthreads();
    for (int k = threadIdx.x; k < 256; k += blockDim.x) if (s[k]) atomicAdd(&bins[k], s[k]);
}

G atomics(int *x, u32 *u, u64 *l, float *f, int n)
{
    int i = TID;
    if (i >= n) return;
    atomicAdd(&x[0], i); atomicMin(&x[1], i - 7); atomicMax(&x[2], i); atomicAnd(&u[0], ~(1u << (i & 31)));
    atomicOr(&u[1], 1u << (i & 31)); atomicXor(&u[2], i); atomicInc(&u[3], 99); atomicDec(&u[4], 99);
    atomicAdd(&l[0], (u64)i); atomicMax(&l[1], (u64)i << 33); atomicAdd(&f[0], 1.0f);
    int old, want = x[3];
    do { old = want; want = atomicCAS(&x[3], old, old + 2); } while (want != old);
    atomicExch(&x[4], 77);
}

G collatz(const u32 *in, u32 *steps, int n)
{
    int i = TID;
    if (i >= n) return;
    u32 x = in[i], k = 0;
    while (x != 1) { x = (x & 1) ? 3 * x + 1 : x >> 1; k++; }
    steps[i] = k;
}

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
G recursion(int *out, int n) { int i = TID; if (i < n) out[i] = fib(i % 12); }

G nested(const int *in, int *out, int n)
{
    int i = TID, acc = 0;
    if (i >= n) return;
    for (int a = 0; a < in[i]; a++) {
        if (a % 3 == 0) continue;
        for (int b = a; b < 10; b++) {
            if (b == 7) break;
            switch (b & 3) { case 0: acc += a; break; case 1: acc -= b; break; case 2: acc ^= a * b; break; default: acc++; }
        }
    }
    out[i] = acc;
}

__constant__ float table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__device__ int counter = 5;
__device__ int2 pairs[4] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
__device__ __managed__ int shared_with_host = 11;
G globals(float *out, int *o2, int n)
{
    int i = TID;
    if (i >= n) return;
    out[i] = table[i & 7];
    o2[i] = pairs[i & 3].x * 10 + pairs[i & 3].y + shared_with_host;
    if (i == 0) counter += 1, shared_with_host += 1;
}

struct params { int a; float b; double c; unsigned char d[5]; };
G structs(params p, float *out) { out[0] = p.a; out[1] = p.b; out[2] = (float)p.c; for (int i = 0; i < 5; i++) out[3 + i] = p.d[i]; }

G local_array(const int *idx, int *out, int n)
{
    int i = TID, a[16];
    if (i >= n) return;
    for (int k = 0; k < 16; k++) a[k] = k * k + i;
    out[i] = a[idx[i] & 15];
}

G shuffles(const int *in, int *out)
{
    int v = in[TID], s = v;
    for (int k = 16; k; k >>= 1) s += __shfl_xor_sync(~0u, s, k);
    int up = __shfl_up_sync(~0u, v, 1), down = __shfl_down_sync(~0u, v, 3), from = __shfl_sync(~0u, v, 5);
    u32 ballot = __ballot_sync(~0u, v & 1);
    int *o = out + TID * 7;
    o[0] = s; o[1] = up; o[2] = down; o[3] = from; o[4] = ballot; o[5] = __any_sync(~0u, v == 3); o[6] = __all_sync(~0u, v >= 0);
}

G bits64(const u64 *in, u32 *out, int n)
{
    int i = TID;
    if (i >= n) return;
    u64 v = in[i];
    out[3 * i] = (u32)v; out[3 * i + 1] = (u32)(v >> 32); out[3 * i + 2] = __funnelshift_l((u32)v, (u32)(v >> 32), i & 31) + __byte_perm((u32)v, i, 0x3214);
}

// The host writes flags[0] = 1, 2, ...; the kernel answers in flags[1].
G ping_pong(volatile int *flags, int rounds)
{
    for (int r = 1; r <= rounds; r++) {
        while (flags[0] != r) { }
        flags[1] = r;
        __threadfence_system();
    }
}

G out_of_bounds(int *p, long long at) { if (TID == 3) p[at] = 1; }
G misaligned(char *p) { if (TID == 3) *(int *)(p + 1) = 1; }
G spin(long long cycles) { long long t = clock64(); while (clock64() - t < cycles) { } }
G trap_here(int n) { if (TID == n) __trap(); }
G barrier_count(int *out) { int c = __syncthreads_count(threadIdx.x & 1); if (threadIdx.x == 0) out[blockIdx.x] = c; }
