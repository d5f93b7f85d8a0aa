// Source of clang.ptx, which shows a second compiler's style. To make it again:
//
//	clang-19 -x cuda --cuda-gpu-arch=sm_80 --cuda-feature=+ptx78 --cuda-device-only -nocudainc -nocudalib -S -O2 -o clang.ptx clang.cu

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define K extern "C" __global__ void
#define TID (__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x())

struct Pair { float a; double b; };
struct Node { const Node *next; int value; };

__constant__ float weights[5] = {1.0f, 0.5f, 0.25f, -1.0f, 1e-30f};
__device__ int counter = 42;
__device__ Node tail = {nullptr, 1};
__device__ Node head = {&tail, 2};
__device__ const char *names[2] = {"left", "right"};
__device__ double matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
extern __shared__ int dynamic[];

extern "C" __device__ int vprintf(const char *, void *);

__device__ __attribute__((noinline)) int twice(int x) { return x + x + counter; }
__device__ __attribute__((noinline)) int thrice(int x) { return x * 3 + counter; }
__device__ __attribute__((noinline)) Pair swap(Pair p) { return {(float)p.b, (double)p.a}; }
__device__ int (*const table[2])(int) = {twice, thrice};

K axpy(int n, float a, const float *x, float *y) { int i = TID; if (i < n) y[i] = a * x[i] + y[i]; }

K __launch_bounds__(128, 4) reduce(const int *in, int *out, int n)
{
    __shared__ int part[128];
    int t = __nvvm_read_ptx_sreg_tid_x(), sum = 0;
    for (int i = TID; i < n; i += 128 * __nvvm_read_ptx_sreg_nctaid_x()) sum += in[i];
    part[t] = sum;
    for (int s = 64; s > 0; s /= 2) {
        __nvvm_bar_sync(0);
        if (t < s) part[t] += part[t + s];
    }
    if (t == 0) __nvvm_atom_add_gen_i(out, part[0] + dynamic[0]);
}

K structs(Pair p, Pair *out, char c, short s, long long l)
{
    Pair q = swap(p);
    q.a += c + s;
    q.b += l;
    out[TID] = q;
}

K pick(int which, int *out) { out[0] = table[which & 1](which) + head.next->value; }

K cases(int which, float *out)
{
    float v = out[0];
    switch (which) {
    case 0: v += 1.5f; break;
    case 1: v *= weights[which]; break;
    case 2: v = __nvvm_sqrt_rn_f(v); break;
    case 3: v = -v; break;
    case 4: v = v / 3; break;
    case 5: v = __builtin_fabsf(v); break;
    default: v = __builtin_nanf("");
    }
    out[0] = v;
}

K doubles(double *d, int row) { d[TID] = matrix[row & 1][TID % 3] * d[TID] + 0.1; }

K assembly(int *out, int n)
{
    int v;
    asm volatile("{ .reg .pred p;\n\t.reg .b32 t;\n\tmov.b32 t, 0;\n"
                 "again: add.s32 t, t, 1;\n\tsetp.lt.s32 p, t, %1;\n\t@p bra again;\n\tmov.b32 %0, t; }" : "=r"(v) : "r"(n));
    int w;
    asm volatile("{ .reg .pred p;\n\t.reg .b32 t;\n\tmov.b32 t, 0;\n"
                 "again: add.s32 t, t, 2;\n\tsetp.lt.s32 p, t, %1;\n\t@p bra again;\n\tmov.b32 %0, t; }" : "=r"(w) : "r"(n));
    out[0] = v + w;
    out[1] = __nvvm_shfl_sync_bfly_i32(~0u, v, 1, 31);
}

K say(int n)
{
    struct { int n; const char *s; } args = {n, names[n & 1]};
    vprintf("%d is %s\n", &args);
}

K local(int *out, int n)
{
    int a[16];
    for (int i = 0; i < 16; i++) a[i] = out[i] * n;
    out[0] = a[n & 15];
}
