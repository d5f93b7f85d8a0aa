package ptx_test

import (
	"math"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// TestConstants evaluates constant expressions as operands.
func TestConstants(t *testing.T) {
	integer := func(n int64) ptx.Operand { return ptx.Imm{Value: uint64(n)} }
	double := func(f float64) ptx.Operand { return ptx.Float{Bits: math.Float64bits(f), Width: 64} }
	for _, c := range []struct {
		text string
		want ptx.Operand
	}{
		{"0", integer(0)}, {"0U", integer(0)}, {"42U", integer(42)}, {"0xfFu", integer(255)}, {"0X10", integer(16)},
		{"0b1010", integer(10)}, {"0777", integer(511)}, {"00", integer(0)}, {"-0x8000000000000000", integer(math.MinInt64)},
		{"0xFFFFFFFFFFFFFFFF", integer(-1)}, {"WARP_SZ", integer(32)}, {"-WARP_SZ+1", integer(-31)},
		{"1+2*3", integer(7)}, {"(1+2)*3", integer(9)}, {"10-4-3", integer(3)}, {"100/7/2", integer(7)}, {"-7/2", integer(-3)},
		{"-7%2", integer(-1)}, {"7%-2", integer(1)}, {"10%3", integer(1)}, {"-7U/2", integer(math.MaxInt64 - 3)}, {"-1U%10", integer(5)},
		{"1<<4+1", integer(32)}, {"-8>>1", integer(-4)}, {"-8U>>60", integer(15)}, {"1<<64", integer(0)}, {"1<<-1", integer(0)}, {"-1>>70", integer(-1)},
		{"6&3", integer(2)}, {"6^3", integer(5)}, {"6|3", integer(7)}, {"1|2^3&4", integer(3)}, {"~5", integer(-6)}, {"!5", integer(0)}, {"!0", integer(1)}, {"!!7", integer(1)},
		{"1<2", integer(1)}, {"2<1", integer(0)}, {"2>1", integer(1)}, {"1>1", integer(0)}, {"1<=1", integer(1)}, {"2<=1", integer(0)},
		{"1>=2", integer(0)}, {"2>=2", integer(1)}, {"3==3", integer(1)}, {"3!=3", integer(0)}, {"-1<0", integer(1)}, {"-1<0U", integer(0)}, {"-1>=0U", integer(1)},
		{"2&&1", integer(1)}, {"2&&0", integer(0)}, {"0||3", integer(1)}, {"0||0", integer(0)}, {"1 == 1 && 2 < 3", integer(1)},
		{"1?2:3", integer(2)}, {"0?2:0?4:5", integer(5)}, {"0.0?1:2", integer(2)}, {"(.s64)-1 < 0", integer(1)}, {"(.u64)-1 < 0", integer(0)},
		{"(.s64)2.9", integer(2)}, {"(.s64)-2.9", integer(-2)}, {"(.u64)1e19", ptx.Imm{Value: 1e19}}, {"(.u64)5.5", integer(5)},
		{"9223372036854775807+1", integer(math.MinInt64)}, {"18446744073709551615", integer(-1)}, {"(.s64)0x8000000000000000/-1", integer(math.MinInt64)}, {"(.s64)0x8000000000000000%-1", integer(0)}, {"-9223372036854775808/-1", integer(0)},
		{"1.5", double(1.5)}, {"1.", double(1)}, {".5", double(.5)}, {"1e3", double(1000)}, {"1E+3", double(1000)}, {"1.5e-3", double(1.5e-3)}, {"-.5e1", double(-5)},
		{"1.5+2", double(3.5)}, {"1-.5", double(.5)}, {"2.0*3U", double(6)}, {"1/4.0", double(.25)}, {"1.0/0", double(math.Inf(1))}, {"+1.5", double(1.5)},
		{"1.5<2", integer(1)}, {"1.5>2", integer(0)}, {"1.5<=1.5", integer(1)}, {"1.5>=2", integer(0)}, {"1.5==1.5", integer(1)}, {"1.5!=1.5", integer(0)}, {"!1.5", integer(0)}, {"1.5&&0.0", integer(0)},
		{"0f3F800000", ptx.Float{Bits: 0x3F800000, Width: 32}}, {"0F7fc00001", ptx.Float{Bits: 0x7FC00001, Width: 32}}, {"-0f00000000", ptx.Float{Bits: 0x80000000, Width: 32}},
		{"0d3FF0000000000000", double(1)}, {"0DBFF0000000000000", double(-1)}, {"-0d3FF0000000000000", double(-1)}, {"0f3F800000+1", double(2)},
	} {
		m, err := ptx.Parse("k.ptx", bodyHead+"mov.b64 %rd1, "+c.text+";"+bodyTail)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := m.Func("k").Body[0].Operands[1]; got != c.want {
			t.Errorf("%s = %#v, want %#v", c.text, got, c.want)
		}
	}
}

// TestTypes looks up every type by its name.
func TestTypes(t *testing.T) {
	sizes := map[string]int{
		"u8": 1, "u16": 2, "u32": 4, "u64": 8, "s8": 1, "s16": 2, "s32": 4, "s64": 8, "b8": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 16,
		"f16": 2, "f16x2": 4, "bf16": 2, "bf16x2": 4, "f32": 4, "f64": 8, "pred": 1, "texref": 8, "samplerref": 8, "surfref": 8,
	}
	for name, size := range sizes {
		typ, ok := ptx.ParseType(name)
		if !ok || typ.String() != name || typ.Size() != size {
			t.Errorf("%s: %v, %t, of %d bytes, want %d", name, typ, ok, typ.Size(), size)
		}
	}
	for typ := ptx.U8; typ <= ptx.SurfRef; typ++ {
		if _, ok := sizes[typ.String()]; !ok {
			t.Errorf("%d is named %q", typ, typ)
		}
	}
	for _, name := range []string{"", "f33", ".f32", "unknown"} {
		if typ, ok := ptx.ParseType(name); ok {
			t.Errorf("%q is %v", name, typ)
		}
	}
}
