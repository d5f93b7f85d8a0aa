package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry"
)

// fp8 is a float format of 8 bits.
type fp8 struct {
	kind       string
	bits, bias int
	inf        bool
}

var fp8s = []fp8{{"e4m3", 3, 7, false}, {"e5m2", 2, 15, true}}

// value returns the value of a code without its sign, from the definition of the format.
func (f fp8) value(code int) float64 {
	exp, frac := code>>f.bits, float64(code&(1<<f.bits-1))
	one := float64(int(1) << f.bits)
	switch {
	case code == 0x7f, f.inf && code > 0x7c:
		return math.NaN()
	case f.inf && code == 0x7c:
		return math.Inf(1)
	case exp == 0:
		return math.Ldexp(frac/one, 1-f.bias)
	}
	return math.Ldexp(1+frac/one, exp-f.bias)
}

// nearest returns the code of a number by looking at all codes.
func (f fp8) nearest(v float64, saturate bool) int {
	sign := 0
	if math.Signbit(v) {
		sign = 0x80
	}
	if math.IsNaN(v) {
		return 0x7f
	}
	v = math.Abs(v)
	most, over := 0x7e, 0x7f
	if f.inf {
		most, over = 0x7b, 0x7c
	}
	// Beyond the largest number, the next step would be this one.
	next := 2*f.value(most) - f.value(most-1)
	best := 0
	for code := 1; code <= most+1; code++ {
		x := next
		if code <= most {
			x = f.value(code)
		}
		d, b := math.Abs(v-x), math.Abs(v-f.value(best))
		if d < b || d == b && code&1 == 0 {
			best = code
		}
		if best > most {
			break
		}
	}
	switch {
	case best <= most && v < next:
		return sign | best
	case saturate:
		return sign | most
	}
	return sign | over
}

// TestFP8 compares every code and conversions to codes with the definition of the formats.
func TestFP8(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, f := range fp8s {
		kind := map[string]string{"e4m3": "__NV_E4M3", "e5m2": "__NV_E5M2"}[f.kind]
		source := preamble + fmt.Sprintf(`#include <cuda_fp8.h>
extern "C" __global__ void test(const u64 *in, u64 *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double d = __longlong_as_double(in[i]);
    float f = (float)d;
    u64 *o = out + 8 * i;
    o[0] = __nv_cvt_double_to_fp8(d, __NV_SATFINITE, %[1]s);
    o[1] = __nv_cvt_float_to_fp8(f, __NV_NOSAT, %[1]s);
    o[2] = __nv_fp8_%[2]s(f).__x | (u64)__nv_fp8x2_%[2]s(make_float2(f, -f)).__x << 8 | (u64)__nv_fp8x4_%[2]s(make_float4(1, f, 2, f)).__x << 24;
    __nv_fp8_%[2]s e;
    e.__x = (unsigned char)i;
    o[3] = __float_as_uint((float)e);
    o[4] = __nv_cvt_halfraw_to_fp8(__half((float)e), __NV_SATFINITE, %[1]s) | (u64)__nv_cvt_bfloat16raw_to_fp8((__nv_bfloat16)e, __NV_NOSAT, %[1]s) << 8;
    o[5] = (u64)(int)e & 0xffffffff;
    o[6] = (unsigned char)e | (u64)(unsigned char)(signed char)e << 8 | (u64)(bool)e << 16;
    o[7] = __nv_fp8_%[2]s((int)d).__x;
}`, kind, f.kind)
		in := make([]uint64, 2048)
		for i := range in {
			v := math.Ldexp(1+random.Float64(), random.IntN(40)-20)
			switch i % 4 {
			case 1: // halfway between two codes, or next to it
				c := random.IntN(0x7b)
				v = math.Nextafter((f.value(c)+f.value(c+1))/2, math.Inf(random.IntN(2)*2-1))
			case 2:
				c := random.IntN(0x7b)
				v = (f.value(c) + f.value(c+1)) / 2
			}
			if random.IntN(2) == 0 {
				v = -v
			}
			in[i] = math.Float64bits(v)
		}
		for i, v := range []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 448, 464, 464.0001, 480, 57344, 61439, 61440, 65536, 1e300, 5e-324} {
			in[i] = math.Float64bits(v)
		}
		for _, b := range builds(t, "sm_52", "sm_80", "sm_90") {
			t.Run(f.kind+"/"+b.String(), func(t *testing.T) {
				out := zeroed(t, b.compile(t, source), ferry.Cover(len(in), 128), in, 8*len(in))
				for i := range in {
					f.check(t, i, math.Float64frombits(in[i]), out[8*i:8*i+8])
				}
			})
		}
	}
}

// check compares the results of one thread.
func (f fp8) check(t *testing.T, i int, v float64, got []uint64) {
	t.Helper()
	narrow := float64(float32(v))
	want := make([]uint64, 8)
	want[0] = uint64(f.nearest(v, true))
	want[1] = uint64(f.nearest(narrow, false))
	one, negative := uint64(f.nearest(narrow, true)), uint64(f.nearest(-narrow, true))
	want[2] = one | one<<8 | negative<<16 | uint64(f.nearest(1, true))<<24 | one<<32 | uint64(f.nearest(2, true))<<40 | one<<48
	code := i & 0xff
	e := f.value(code & 0x7f)
	if code >= 0x80 {
		e = -e
	}
	want[3] = uint64(math.Float32bits(float32(e)))
	want[4] = uint64(f.nearest(e, true)) | uint64(f.nearest(e, false))<<8
	integer := math.Max(math.MinInt32, math.Min(math.MaxInt32, math.Trunc(e)))
	clamp := func(low, high float64) uint64 {
		if math.IsNaN(e) {
			return 0
		}
		return uint64(uint8(int(math.Max(low, math.Min(high, math.Trunc(e))))))
	}
	if math.IsNaN(e) {
		want[3], integer = 0x7fffffff, 0
	}
	want[5] = uint64(uint32(int64(integer)))
	want[6] = clamp(0, 255) | clamp(-128, 127)<<8 | b2i(code&0x7f != 0)<<16
	want[7] = got[7]
	if math.Abs(v) < 1<<31 {
		want[7] = uint64(f.nearest(math.Trunc(v)+0, true))
	}
	for k := range want {
		if got[k] != want[k] {
			t.Fatalf("thread %d, %v, code %#x: word %d is %#x, want %#x", i, v, code, k, got[k], want[k])
		}
	}
}
