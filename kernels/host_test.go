package kernels_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/clangtool"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/kernels"
)

// hostSource uses from host code what CUDA gives both sides.
const hostSource = `
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <mma.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cmath>
#include <cstdio>
namespace cg = cooperative_groups;
using namespace nvcuda;
// Clang reads device code for the host, too.
template <class T, class R> __device__ void multiply(const T *a, const T *b, R *c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, R> fc;
    wmma::fill_fragment(fc, 0);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
template __device__ void multiply(const half *, const half *, float *);
template __device__ void multiply(const __nv_bfloat16 *, const __nv_bfloat16 *, float *);
template __device__ void multiply(const signed char *, const signed char *, int *);
__device__ void groups(int *out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto part = cg::labeled_partition(warp, threadIdx.x % 3);
    out[threadIdx.x] = cg::reduce(part, 1, cg::plus<int>()) + (int)part.match_any(1) + (int)warp.match_any(threadIdx.x / 8) + (int)__match_any_sync(~0u, 1);
    cg::cluster_group c = cg::this_cluster();
    *c.map_shared_rank(out, c.block_rank() ^ 1) += (int)c.num_blocks();
    c.sync();
}
#include <vector>
template <class T> __device__ T twice(T x) { return x + x; }
__device__ void k(float *x) { x[0] = twice(sqrtf(x[1]) + std::sin(x[2])); atomicAdd(x, 1.0f); __syncthreads(); half h = x[0]; x[3] = h * h; }
__device__ void all(double *d, unsigned *u, half *h, half2 *p, unsigned long long *l, unsigned short *s) { // which not all architectures have
    atomicAdd(d, 1.0); atomicAdd_system(u, 1u); atomicAdd_block(u, 1u); atomicMax_system(l, 1ull); atomicCAS(s, (unsigned short)1, (unsigned short)2);
    __nanosleep(10); *u = __reduce_add_sync(~0u, *u) + __match_any_sync(~0u, 3) + __dp4a(1, 2, 3); atomicAdd(h, *h); atomicAdd(p, *p);
}
int main() {
    half h = __float2half(1.5f), q[] = {__double2half(65519.0), __float2half_ru(65519.5f), __double2half(1e-8), __float2half_ru(1e-8f), __float2half(-6.1e-5f), __float2half_rd(-0.1f)};
    h = h + h * h;
    for (half v : q) printf("%04x ", __half_as_ushort(v));
    __nv_bfloat16 b = __float2bfloat16(2.5f) * __nv_bfloat16(3);
    half2 p = __hfma2(__floats2half2_rn(1, 2), __floats2half2_rn(3, 4), __floats2half2_rn(5, 6));
    __nv_fp8_e5m2 e(3.1f);
    float4 v = make_float4(1, 2, 3, 4);
    printf("%g %g %g %g %g %g %d %g %g\n", (float)h, (float)b, (float)p.x, (float)p.y, (float)e, v.w, min(3, max(1, 2)), min(1.5f, 2.0f), rsqrtf(4.0f));
}
`

// TestHostPass compiles host code against the headers and the system's, as "ferry cc" does, and
// runs it.
func TestHostPass(t *testing.T) {
	clang, err := exec.LookPath(compiletest.Clang(t))
	if err != nil {
		t.Fatal(err)
	}
	flags, err := clangtool.Headers(t.Context(), clang)
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, kernels.Headers); err != nil {
		t.Fatal(err)
	}
	args := append(flags, "-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "-std=c++17", "-fdeclspec", "-I", dir, "-I", filepath.Join(dir, "compat"),
		"-include", filepath.Join(dir, "compat", "cuda_runtime.h"), "-o", filepath.Join(dir, "main"), "-", "-lstdc++", "-lm")
	cmd := exec.CommandContext(t.Context(), clang, args...)
	cmd.Stdin = strings.NewReader(hostSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "main")).Output()
	const want = "7bff 7c00 0000 0001 83ff ae67 3.75 7.5 8 14 3 4 2 1.5 0.5\n"
	if err != nil || string(out) != want {
		t.Errorf("got %q, error %v, want %q", out, err, want)
	}
}
