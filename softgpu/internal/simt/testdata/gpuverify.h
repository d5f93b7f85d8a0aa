// Names that the test suite of GPUVerify expects, for TestGPUVerify. A precondition that is
// not met stores in gv_unmet or, in OpenCL, traps, so that the test drops the run. What a verifier has to prove
// is dropped.
#ifdef __OPENCL_C_VERSION__
#include "gpuverify_cl.h"
#define GV_UNMET __asm__ volatile("trap;")
#else
#include <cooperative_groups.h>
#include <cstddef>
#include <cstdint>
__device__ unsigned gv_unmet;
#define GV_UNMET (atomicOr(&gv_unmet, 1u), gv_exit())
__device__ inline void gv_exit() { asm volatile("exit;"); }
#endif
#define __requires(e)        \
    do {                     \
        if (!(e)) GV_UNMET;  \
    } while (0)
#define __assume(e) __requires(e)
#define __requires_fresh_array(p) ((void)0)
#define __global_requires(e) ((void)0)
#define __assert(e) ((void)0)
#define __global_assert(e) ((void)0)
#define __global_ensures(e) ((void)0)
#define __ensures(e) ((void)0)
#define __function_wide_invariant(e) ((void)0)
#define __function_wide_candidate_invariant(e) ((void)0)
#define __invariant(e) 1
#define __candidate_invariant(e) 1
#define __candidate_global_invariant(e) 1
#define __global_invariant(e) 1
#define __barrier_invariant(...) ((void)0)
#define __barrier_invariant_1(...) ((void)0)
#define __barrier_invariant_2(...) ((void)0)
#define __barrier_invariant_binary_1(...) ((void)0)
#define __barrier_invariant_binary_2(...) ((void)0)
#define __axiom(e)
#define __reads_from(...) ((void)0)
#define __writes_to(...) ((void)0)
#define __reads_from_local(...) ((void)0)
#define __writes_to_local(...) ((void)0)
#define __array_snapshot(...) ((void)0)
#define __implies(a, b) (!(a) || (b))
#define __enabled() 1
#define __uniform_bool(e) 1
#define __uniform_int(e) 1
#define __distinct_int(e) 1
#define __read_implies(a, e) 1
#define __write_implies(a, e) 1
#define __no_read(e) 1
#define __no_write(e) 1
#define __ptr_offset_bytes(p) 0
#define __is_pow2(x) (((x) & ((x) - 1)) == 0)
#define __mod_pow2(x, y) ((x) & ((y) - 1))

#ifndef __OPENCL_C_VERSION__
// Shared variables of inline kernels stay although no thread reads them.
#undef __global__
#define __global__ __attribute__((global)) __attribute__((used)) inline

__device__ unsigned gv_choices;

// gv_choice returns what a function without a body returns.
__device__ inline unsigned gv_choice() {
    unsigned h = atomicAdd(&gv_choices, 1u) * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    return h >> 30;
}

namespace cooperative_groups {
template <class G> __device__ void synchronize(const G &g) { g.sync(); }
}

// Random numbers of cuRAND: a state belongs to a thread, that of MTGP32 to a block of 256.
struct curandState { unsigned x; };
struct curandStateMtgp32_t { unsigned x[256]; };
__device__ inline unsigned gv_next(unsigned *x) { return *x = *x * 1664525u + 1013904223u; }
__device__ inline unsigned curand(curandState *s) { return gv_next(&s->x); }
__device__ inline float curand_uniform(curandState *s) { return gv_next(&s->x); }
__device__ inline unsigned curand(curandStateMtgp32_t *s) { return gv_next(&s->x[threadIdx.x % 256]); }
__device__ inline void curand_init(unsigned long long seed, unsigned long long n, unsigned long long off, curandState *s) {
    s->x = seed + n + off + threadIdx.x;
}
#endif
