// What corpus.cu uses of CUDA, for a clang without a CUDA installation:
//   clang-19 -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc -nocudalib -fdeclspec \
//     -Xclang -target-feature -Xclang +ptx80 \
//     -S -O2 -include prelude.h corpus.cu -o corpus_clang.ptx
// New kernels use kernels/ferry.h, which has more of CUDA. This file stays for the PTX that
// exists: docs/results has what hardware computed with exactly that of internal/differ, and
// times of internal/workload.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __noinline__ __attribute__((noinline))
#define DEVICE static inline __device__ __attribute__((always_inline))

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };
struct __attribute__((aligned(8))) int2 { int x, y; };
DEVICE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
DEVICE int2 make_int2(int x, int y) { return {x, y}; }

struct tid_t { __declspec(property(get = fx)) unsigned x; __declspec(property(get = fy)) unsigned y; __declspec(property(get = fz)) unsigned z;
    __device__ unsigned fx() const { return __nvvm_read_ptx_sreg_tid_x(); } __device__ unsigned fy() const { return __nvvm_read_ptx_sreg_tid_y(); } __device__ unsigned fz() const { return __nvvm_read_ptx_sreg_tid_z(); } };
struct ctaid_t { __declspec(property(get = fx)) unsigned x; __declspec(property(get = fy)) unsigned y; __declspec(property(get = fz)) unsigned z;
    __device__ unsigned fx() const { return __nvvm_read_ptx_sreg_ctaid_x(); } __device__ unsigned fy() const { return __nvvm_read_ptx_sreg_ctaid_y(); } __device__ unsigned fz() const { return __nvvm_read_ptx_sreg_ctaid_z(); } };
struct ntid_t { __declspec(property(get = fx)) unsigned x; __declspec(property(get = fy)) unsigned y; __declspec(property(get = fz)) unsigned z;
    __device__ unsigned fx() const { return __nvvm_read_ptx_sreg_ntid_x(); } __device__ unsigned fy() const { return __nvvm_read_ptx_sreg_ntid_y(); } __device__ unsigned fz() const { return __nvvm_read_ptx_sreg_ntid_z(); } };
struct nctaid_t { __declspec(property(get = fx)) unsigned x; __declspec(property(get = fy)) unsigned y; __declspec(property(get = fz)) unsigned z;
    __device__ unsigned fx() const { return __nvvm_read_ptx_sreg_nctaid_x(); } __device__ unsigned fy() const { return __nvvm_read_ptx_sreg_nctaid_y(); } __device__ unsigned fz() const { return __nvvm_read_ptx_sreg_nctaid_z(); } };
extern const __device__ __attribute__((weak)) tid_t threadIdx;
extern const __device__ __attribute__((weak)) ctaid_t blockIdx;
extern const __device__ __attribute__((weak)) ntid_t blockDim;
extern const __device__ __attribute__((weak)) nctaid_t gridDim;

