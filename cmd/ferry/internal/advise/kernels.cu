// The kernels that ferry advise runs in place of the user's. kernels.ptx is compiled from this file:
// clang-19 -x cuda --cuda-gpu-arch=sm_20 --cuda-device-only -nocudainc -nocudalib -O2 -S kernels.cu
//
// Each kernel reads the n words of in, times over, and writes the m words of out in the last pass:
// a word that it read, and 1. In each pass other blocks read a word: those seven blocks further.
// The kernels differ in which words a pass reads. The first warp runs for at least the given number of cycles.

#define GLOBAL extern "C" __attribute__((global)) void
typedef unsigned u32;
typedef unsigned long long u64;

#define ARGUMENTS const float *in, float *out, float *sink, u64 n, u64 m, u32 times, u32 number, u64 cycles

static __attribute__((device)) u64 thread_number()
{
    return (u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}

static __attribute__((device)) u64 thread_count()
{
    return (u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
}

// finish runs until the cycles are over, and uses the sum, so that the compiler keeps the reads.
static __attribute__((device)) void finish(float sum, float *sink, u64 start, u64 cycles)
{
    if (sum == -1.0f)
        sink[0] = sum;
    if (cycles != 0 && thread_number() < 32)
        while (__nvvm_read_ptx_sreg_clock64() - start < cycles)
            ;
}

// A pass makes count reads. WORD is the statement that reads for number i, into x.
#define KERNEL(name, count, WORD)                                                                   \
    GLOBAL name(ARGUMENTS)                                                                          \
    {                                                                                               \
        u64 start = __nvvm_read_ptx_sreg_clock64();                                                 \
        u64 all = thread_count(), me = thread_number();                                             \
        u64 ahead = (u64)7 * __nvvm_read_ptx_sreg_ntid_x(), reads = count;                          \
        float sum = 0, x = 0;                                                                       \
        u32 k = 0;                                                                                  \
        for (; k + 1 < times; k++)                                                                  \
            for (u64 i = (me + k * ahead) % all; i < reads; i += all) {                             \
                WORD                                                                                \
                sum += x;                                                                           \
            }                                                                                       \
        u64 i = (me + k * ahead) % all;                                                             \
        for (; i < reads && i < m; i += all) {                                                      \
            WORD                                                                                    \
            sum += x;                                                                               \
            out[i] = x + 1.0f;                                                                      \
        }                                                                                           \
        for (u64 r = i; r < m; r += all)                                                            \
            out[r] = x + 1.0f;                                                                      \
        for (; i < reads; i += all) {                                                               \
            WORD                                                                                    \
            sum += x;                                                                               \
        }                                                                                           \
        finish(sum, sink, start, cycles);                                                           \
    }

KERNEL(stream, n, x = in[i];)

// One word in number.
KERNEL(stride, (n + number - 1) / number, x = in[i * number];)

// As many words as there are, each anywhere.
KERNEL(random, n, {
    u32 h = (u32)i * 0x9e3779b1u + 0x7f4a7c15u;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    x = in[(u64)(h ^ h >> 16) * n >> 32];
})

// Each word with its neighbours. Behind the end it is the last word.
KERNEL(stencil, n, {
    for (u32 j = 0; j < number; j++) {
        x = in[i + j < n ? i + j : n - 1];
        sum += x;
    }
})

// Each block reads all words.
GLOBAL table(ARGUMENTS)
{
    u64 start = __nvvm_read_ptx_sreg_clock64();
    float sum = 0, x = 0;
    for (u32 k = 0; k < times; k++)
        for (u64 i = __nvvm_read_ptx_sreg_tid_x(); i < n; i += __nvvm_read_ptx_sreg_ntid_x()) {
            x = in[i];
            sum += x;
        }
    for (u64 i = thread_number(); i < m; i += thread_count())
        out[i] = x + 1.0f;
    finish(sum, sink, start, cycles);
}
