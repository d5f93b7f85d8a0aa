package runner

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// load generates the bytes of an argument, as Run does.
func load(t *testing.T, a Arg, seed uint64, parameter int) []byte {
	t.Helper()
	n, err := a.Size()
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, n)
	for i := range data {
		data[i] = 0xa5
	}
	// Read two chunks, as for a large buffer.
	src, err := a.open(seed, parameter)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	cut := n / a.Type.Size() / 2 * a.Type.Size()
	for _, part := range [][]byte{data[:cut], data[cut:]} {
		if err := src.read(part); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

func TestParseArg(t *testing.T) {
	for _, c := range []struct {
		text      string
		direction Direction
		typ       Type
		want      []uint64
	}{
		{"u32=7", Scalar, U32, []uint64{7}},
		{"u32=+7", Scalar, U32, []uint64{7}},
		{"u32=007", Scalar, U32, []uint64{7}},
		{"s64=-1", Scalar, S64, []uint64{math.MaxUint64}},
		{"s8=-128", Scalar, S8, []uint64{0x80}},
		{"s16=-0x10", Scalar, S16, []uint64{0xfff0}},
		{"u8=0b101", Scalar, U8, []uint64{5}},
		{"u8=0o17", Scalar, U8, []uint64{15}},
		{"u8=255", Scalar, U8, []uint64{255}},
		{"u64=18446744073709551615", Scalar, U64, []uint64{math.MaxUint64}},
		{"b16=0x3c00", Scalar, B16, []uint64{0x3c00}},
		{"b64=0xFFFFFFFFFFFFFFFF", Scalar, B64, []uint64{math.MaxUint64}},
		{"f32=0.5", Scalar, F32, []uint64{0x3f000000}},
		{"f32=-0", Scalar, F32, []uint64{0x80000000}},
		{"f32=inf", Scalar, F32, []uint64{0x7f800000}},
		{"f32=-Inf", Scalar, F32, []uint64{0xff800000}},
		{"f32=0x1p-3", Scalar, F32, []uint64{0x3e000000}},
		{"f64=0.1", Scalar, F64, []uint64{0x3fb999999999999a}},
		{"f16=1", Scalar, F16, []uint64{0x3c00}},
		{"bf16=-2", Scalar, BF16, []uint64{0xc000}},
		{"in:f32=1,2,3", In, F32, []uint64{0x3f800000, 0x40000000, 0x40400000}},
		{"in:u8=1, 2 ,3", In, U8, []uint64{1, 2, 3}},
		{"in:f32=iota[4]", In, F32, []uint64{0, 0x3f800000, 0x40000000, 0x40400000}},
		{"in:f16=iota[3]", In, F16, []uint64{0, 0x3c00, 0x4000}},
		{"in:bf16=iota[3]", In, BF16, []uint64{0, 0x3f80, 0x4000}},
		{"in:f64=iota[2]", In, F64, []uint64{0, 0x3ff0000000000000}},
		{"out:f32=[2]", Out, F32, []uint64{0, 0}},
		{"inout:u16=[3]", InOut, U16, []uint64{0, 0, 0}},
		{"in:u8=iota[2*1*2]", In, U8, []uint64{0, 1, 2, 3}},
		{"in:s8=random[3]:-7..-7", In, S8, []uint64{0xf9, 0xf9, 0xf9}},
		{"in:bf16=random[2]:0.5..0.5", In, BF16, []uint64{0x3f00, 0x3f00}},
		{"struct=u8:1", Scalar, B8, []uint64{1}},
		{"struct=u8:1,2,u16:3,u8:4", Scalar, B8, []uint64{1, 2, 3, 0, 4, 0}},
		{"struct=u8:1, f32:-2, u8:3", Scalar, B8, []uint64{1, 0, 0, 0, 0, 0, 0, 0xc0, 3, 0, 0, 0}},
		{"struct=f16:1,u64:2,s8:-1", Scalar, B8, []uint64{0, 0x3c, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0}},
		{"inout:s32=-1,1", InOut, S32, []uint64{0xffffffff, 1}},
	} {
		a, err := ParseArg(c.text)
		if err != nil {
			t.Error(err)
			continue
		}
		if a.Direction != c.direction || a.Type != c.typ || a.Text != c.text {
			t.Errorf("%s: got %v %v %q", c.text, a.Direction, a.Type, a.Text)
		}
		data := load(t, a, 0, 0)
		if len(data) != len(c.want)*c.typ.Size() {
			t.Errorf("%s: got %d bytes", c.text, len(data))
			continue
		}
		for i, want := range c.want {
			if got := Element(data, c.typ, i); got != want {
				t.Errorf("%s: element %d: got %#x, want %#x", c.text, i, got, want)
			}
		}
	}
}

func TestParseArgRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `has no "="`},
		{"7", `write TYPE=VALUE`},
		{"i32=7", `"i32" is not a type (u8 u16`},
		{"=7", `"" is not a type`},
		{"u32=", `has no value`},
		{"u32=x", `not an integer of type u32`},
		{"u32=1.5", `not an integer of type u32`},
		{"u32=1_000", `not an integer`},
		{"u32=+-1", `not an integer`},
		{"u32=0x", `not an integer`},
		{"u32=0x-1", `not an integer`},
		{"u32=--1", `not an integer`},
		{"u32=-1", `out of range for u32 (0 to 4294967295)`},
		{"u8=256", `out of range for u8 (0 to 255)`},
		{"s8=128", `out of range for s8 (-128 to 127)`},
		{"s64=9223372036854775808", `(-9223372036854775808 to 9223372036854775807)`},
		{"u64=18446744073709551616", `(0 to 18446744073709551615)`},
		{"b16=0x10000", `out of range for b16`},
		{"b16=-1", `out of range for b16`},
		{"f32=1e39", `out of range for f32 (finite values reach 3.4028235e+38`},
		{"f16=65520", `out of range for f16 (finite values reach 65504`},
		{"bf16=3.4e38", `out of range for bf16`},
		{"f32=0x3f800000", `a bit pattern is written b32=0x3f800000`},
		{"f32=one", `not a number of type f32`},
		{"f32=1,2", `a buffer is written in:f32=1,2`},
		{"f32=[4]", `a buffer is written in:f32=[4]`},
		{"f32=@x", `a buffer is written in:f32=@x`},
		{"input:f32=1", `"input" is not a direction (in, out, inout)`},
		{"in:f31=1", `"f31" is not a type`},
		{"in:f32=", `has no value`},
		{"in:f32=1,,2", `value 2 of 3 is empty`},
		{"in:u8=1,2,300", `value 3 of 3 "300" is out of range`},
		{"in:f32=@", `no file name`},
		{"in:f32=iota", `write iota[N]`},
		{"in:f32=random", `write random[N]`},
		{"in:f32=iota[", `does not end with "]"`},
		{"in:f32=iota[]", `not a number of elements`},
		{"in:f32=iota[-1]", `not a number of elements`},
		{"in:f32=iota[0]", `at least 1 element`},
		{"in:f32=iota[4]x", `does not end with "]"`},
		{"in:f32=iota[4*]", `not a number of elements`},
		{"in:f32=iota[4**4]", `not a number of elements`},
		{"in:f32=iota[4*0]", `at least 1 element`},
		{"in:u8=iota[4294967296*4294967296]", `more than this process can address`},
		{"in:f32=iota[4]:0..1", `only random[N] and whole[N] have limits`},
		{"out:f32=[4]:0..1", `only random[N] and whole[N] have limits`},
		{"in:f32=random[4]:", `write random[N]:LOW..HIGH`},
		{"in:f32=random[4]:1", `write random[N]:LOW..HIGH`},
		{"in:f32=random[4]:..1", `limit is empty`},
		{"in:u8=random[4]:0..256", `limit "256" is out of range for u8`},
		{"in:f32=random[4]:0..inf", `limit "inf" is not finite`},
		{"in:f64=random[4]:-1e308..1e308", `too far apart`},
		{"in:f32=random[4]:1..-1", `in the wrong order`},
		{"in:s32=random[4]:1..-1", `in the wrong order`},
		{"in:u32=random[4]:2..1", `in the wrong order`},
		{"in:f32=whole", `write whole[N]`},
		{"in:f32=whole[4]", `write random[N]:LOW..HIGH or whole[N]:LOW..HIGH`},
		{"in:f32=whole[4]:0..1.5", `want integers from -16777216 to 16777216`},
		{"in:f16=whole[4]:-4096..0", `want integers from -2048 to 2048`},
		{"struct=", `write struct=TYPE:VALUE`},
		{"struct=1", `field 1 has no type`},
		{"struct=x32:1", `field 1 "x32" is not a type`},
		{"struct=u32:1,", `field 2 is empty`},
		{"struct=u8:1,256", `field 2 "256" is out of range for u8`},
		{"in:struct=u32:1", `"struct" is not a type`},
		{"in:f32=noise[4]", `"noise" is not a kind of data`},
		{"in:f16=iota[65506]", `at most 65505 elements`},
		{"out:f32=[0]", `at least 1 element`},
		{"out:f32=[9223372036854775807]", `more than this process can address`},
		{"out:f32=[99999999999999999999]", `more than this process can address`},
		{"out:f32=16", `write [N] for its length`},
		{"out:f32=@x", `or inout: to give it data`},
		{"out:f32=iota[4]", `starts as zeros`},
		{"out:f32=", `write [N]`},
	} {
		_, err := ParseArg(c.text)
		if err == nil {
			t.Errorf("%q: accepted", c.text)
		} else if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "argument \""+c.text) {
			t.Errorf("%q: got %q, want it to say %q", c.text, err, c.want)
		}
	}
}

