// The kernel of bench.SpeedPipe and of its peer. work.ptx is compiled from this file:
// clang -x cuda --cuda-gpu-arch=sm_52 --cuda-device-only -nocudainc -nocudalib -O2 -S work.cu

#define GLOBAL extern "C" __attribute__((global)) void
typedef unsigned long long u64;

// Computes out[i] = in[i] + 1 + ... + 1 for i < n, with one dependent addition per round.
// in and out may be the same.
GLOBAL work(float *out, const float *in, u64 n, unsigned rounds)
{
    u64 step = (u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
    for (u64 i = (u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x(); i < n / 4; i += step) {
        typedef float float4 __attribute__((vector_size(16)));
        float4 v = ((const float4 *)in)[i];
        for (unsigned k = 0; k < rounds; k++)
            v += 1.0f;
        ((float4 *)out)[i] = v;
    }
}
