package simt

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/workload"
	"github.com/ferrygpu/ferry/ptx"
)

// edges are values at the limits of the types, and NaN with payloads.
var edges = []uint64{
	0, 1, 31, 32, 33, 63, 64, 65, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, ^uint64(0),
	0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f812345, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
	math.Float64bits(1), math.Float64bits(-1), math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)), 0x7ff8000000012345, 0xfff0000000054321,
	0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff,
}

// randomLanes returns edges, floats of both sizes near each other, and any bits.
func randomLanes(r *rand.Rand) *lanes {
	var l lanes
	for i := range l {
		switch r.IntN(5) {
		case 0:
			l[i] = edges[r.IntN(len(edges))]
		case 1:
			l[i] = uint64(math.Float32bits(float32(r.NormFloat64()))) | r.Uint64()<<32
		case 2:
			l[i] = math.Float64bits(r.NormFloat64())
		case 3:
			l[i] = uint64(r.IntN(64))
		default:
			l[i] = r.Uint64()
		}
	}
	return &l
}

// narrow lists the loops on 32-bit registers, of which only the low halves are
// compared: the upper bits of such a register are unspecified.
var narrow = map[string]bool{
	"shl32": true, "shrU32": true, "shrS32": true, "minS32": true, "maxS32": true, "minU32": true, "maxU32": true,
}

// loops returns the loops of o that compute lanes, by name.
func (o *operations) loops() map[string]vec {
	return map[string]vec{
		"add": o.add, "sub": o.sub, "and": o.and, "or": o.or, "xor": o.xor,
		"mulU32": o.mulU32, "mulS32": o.mulS32, "madU32": o.madU32, "madS32": o.madS32,
		"shl32": o.shl32, "shrU32": o.shrU32, "shrS32": o.shrS32,
		"minS32": o.minS32, "maxS32": o.maxS32, "minU32": o.minU32, "maxU32": o.maxU32,
		"signExtend32": o.signExtend32, "zeroExtend32": o.zeroExtend32,
		"addF32": o.addF32, "subF32": o.subF32, "mulF32": o.mulF32, "fmaF32": o.fmaF32,
		"addF64": o.addF64, "mulF64": o.mulF64, "fmaF64": o.fmaF64,
	}
}

func needSIMD(t *testing.T) {
	if simd.eq32 == nil {
		t.Skip("this CPU or build has no SIMD loops")
	}
}

// TestSIMDAgrees compares the loops in AVX2 with the loops in Go, bit for bit.
func TestSIMDAgrees(t *testing.T) {
	needSIMD(t)
	r := rand.New(rand.NewPCG(1, 2))
	got, want := simd.loops(), portable.loops()
	for range 2000 {
		a, b, c, d := randomLanes(r), randomLanes(r), randomLanes(r), randomLanes(r)
		for name := range want {
			n := []int{1, 4, 7, 32}[r.IntN(4)]
			x, y := *d, *d
			got[name](&x, a, b, c, n)
			want[name](&y, a, b, c, n)
			for l := range n {
				if narrow[name] {
					x[l], y[l] = x[l]&0xffffffff, y[l]&0xffffffff
				}
				if x[l] != y[l] {
					t.Fatalf("%s of %#x, %#x, %#x: got %#x, want %#x", name, a[l], b[l], c[l], x[l], y[l])
				}
			}
		}
		x, y, m := *d, *d, r.Uint32()
		simd.keep(&x, a, m)
		portable.keep(&y, a, m)
		if x != y {
			t.Fatalf("keep %#x: got %#x, want %#x", m, x, y)
		}
		simd.choose(&x, a, b, m)
		portable.choose(&y, a, b, m)
		if x != y {
			t.Fatalf("choose %#x: got %#x, want %#x", m, x, y)
		}
		cut, delta, most := []uint64{1<<32 - 1, ^uint64(0)}[r.IntN(2)], r.Uint64(), r.Uint64()
		low, high := simd.offsets(&x, a, cut, delta, most)
		if wantLow, wantHigh := portable.offsets(&y, a, cut, delta, most); x != y || low != wantLow || high != wantHigh {
			t.Fatalf("offsets: got %#x, %#x, %#x, want %#x, %#x, %#x", x, low, high, y, wantLow, wantHigh)
		}
		simd.spread(&x, a[0], b[0])
		portable.spread(&y, a[0], b[0])
		if x != y {
			t.Fatalf("spread: got %#x, want %#x", x, y)
		}
		p, q := placeOf(simdWords[:], 0), placeOf(portableWords[:], 0)
		simd.storeWords(p, a)
		portable.storeWords(q, a)
		if simdWords != portableWords {
			t.Fatalf("store: got %x, want %x", simdWords, portableWords)
		}
		simd.loadWords(&x, p)
		portable.loadWords(&y, p)
		if x != y {
			t.Fatalf("load: got %#x, want %#x", x, y)
		}
	}
}

// simdWords and portableWords are words in memory that does not move.
var simdWords, portableWords [4 * warpSize]byte

// TestSIMDComparisonsAgree compares every comparison of every type.
func TestSIMDComparisonsAgree(t *testing.T) {
	needSIMD(t)
	r := rand.New(rand.NewPCG(3, 4))
	var ops []string
	for op := range floatOrders {
		ops = append(ops, op)
	}
	ops = append(ops, "lo", "ls", "hi", "hs")
	for range 300 {
		a, b := randomLanes(r), randomLanes(r)
		for i := range a {
			if r.IntN(3) == 0 {
				b[i] = a[i]
			}
		}
		for _, op := range ops {
			for _, typ := range []ptx.Type{ptx.S32, ptx.U32, ptx.B32, ptx.F32} {
				f := integerCompare[uint32](op)
				switch o, ok := floatOrders[op]; {
				case typ == ptx.F32 && !ok:
					continue
				case typ == ptx.F32:
					f = compareF32(o.order, o.unordered, false)
				case typ == ptx.S32:
					f = integerCompare[int32](op)
				}
				if f == nil {
					continue
				}
				g := simd.comparison(typ, op, f)
				for _, n := range []int{1, 32} {
					if got, want := g(a, b, n), f(a, b, n); got != want {
						t.Fatalf("%s.%v of %d lanes: got %#x, want %#x", op, typ, n, got, want)
					}
				}
			}
		}
	}
}

// TestWorkloadsAgree runs the kernels of the benchmarks with SIMD loops and without,
// and with uniform and affine registers and without. All must give the same bytes.
func TestWorkloadsAgree(t *testing.T) {
	defer func(o operations) { simd = o }(simd)
	for i, w := range workload.Small() {
		var want [][]byte
		for _, ops := range []operations{portable, simd} {
			for _, lanewise := range []bool{true, false} {
				simd = ops
				lanewiseForTests.Store(lanewise)
				l, segs := launchOf(t, workload.Small()[i])
				l.Workers = 3
				mustRun(t, l)
				lanewiseForTests.Store(false)
				for j, s := range segs {
					if want == nil || len(want) < len(segs) {
						want = append(want, s.Data)
					} else if !bytes.Equal(s.Data, want[j]) {
						t.Errorf("%s: buffer %d differs", w.Kernel, j)
					}
				}
			}
		}
	}
}