func TestFileArg(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data ...byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40)
	a, err := ParseArg("in:f32=@" + good)
	if err != nil {
		t.Fatal(err)
	}
	data := load(t, a, 0, 0)
	if got := math.Float32frombits(binary.LittleEndian.Uint32(data)); len(data) != 8 || got != 1 {
		t.Errorf("got %x", data)
	}
	for path, want := range map[string]string{
		write("odd", 1, 2, 3, 4, 5):  "5 bytes, not a multiple of the 4 of a f32",
		write("empty"):               "is empty",
		dir:                          "not a regular file",
		filepath.Join(dir, "absent"): "absent",
	} {
		a, err := ParseArg("in:f32=@" + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Size(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", path, err, want)
		}
	}
}

func TestParseShape(t *testing.T) {
	for text, want := range map[string]cu.Dim3{
		"7":              {X: 7, Y: 1, Z: 1},
		"7,8":            {X: 7, Y: 8, Z: 1},
		"7, 8,9":         {X: 7, Y: 8, Z: 9},
		"4294967295,1,1": {X: 1<<32 - 1, Y: 1, Z: 1},
	} {
		got, err := ParseShape(text)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ",", "0", "1,0", "1,1,0", "-1", "1,2,3,4", "x", "4294967296", "1.5"} {
		if got, err := ParseShape(text); err == nil {
			t.Errorf("%q: accepted as %v", text, got)
		}
	}
}

