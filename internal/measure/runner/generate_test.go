package runner

import (
	"bytes"
	"math"
	"testing"
)

// TestMixIsSplitMix64 compares with the first three numbers from state 0, which were
// published with the generator. Users rely on the numbers.
func TestMixIsSplitMix64(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := mix(gamma * uint64(i+1)); got != want {
			t.Errorf("number %d: got %#x, want %#x", i, got, want)
		}
	}
}

func random(t *testing.T, typ Type, n int, seed uint64, parameter int) []byte {
	t.Helper()
	a := Arg{Text: "random", Direction: In, Type: typ, from: fromRandom, count: n}
	return load(t, a, seed, parameter)
}

func TestRandom(t *testing.T) {
	const n = 1 << 17 // more than one goroutine generates
	for typ := range typeCount {
		data := random(t, typ, n, 42, 1)
		if !bytes.Equal(data, random(t, typ, n, 42, 1)) {
			t.Errorf("%v: the same seed made different numbers", typ)
		}
		if bytes.Equal(data, random(t, typ, n, 43, 1)) || bytes.Equal(data, random(t, typ, n, 42, 2)) {
			t.Errorf("%v: another seed or parameter made the same numbers", typ)
		}
		if short := random(t, typ, 100, 42, 1); !bytes.Equal(short, data[:len(short)]) {
			t.Errorf("%v: the length changes the numbers", typ)
		}
		var sum float64
		for i := range n {
			bits := Element(data, typ, i)
			v := float64(bits) / (float64(mask(typ)) + 1)
			switch typ {
			case F16:
				v = halfLayout.widen(uint16(bits))
			case BF16:
				v = brainLayout.widen(uint16(bits))
			case F32:
				v = float64(math.Float32frombits(uint32(bits)))
			case F64:
				v = math.Float64frombits(bits)
			}
			if !(v >= 0 && v < 1) {
				t.Fatalf("%v: element %d is %g", typ, i, v)
			}
			sum += v
		}
		if mean := sum / n; math.Abs(mean-0.5) > 0.005 {
			t.Errorf("%v: the mean is %g of the range", typ, mean)
		}
	}
}

func TestIota(t *testing.T) {
	const n = 200_000
	for _, typ := range []Type{U8, S16, B32, U64, BF16, F32, F64} {
		a := Arg{Text: "iota", Direction: In, Type: typ, from: fromIota, count: n}
		data := load(t, a, 0, 0)
		for i := range n {
			want := uint64(i) & mask(typ)
			switch typ {
			case BF16:
				want = uint64(brainLayout.narrow(float64(i)))
			case F32:
				want = uint64(math.Float32bits(float32(i)))
			case F64:
				want = math.Float64bits(float64(i))
			}
			if got := Element(data, typ, i); got != want {
				t.Fatalf("%v: element %d is %#x, want %#x", typ, i, got, want)
			}
		}
	}
}

func BenchmarkRandom(b *testing.B) {
	a := Arg{Type: F32, from: fromRandom, count: 1 << 22}
	data := make([]byte, 4<<22)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		src, err := a.open(1, 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := src.read(data); err != nil {
			b.Fatal(err)
		}
	}
}
