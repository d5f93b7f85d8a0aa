package compile_test

import (
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestRewrites runs kernels in forms that nvcc accepts and clang does not.
func TestRewrites(t *testing.T) {
	sample.SkipRace(t)
	for _, c := range sample.Of(t, []struct {
		name, source string
		out          []int32
	}{
		{"alignas behind an attribute", `
extern "C" __global__ void k(int *o) { extern __shared__ alignas(16) int dynamic[]; static __shared__ alignas(alignof(long)) char s[64]; s[threadIdx.x] = 3; o[threadIdx.x] = s[threadIdx.x] + ((size_t)s % 8) + ((size_t)dynamic % 16); }`,
			[]int32{3, 3, 3, 3, 3, 3, 3, 3}},
		{"alignas before a class", `
struct P { int a, b; };
extern "C" __global__ void k(int *o) { __shared__ alignas(32) P p[8], q[8]; p[threadIdx.x].a = 1; q[threadIdx.x].a = 2; o[threadIdx.x] = p[threadIdx.x].a + q[threadIdx.x].a + ((size_t)p % 32); }`,
			[]int32{3, 3, 3, 3, 3, 3, 3, 3}},
		{"both sides in a template and a class", `
template <class T> __host__ __device__ T f(T x);
template <class T> T f(T x) { return x + 1; }
struct S { __host__ __device__ int get(int x) const; };
int S::get(int x) const { return x * 2; }
int g(int x);
__host__ __device__ int g(int x) { return x + 5; }
extern "C" __global__ void k(int *o) { int x = threadIdx.x; o[x] = f(x) + S().get(x) + g(x); }`,
			[]int32{6, 10, 14, 18, 22, 26, 30, 34}},
		{"no blank before a keyword", `
extern "C"__global__ void k(int *o) { o[threadIdx.x] = 2; }`, []int32{2, 2, 2, 2, 2, 2, 2, 2}},
		{"no comma between operands", `
extern "C" __global__ void k(int *o) { int r; asm("add.s32 %0, %1, %2;" : "=r"(r) : "r"((int)threadIdx.x) "r"(7)); o[threadIdx.x] = r; }`, []int32{7, 8, 9, 10, 11, 12, 13, 14}},
		{"narrowing and register", `
struct B { unsigned char x, y; };
extern "C" __global__ void k(int *o) { register int t = threadIdx.x; B b = {t, t + 1}; o[t] = b.x + b.y; }`, []int32{1, 3, 5, 7, 9, 11, 13, 15}},
		{"types without a header", `
extern "C" __global__ void k(int *o) { uint64_t a = threadIdx.x; ptrdiff_t b = 1; o[a] = (int)(a + b); }`, []int32{1, 2, 3, 4, 5, 6, 7, 8}},
	}, 2) {
		t.Run(c.name, func(t *testing.T) {
			r := compiletest.Compile(t, "k.cu", c.source+"\n", &compile.Options{Compiler: "clang"})
			if got := runKernel(t, r.PTX, "k", 1); !slices.Equal(got, c.out) {
				t.Errorf("got %v, want %v", got, c.out)
			}
		})
	}
}