func TestParseMemory(t *testing.T) {
	for _, m := range []Memory{DeviceMemory, MappedMemory, ManagedMemory} {
		if got, err := ParseMemory(m.String()); err != nil || got != m {
			t.Errorf("%v: got %v, %v", m, got, err)
		}
	}
	if _, err := ParseMemory("pinned"); err == nil || !strings.Contains(err.Error(), "device, mapped, managed") {
		t.Errorf("got %v", err)
	}
}

// FuzzParseArg checks that the data of every accepted argument can be generated, and
// that the text of its values is parsed to the same bits.
func FuzzParseArg(f *testing.F) {
	for _, seed := range []string{
		"u32=7", "s64=-1", "f32=0.5", "b16=0x3c00", "in:f32=1,2,3", "in:u8=@file", "in:f32=iota[1024]",
		"in:f32=random[1024]", "out:f32=[16]", "inout:f32=@file", "bf16=nan", "f16=65519.999999999999999999", "in:f16=1e-8,-inf",
		"in:f32=random[16*4]:-1..1", "in:s8=random[64]:-128..127", "in:u64=random[9]:0..18446744073709551615",
		"in:f16=random[9]:-65504..65504", "struct=f32:1,u8:2,3,f64:-0",
		"in:f32=whole[9]:-16777216..16777216", "in:bf16=whole[99]:-3..4", "in:u8=whole[9]:0..255", "in:f64=whole[9]:0..9007199254740992", "struct=b16:0xffff,s64:-1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var a Arg
		var err error
		hostile.Check(t, "parse", func() { a, err = ParseArg(text) })
		if err != nil {
			if !strings.HasPrefix(err.Error(), "argument ") {
				t.Errorf("error without the argument: %v", err)
			}
			return
		}
		if a.from == fromFile {
			return
		}
		n, err := a.Size()
		if err != nil || n <= 0 || n%a.Type.Size() != 0 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if n > 1<<16 {
			return
		}
		data := load(t, a, 1, 0)
		checkLimits(t, &a, data)
		for i := range n / a.Type.Size() {
			bits := Element(data, a.Type, i)
			back, err := parseValue(a.Type, string(appendText(nil, a.Type, bits)))
			if err != nil || back != bits && nonFinite(a.Type, bits) != "NaN" {
				t.Fatalf("%s element %d: %#x came back as %#x, %v", text, i, bits, back, err)
			}
		}
	})
}

