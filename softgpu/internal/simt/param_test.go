package simt

import (
	"math"
	"strings"
	"testing"
)

// pairOf and listOf are the structs of testdata/params.cu.
type (
	pairOf struct {
		X, Y float64
		A    [6]int32
	}
	listOf struct{ A [12]int32 }
)

func sumOf(a []int32) (t int32) {
	for _, v := range a {
		t += v
	}
	return t
}

func downOf(l listOf, i int) int32 {
	if i == 0 {
		return l.A[0]
	}
	l.A[i] += int32(i)
	m := l
	m.A[0]++
	return downOf(m, i-1) + l.A[i]
}

// paramsOf computes in Go what thread t of the kernel of testdata/params.cu writes.
func paramsOf(p pairOf, l listOf, t int) (o [10]float64) {
	i, j := t%6, t%12
	o[0] = p.X + 2*p.Y + float64(p.A[2]) + float64(i)
	o[1] = float64(p.A[i]) + p.Y
	q := p
	q.A[i] += 5
	o[2] = float64(q.A[i]) + float64(q.A[0]) + float64(i)
	o[3] = float64(sumOf(l.A[:j]))
	m := l
	m.A[j] = int32(j * 3)
	o[4] = float64(sumOf(m.A[:]) + m.A[j] - l.A[j])
	o[5] = float64(p.A[i])
	o[6] = float64(sumOf(l.A[:j]))
	o[7] = float64(p.A[5-i]) + p.Y
	if t&1 == 1 {
		o[7] = float64(downOf(l, j))
	}
	q = p
	q.A[i] = 11
	o[8] = float64(q.A[t%3]) + p.Y
	l.A[j] = 7
	o[9] = float64(l.A[11-j] + sumOf(l.A[:]))
	return o
}

// TestParams passes structs by value to a kernel and to device functions. Compilers take
// the addresses of such parameters and read them by ld.param, ld.local or a generic load.
func TestParams(t *testing.T) {
	for _, file := range []string{"clang14_O0", "clang14_O2", "clang22_O0", "clang22_O2"} {
		for _, lanewise := range []bool{false, true} {
			t.Run(file, func(t *testing.T) {
				lanewiseForTests.Store(lanewise)
				defer lanewiseForTests.Store(false)
				checkParams(t, loadFile(t, newSpace(), "params_"+file+".ptx"))
			})
		}
	}
}

func checkParams(t *testing.T, m *module) {
	p := pairOf{X: rng.Float64(), Y: rng.Float64()}
	l := listOf{}
	for i := range l.A {
		l.A[i], p.A[i%6] = int32(rng.IntN(1000)), int32(rng.IntN(1000))
	}
	const threads = 80
	got := put(m.mem, make([]float64, 10*threads))
	mustRun(t, m.launch(t, "params", 1, threads, bytesOf(p), bytesOf(l), got))
	values := valuesOf[float64](got.Data)
	for i := range threads {
		for j, want := range paramsOf(p, l, i) {
			if got := values[10*i+j]; math.Abs(got-want) > 1e-9 {
				t.Fatalf("thread %d: value %d: got %v, want %v", i, j, got, want)
			}
		}
	}
}

// paramForms has the forms of .param space that no compiler here writes: the results of
// functions by address, call parameters and addresses with ::func and ::entry.
const paramForms = `.version 8.3
.target sm_80
.address_size 64
.func (.param .align 4 .b8 r[16]) rotate(.param .align 4 .b8 p[16], .param .u32 i, .param .u64 k) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param::func.u32 %r1, [i];
	mov.u64 %rd1, p;
	mov.u64 %rd2, r;
	mul.wide.u32 %rd3, %r1, 4;
	add.u64 %rd4, %rd1, %rd3;
	ld.param::func.u32 %r2, [%rd4];       // p[i]
	st.param.u32 [%rd2], %r2;             // r[0]
	cvta.param.u64 %rd5, p;
	add.u64 %rd5, %rd5, %rd3;
	ld.u32 %r3, [%rd5];
	st.param::func.u32 [%rd2+4], %r3;     // r[1] = p[i]
	ld.param.u64 %rd6, [k];
	ld.param::entry.u32 %r4, [%rd6+8];    // r[2] = the kernel's third word
	st.param.u32 [r+8], %r4;
	cvta.local.u64 %rd7, %rd1;
	ld.u32 %r5, [%rd7+12];
	st.param.u32 [r+12], %r5;             // r[3] = p[3]
	ret;
}
.visible .entry forms(.param .align 4 .b8 list[16], .param .u64 out) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	mov.u32 %r1, %tid.x;
	and.b32 %r2, %r1, 3;
	mov.u64 %rd1, list;
	mul.wide.u32 %rd2, %r2, 4;
	add.u64 %rd3, %rd1, %rd2;
	ld.param.u32 %r3, [%rd3];             // list[t&3]
	ld.param::entry.u32 %r4, [%rd3];
	cvta.param::entry.u64 %rd4, %rd3;
	ld.u32 %r5, [%rd4];
	ld.param.u64 %rd5, [out];
	mul.wide.u32 %rd6, %r1, 16;
	add.u64 %rd5, %rd5, %rd6;
	{
	.param .align 4 .b8 a[16];
	.param .u32 i;
	.param .u64 k;
	.param .align 4 .b8 b[16];
	st.param.u32 [a], %r3;
	st.param.u32 [a+4], %r4;
	st.param.u32 [a+8], %r5;
	st.param::func.u32 [a+12], %r1;
	st.param.u32 [i], %r2;
	st.param.u64 [k], %rd1;
	call (b), rotate, (a, i, k);
	ld.param.v2.u32 {%r3, %r4}, [b];
	ld.param::func.u32 %r5, [b+8];
	ld.param.u32 %r6, [b+12];
	}
	st.global.u32 [%rd5], %r3;
	st.global.u32 [%rd5+4], %r4;
	st.global.u32 [%rd5+8], %r5;
	st.global.u32 [%rd5+12], %r6;
	ret;
}
`

func TestParamForms(t *testing.T) {
	eachWay(t, paramForms, func(t *testing.T, m *module) {
		list := [4]int32{randomInt(), randomInt(), randomInt(), randomInt()}
		out := put(m.mem, make([]int32, 4*40))
		mustRun(t, m.launch(t, "forms", 1, 40, bytesOf(list), out))
		for i, got := range valuesOf[[4]int32](out.Data) {
			first := list[i&3]
			if i&3 == 3 {
				first = int32(i)
			}
			if want := [4]int32{first, first, list[2], int32(i)}; got != want {
				t.Fatalf("thread %d: got %v, want %v", i, got, want)
			}
		}
	})
}

// TestParamOutside reads beyond the parameters. The fault is at the address in .param space.
func TestParamOutside(t *testing.T) {
	source := strings.Replace(paramForms, "ld.param::entry.u32 %r4, [%rd3];", "ld.param::entry.u32 %r4, [%rd3+4096];", 1)
	eachWay(t, source, func(t *testing.T, m *module) {
		out := put(m.mem, make([]int32, 4*40))
		if f := mustFault(t, m.launch(t, "forms", 1, 40, make([]byte, 16), out)); f.Addr != 4096 {
			t.Errorf("got %+v", *f)
		}
	})
}
