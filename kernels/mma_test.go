package kernels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
)

// wmmas are shapes and types of fragments: the type in the template, of memory, and of the sum.
var wmmas = []struct {
	m, n, k           int
	tag, element, sum string
	arch              int
}{
	{16, 16, 16, "half", "half", "float", 70}, {32, 8, 16, "half", "half", "half", 70}, {8, 32, 16, "half", "half", "float", 70},
	{16, 16, 16, "signed char", "signed char", "int", 72}, {32, 8, 16, "unsigned char", "unsigned char", "int", 72}, {8, 32, 16, "signed char", "signed char", "int", 72},
	{16, 16, 16, "__nv_bfloat16", "__nv_bfloat16", "float", 80}, {32, 8, 16, "__nv_bfloat16", "__nv_bfloat16", "float", 80}, {8, 32, 16, "__nv_bfloat16", "__nv_bfloat16", "float", 80},
	{16, 16, 8, "wmma::precision::tf32", "float", "float", 80}, {8, 8, 4, "double", "double", "double", 80},
}

// layouts are the layouts of a, b and c.
var layouts = [][3]string{{"row", "row", "row"}, {"row", "col", "col"}, {"col", "row", "col"}, {"col", "col", "row"}}

// TestMatrices multiplies matrices of small integers, which are exact, in all layouts.
func TestMatrices(t *testing.T) {
	var s strings.Builder
	s.WriteString(preamble + `#include <mma.h>
using namespace nvcuda;
template <int M, int N, int K, class TA, class E, class S, class LA, class LB, bool rows>
__device__ void multiply(char *memory, u64 *out, bool arow, bool brow) {
    E *a = (E *)memory, *b = (E *)(memory + 4096);
    S *c = (S *)(memory + 8192);
    for (int i = threadIdx.x; i < M * K; i += 32) a[arow ? i : i % K * M + i / K] = (E)(float)((i * 7 + i / K) % 5);
    for (int i = threadIdx.x; i < K * N; i += 32) b[brow ? i : i % N * K + i / N] = (E)(float)((i * 3 + i / N) % 4);
    for (int i = threadIdx.x; i < M * N; i += 32) c[rows ? i : i % N * M + i / N] = (S)(float)(i % 6);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, M, N, K, TA, LA> A;
    wmma::fragment<wmma::matrix_b, M, N, K, TA, LB> B;
    wmma::fragment<wmma::accumulator, M, N, K, S> C, D;
    const wmma::layout_t layout = rows ? wmma::mem_row_major : wmma::mem_col_major;
    wmma::fill_fragment(D, (S)3.0f);
    wmma::load_matrix_sync(A, a, arow ? K : M);
    wmma::load_matrix_sync(B, b, brow ? N : K);
    wmma::load_matrix_sync(C, c, rows ? N : M, layout);
    wmma::mma_sync(C, A, B, C);
    for (int i = 0; i < C.num_elements; i++) C.x[i] = C.x[i] + D.x[i];
    wmma::store_matrix_sync(c, C, rows ? N : M, layout);
    __syncwarp();
    for (int i = threadIdx.x; i < M * N; i += 32) out[i] = (u64)(float)c[rows ? i : i % N * M + i / N];
}
extern "C" __global__ void test(const u64 *in, u64 *out) {
    __shared__ alignas(256) char memory[12288];
`)
	for i, w := range wmmas {
		for j, l := range layouts {
			fmt.Fprintf(&s, "#if __CUDA_ARCH__ >= %d0\n if (in[0] == %d) multiply<%d, %d, %d, %s, %s, %s, wmma::%s_major, wmma::%s_major, %v>(memory, out, %v, %v);\n#endif\n",
				w.arch, i*len(layouts)+j, w.m, w.n, w.k, w.tag, w.element, w.sum, l[0], l[1], l[2] == "row", l[0] == "row", l[1] == "row")
		}
	}
	s.WriteString("}\n")
	for _, b := range builds(t, "sm_80", "sm_90") {
		t.Run(b.String(), func(t *testing.T) {
			ptx := b.compile(t, s.String())
			for i, w := range wmmas {
				for j, l := range layouts {
					got := zeroed(t, ptx, ferry.Cover(32, 32), []uint64{uint64(i*len(layouts) + j)}, w.m*w.n)
					for at := range w.m * w.n {
						row, column := at/w.n, at%w.n
						want := at%6 + 3
						for k := range w.k {
							ai, bi := row*w.k+k, k*w.n+column
							want += (ai*7 + row) % 5 * ((bi*3 + k) % 4)
						}
						if got[at] != uint64(want) {
							t.Fatalf("%+v, layouts %v: element %d,%d is %d, want %d", w, l, row, column, got[at], want)
						}
					}
				}
			}
		})
	}
}