// checkLimits checks that random numbers are within their limits.
func checkLimits(t *testing.T, a *Arg, data []byte) {
	t.Helper()
	if a.limits == nil {
		return
	}
	order := func(bits uint64) float64 { // is monotonic, and exact for up to 53 bits
		switch a.Type.class() {
		case signed:
			return float64(signExtend(a.Type, bits))
		case float:
			return a.Type.Float(bits)
		}
		return float64(bits)
	}
	low, high := order(a.limits.low), order(a.limits.high)
	for i := range len(data) / a.Type.Size() {
		if v := order(Element(data, a.Type, i)); !(v >= low && v <= high) {
			t.Fatalf("%s: element %d is %g", a.Text, i, v)
		}
	}
}

// TestLimits checks that numbers with limits are spread over the whole range, and that
// both limits of a small range of integers occur.
func TestLimits(t *testing.T) {
	const n = 1 << 16
	for typ := range typeCount {
		text := "in:" + typ.String() + "=random[65536]:3..66"
		a, err := ParseArg(text)
		if err != nil {
			t.Fatal(err)
		}
		data := load(t, a, 9, 2)
		checkLimits(t, &a, data)
		seen, sum := map[uint64]bool{}, 0.0
		for i := range n {
			bits := Element(data, typ, i)
			seen[bits] = true
			if typ.IsFloat() {
				sum += typ.Float(bits)
			} else {
				sum += float64(bits)
			}
		}
		if !typ.IsFloat() && len(seen) != 64 {
			t.Errorf("%s: %d different numbers, want 64", text, len(seen))
		}
		if mean := sum / n; math.Abs(mean-34.5) > 0.5 {
			t.Errorf("%s: the mean is %g", text, mean)
		}
	}
}

// TestWhole checks that whole numbers of all types are integers, and that all occur.
func TestWhole(t *testing.T) {
	for typ := range typeCount {
		a, err := ParseArg("in:" + typ.String() + "=whole[2000]:0..7")
		if err != nil {
			t.Fatal(err)
		}
		data, seen := load(t, a, 3, 1), map[uint64]bool{}
		for i := range 2000 {
			v := Element(data, typ, i)
			if typ.IsFloat() {
				f := typ.Float(v)
				if f != math.Trunc(f) {
					t.Fatalf("%v: element %d is %g", typ, i, f)
				}
				v = uint64(f)
			}
			if v > 7 {
				t.Fatalf("%v: element %d is %d", typ, i, v)
			}
			seen[v] = true
		}
		if len(seen) != 8 {
			t.Errorf("%v: %d different numbers, want 8", typ, len(seen))
		}
	}
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"u32=N":              "u32=7",
		"in:f32=random[N*N]": "in:f32=random[7*7]",
		"struct=u32:N,N":     "struct=u32:7,7",
		"f32=NaN":            "f32=NaN",
		"f32=nan":            "f32=nan",
		"in:u8=@N":           "in:u8=@N",
		"f32=N1":             "f32=N1",
		"out:f32=[16]":       "out:f32=[16]",
		"":                   "",
	} {
		got, found := Expand(text, 7)
		if got != want || found != (got != text) {
			t.Errorf("%q: got %q, %v, want %q", text, got, found, want)
		}
	}
}
