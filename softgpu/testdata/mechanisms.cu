// Kernels that each isolate one reason for the time of a kernel. mechanisms.ptx is compiled
// from this file: clang-19 -O2 -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc
// -nocudalib -S mechanisms.cu -o mechanisms.ptx

#define KERNEL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))
typedef unsigned u32;
typedef unsigned long long u64;
#define LANE __nvvm_read_ptx_sreg_tid_x()
#define THREAD (__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + LANE)
#define THREADS (__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x())

// Follows a chain of indices. Each load needs the result of the one before.
KERNEL follow(u32 *out, const u32 *next, u32 steps)
{
    u32 at = 0;
    for (u32 i = 0; i < steps; i++)
        at = next[at];
    *out = at;
}

// The same, without the caches of multiprocessors.
KERNEL follow_volatile(u32 *out, const volatile u32 *next, u32 steps)
{
    u32 at = 0;
    for (u32 i = 0; i < steps; i++)
        at = next[at];
    *out = at;
}

// Sums n words, one load a thread at a time.
KERNEL sum(float *out, const float *in, u32 n)
{
    float s = 0;
#pragma unroll 1
    for (u32 i = THREAD; i < n; i += THREADS)
        s += in[i];
    out[THREAD] = s;
}

// Sums neighbours of each word.
KERNEL neighbours(float *out, const float *in, u32 n, u32 count)
{
    u32 i = THREAD;
    float s = 0;
    for (u32 k = 0; k < count; k++)
        s += in[i + k < n ? i + k : i];
    out[i] = s;
}

// Sums a table of n words in every block, rounds times.
KERNEL table(float *out, const float *in, u32 n, u32 rounds)
{
    float s = 0;
#pragma unroll 1
    for (u32 r = 0; r < rounds; r++)
#pragma unroll 1
        for (u32 i = LANE; i < n; i += __nvvm_read_ptx_sreg_ntid_x())
            s += in[i];
    out[THREAD] = s;
}

// Loads words in any order.
KERNEL pick(float *out, const float *in, const u32 *index)
{
    out[THREAD] = in[index[THREAD]];
}

// Stores words in any order.
KERNEL put(float *out, const u32 *index)
{
    out[index[THREAD]] = 1;
}

// Counts numbers in global memory.
KERNEL count(u32 *bins, const u32 *index)
{
    __nvvm_atom_add_gen_i((int *)bins + index[THREAD], 1);
}

// Chains of arithmetic.
KERNEL roots(float *out, float x, u32 steps)
{
    for (u32 i = 0; i < steps; i++)
        x = __nvvm_sqrt_approx_f(x) + 1.5f;
    out[THREAD] = x;
}

KERNEL quotients(u32 *out, u32 x, u32 y, u32 steps)
{
    for (u32 i = 0; i < steps; i++)
        x = (x + 0x9e3779b9u) / y + i;
    out[THREAD] = x;
}

KERNEL products(float *out, float x, u32 steps)
{
    for (u32 i = 0; i < steps; i++)
        x = x * 0.999f + 1.0f;
    out[THREAD] = x;
}

// The first warp follows a chain while the others wait for it.
KERNEL wait_for_first(u32 *out, const volatile u32 *next, u32 steps)
{
    u32 at = 0;
    if (LANE < 32)
        for (u32 i = 0; i < steps; i++)
            at = next[at];
    __nvvm_bar_sync(0);
    out[LANE] = at;
}

// Loads 4 words that do not need each other.
KERNEL four(u32 *out, const volatile u32 *in)
{
    u32 a = in[0], b = in[64], c = in[128], d = in[192];
    *out = a + b + c + d;
}

// Polls a word until it changes.
KERNEL poll(u32 *out, const volatile u32 *flag)
{
    while (*flag == 0) {
    }
    *out = 1;
}
