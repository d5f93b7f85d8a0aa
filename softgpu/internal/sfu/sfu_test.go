package sfu

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSquare compares with the sum of cut partial products, for all numbers of 17 bits.
func TestSquare(t *testing.T) {
	for x := range uint32(1 << 17) {
		var sum uint32
		for i := range 17 {
			sum += x >> i & 1 * (x >> (18 - i))
		}
		if got := Square(x); got != sum/2 {
			t.Fatalf("Square(%#x) is %#x, want %#x", x, got, sum/2)
		}
	}
}

// TestAccuracy compares each function with package math. Every row is used. The bounds are
// a little above the largest errors of all operands in an interval.
func TestAccuracy(t *testing.T) {
	for _, c := range []struct {
		op        string
		low, high float64
		exact     func(float64) float64
		relative  float64
		absolute  float64
	}{
		{"rcp", 1, 2, func(x float64) float64 { return 1 / x }, 0x1p-23, 0},
		{"rsqrt", 1, 4, func(x float64) float64 { return 1 / math.Sqrt(x) }, 1.28e-7, 0},
		{"lg2", 0.5, 4, math.Log2, 0x1p-22, 0x1p-22},
		{"ex2", -1, 1, math.Exp2, 1.69e-7, 0},
		{"sin", -1, 1, func(x float64) float64 { return math.Sin(2 * math.Pi * x) }, 0, 6.8e-7},
		{"cos", -1, 1, func(x float64) float64 { return math.Cos(2 * math.Pi * x) }, 0, 6.8e-7},
	} {
		f := Function(c.op)
		for range 200000 {
			x := float32(c.low + (c.high-c.low)*rand.Float64())
			got, want := float64(math.Float32frombits(f(math.Float32bits(x)))), c.exact(float64(x))
			if !(math.Abs(got-want) <= c.relative*math.Abs(want)+c.absolute) {
				t.Errorf("%s of %v is %v, want %v", c.op, x, got, want)
				break
			}
		}
	}
}

// TestUpper: the upper words are within 2**-20 of the function.
func TestUpper(t *testing.T) {
	for op, exact := range map[string]func(float64) float64{
		"rcp":   func(x float64) float64 { return 1 / x },
		"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	} {
		f := Upper(op)
		for range 200000 {
			x := math.Exp2(rand.Float64()*2000 - 1000)
			word := uint32(math.Float64bits(x) >> 32)
			got := math.Float64frombits(uint64(f(word)) << 32)
			want := exact(math.Float64frombits(uint64(word) << 32))
			if !(math.Abs(got-want) <= 0x1p-20*want) {
				t.Errorf("%s of %v is %v, want %v", op, x, got, want)
				break
			}
		}
	}
}

// TestTanh: rows that stand for tanh(x) = x/2 give it. A table that lacks a binade gives
// no function.
func TestTanh(t *testing.T) {
	tables := Tables{}
	for exp := TanhLow; exp < TanhHigh; exp++ {
		if tables.Function("tanh") != nil {
			t.Error("a function without all rows")
		}
		unit := 20 - exp
		var rows []Row
		for i := range 4 {
			start := math.Ldexp(1+float64(i)/4, exp-1)
			rows = append(rows, Row{C0: int64(math.Ldexp(start, unit+16)), C1: 1 << (exp - 1 - 2 - 17 + unit + 16), Unit: unit})
		}
		tables[TanhName(exp)] = rows
	}
	f := tables.Function("tanh")
	for _, c := range []struct{ x, want float32 }{
		{0x1p-9, 0x1p-9}, {0x1p-8, 0x1p-9}, {1, 0.5}, {-1.25, -0.625}, {3.5, 1.75}, {-7.75, -3.875}, {8, 1}, {-100, -1},
	} {
		if got := math.Float32frombits(f(math.Float32bits(c.x))); got != c.want {
			t.Errorf("of %v: got %v, want %v", c.x, got, c.want)
		}
	}
}

func TestParseTables(t *testing.T) {
	text := string(Append(nil, "rcp", []Row{{C0: -1 << 40, C1: 2, C2: -3}, {C0: 4, Unit: 20}}))
	got, err := ParseTables("# a comment\n" + text)
	if err != nil || len(got["rcp"]) != 2 || got["rcp"][0] != (Row{-1 << 40, 2, -3, 0}) || got["rcp"][1] != (Row{4, 0, 0, 20}) {
		t.Errorf("got %v, %v", got, err)
	}
	for wrong, want := range map[string]string{
		"f\n1 2 3\n1 2 3\n1 2 3": "3 rows",
		"f\n1 2 x":               "line 2",
		"f\n1 2 3 4 5":           "5 numbers",
		"f\n1 2 9999999999":      "out of range",
	} {
		if _, err := ParseTables(wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", wrong, err, want)
		}
	}
}