DEVICE int __popc(int x) { return __builtin_popcount(x); }
DEVICE int __popcll(long long x) { return __builtin_popcountll(x); }
DEVICE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
DEVICE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
DEVICE unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
DEVICE int __ffs(int x) { return __builtin_ffs(x); }
DEVICE int __mulhi(int x, int y) { return __nvvm_mulhi_i(x, y); }
DEVICE unsigned __umulhi(unsigned x, unsigned y) { return __nvvm_mulhi_ui(x, y); }
DEVICE long long __mul64hi(long long x, long long y) { return __nvvm_mulhi_ll(x, y); }
DEVICE float fmaf(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
DEVICE double fma(double x, double y, double z) { return __nvvm_fma_rn_d(x, y, z); }
DEVICE float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
DEVICE double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
DEVICE float fminf(float x, float y) { return __nvvm_fmin_f(x, y); }
DEVICE float fmaxf(float x, float y) { return __nvvm_fmax_f(x, y); }
DEVICE double fmin(double x, double y) { return __nvvm_fmin_d(x, y); }
DEVICE double fmax(double x, double y) { return __nvvm_fmax_d(x, y); }
DEVICE float fabsf(float x) { return __builtin_fabsf(x); }
DEVICE float rintf(float x) { return __builtin_rintf(x); }
DEVICE float floorf(float x) { return __builtin_floorf(x); }
DEVICE float ceilf(float x) { return __builtin_ceilf(x); }
DEVICE float truncf(float x) { return __builtin_truncf(x); }
DEVICE double floor(double x) { return __builtin_floor(x); }
DEVICE float __fdividef(float x, float y) { return __nvvm_div_approx_f(x, y); }
DEVICE float __fadd_rz(float x, float y) { return __nvvm_add_rz_f(x, y); }
DEVICE float __fmul_ru(float x, float y) { return __nvvm_mul_rp_f(x, y); }
DEVICE float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
DEVICE bool isnan(float x) { return __builtin_isnan(x); }
DEVICE float __saturatef(float x) { return __nvvm_saturate_f(x); }
DEVICE float __sinf(float x) { return __nvvm_sin_approx_f(x); }
DEVICE float __cosf(float x) { return __nvvm_cos_approx_f(x); }
DEVICE float __expf(float x) { return __nvvm_ex2_approx_f(x * 1.4426950408889634f); }
DEVICE float __log2f(float x) { return __nvvm_lg2_approx_f(x); }
DEVICE float rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
DEVICE float __frcp_rn(float x) { return __nvvm_rcp_rn_f(x); }
DEVICE float exp2f(float x) { return __nvvm_ex2_approx_f(x); }
DEVICE float __fsqrt_rn(float x) { return __nvvm_sqrt_rn_f(x); }
// __syncthreads is a builtin of clang.
DEVICE int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
DEVICE void __threadfence_system() { __nvvm_membar_sys(); }
DEVICE void __trap() { __builtin_trap(); }
DEVICE long long clock64() { return __nvvm_read_ptx_sreg_clock64(); }
DEVICE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { return (unsigned)((((unsigned long long)hi << 32 | lo) << (n & 31)) >> 32); }
DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { return __nvvm_prmt(a, b, s); }
DEVICE int __shfl_xor_sync(unsigned m, int v, int k) { return __nvvm_shfl_sync_bfly_i32(m, v, k, 31); }
DEVICE int __shfl_up_sync(unsigned m, int v, int k) { return __nvvm_shfl_sync_up_i32(m, v, k, 0); }
DEVICE int __shfl_down_sync(unsigned m, int v, int k) { return __nvvm_shfl_sync_down_i32(m, v, k, 31); }
DEVICE int __shfl_sync(unsigned m, int v, int k) { return __nvvm_shfl_sync_idx_i32(m, v, k, 31); }
DEVICE unsigned __ballot_sync(unsigned m, int p) { return __nvvm_vote_ballot_sync(m, p); }
DEVICE int __any_sync(unsigned m, int p) { return __nvvm_vote_any_sync(m, p); }
DEVICE int __all_sync(unsigned m, int p) { return __nvvm_vote_all_sync(m, p); }

template <class T> DEVICE T atomicAdd(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
DEVICE unsigned atomicAdd(unsigned *p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
DEVICE float atomicAdd(float *p, float v) { return __nvvm_atom_add_gen_f(p, v); }
template <class T> DEVICE T atomicMin(T *p, T v) { return __atomic_fetch_min(p, v, __ATOMIC_RELAXED); }
template <class T> DEVICE T atomicMax(T *p, T v) { return __atomic_fetch_max(p, v, __ATOMIC_RELAXED); }
template <class T> DEVICE T atomicAnd(T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }
template <class T> DEVICE T atomicOr(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
DEVICE unsigned atomicXor(unsigned *p, unsigned v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }
DEVICE unsigned atomicInc(unsigned *p, unsigned v) { return __nvvm_atom_inc_gen_ui(p, v); }
DEVICE unsigned atomicDec(unsigned *p, unsigned v) { return __nvvm_atom_dec_gen_ui(p, v); }
DEVICE int atomicExch(int *p, int v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
DEVICE int atomicCAS(int *p, int c, int v) { __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); return c; }
