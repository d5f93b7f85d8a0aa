// The kernels of "ferry bench" that package kernels does not have. load.ptx is
// compiled from this file: clang -x cuda --cuda-gpu-arch=sm_52 --cuda-device-only
// -nocudainc -nocudalib -O2 -S load.cu, then kernels/lower.sh.

#define GLOBAL extern "C" __attribute__((global)) void
typedef unsigned long long u64;

// Reads n words that are stride words apart, each thread one word at a time. It writes the
// sum to out if it is one certain number, which it never is, so that the reads are kept.
GLOBAL read_words(float *out, const float *in, u64 n, u64 stride)
{
    u64 step = (u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
    float sum = 0;
    for (u64 i = (u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x(); i < n; i += step)
        sum += in[i * stride];
    if (sum == 12345.678f)
        *out = sum;
}

// Computes rounds of four independent multiply-adds.
GLOBAL arithmetic(float *out, float x, unsigned rounds)
{
    float a = x, b = x + 1, c = x + 2, d = x + 3;
    for (unsigned i = 0; i < rounds; i++) {
        a = a * x + 1;
        b = b * x + 2;
        c = c * x + 3;
        d = d * x + 4;
    }
    if (a + b + c + d == 12345.678f)
        *out = a;
}

// Each thread adds one to a word of out. Consecutive threads use consecutive words, modulo
// the given number of words.
GLOBAL add_words(unsigned *out, unsigned words)
{
    unsigned i = __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
    __nvvm_atom_add_gen_i(((int *)out) + i % words, 1);
}
