package kernels_test

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestComplex compares the functions of cuComplex.h with Go's.
func TestComplex(t *testing.T) {
	source := preamble + `#include <cuComplex.h>
extern "C" __global__ void test(const u64 *in, u64 *out) {
    int i = threadIdx.x;
    cuDoubleComplex a = make_cuDoubleComplex(__longlong_as_double(in[4 * i]), __longlong_as_double(in[4 * i + 1]));
    cuDoubleComplex b = make_cuDoubleComplex(__longlong_as_double(in[4 * i + 2]), __longlong_as_double(in[4 * i + 3]));
    cuDoubleComplex r[] = {cuCadd(a, b), cuCsub(a, b), cuCmul(a, b), cuCdiv(a, b), cuConj(a), make_cuDoubleComplex(cuCabs(a), cuCabs(b)), cuCfma(a, b, a),
        cuComplexFloatToDouble(cuCmulf(cuComplexDoubleToFloat(a), cuComplexDoubleToFloat(b))), cuComplexFloatToDouble(cuCdivf(cuComplexDoubleToFloat(a), cuComplexDoubleToFloat(b)))};
    for (int k = 0; k < 9; k++) out[18 * i + 2 * k] = __double_as_longlong(cuCreal(r[k])), out[18 * i + 2 * k + 1] = __double_as_longlong(cuCimag(r[k]));
}`
	values := []complex128{1 + 2i, -3 + 0.5i, 0.25 - 8i, 1e150 + 1e150i, 1e-160 - 1e-150i, 7, 3i, -5 - 12i}
	var in []uint64
	for i, a := range values {
		b := values[(i+3)%len(values)]
		for _, v := range []float64{real(a), imag(a), real(b), imag(b)} {
			in = append(in, math.Float64bits(v))
		}
	}
	for _, b := range builds(t, "sm_52", "sm_80") {
		t.Run(b.String(), func(t *testing.T) {
			out := zeroed(t, b.compile(t, source), ferry.Cover(len(values), len(values)), in, 18*len(values))
			for i, a := range values {
				b := values[(i+3)%len(values)]
				want := []complex128{a + b, a - b, a * b, a / b, cmplx.Conj(a), complex(cmplx.Abs(a), cmplx.Abs(b)), a*b + a, a * b, a / b}
				for k, w := range want {
					got := complex(math.Float64frombits(out[18*i+2*k]), math.Float64frombits(out[18*i+2*k+1]))
					tolerance := 1e-14
					if k >= 7 {
						if tolerance = 1e-5; cmplx.Abs(a) > 1e10 || cmplx.Abs(b) > 1e10 || cmplx.Abs(a) < 1e-10 || cmplx.Abs(b) < 1e-10 {
							continue // not in the range of float
						}
					}
					if !(cmplx.Abs(got-w) <= tolerance*cmplx.Abs(w)) {
						t.Errorf("%v and %v: result %d is %v, want %v", a, b, k, got, w)
					}
				}
			}
		})
	}
}
