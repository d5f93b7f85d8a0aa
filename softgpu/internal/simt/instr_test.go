package simt

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// opKernel returns a kernel that runs one instruction on arrays of 64-bit words. In
// its text $d, $a, $b and $c stand for registers of the given types. $p and $q stand
// for predicates; $p is stored if there is no $d. If the type of $c is "pred", it is
// a predicate that is set where c is odd.
func opKernel(text, d string, abc ...string) string {
	var s strings.Builder
	s.WriteString(".version 8.3\n.target sm_90\n.address_size 64\n")
	s.WriteString(".visible .entry op(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u32 n) {\n")
	s.WriteString("\t.reg .b64 %rd<30>;\n\t.reg .b32 %r<9>;\n\t.reg .pred %p<9>;\n\t.reg .b16 %h<4>;\n")
	reg := func(name, t string) {
		if t == "" || t == "pred" {
			return
		}
		fmt.Fprintf(&s, "\t.reg .b%d %%%s;\n", width(t), name)
	}
	reg("d", d)
	for i, t := range abc {
		reg(string(rune('a'+i)), t)
	}
	s.WriteString("\tld.param.u32 %r1, [n];\n\tmov.u32 %r2, %ctaid.x;\n\tmov.u32 %r3, %ntid.x;\n\tmov.u32 %r4, %tid.x;\n")
	s.WriteString("\tmad.lo.u32 %r5, %r2, %r3, %r4;\n\tsetp.ge.u32 %p1, %r5, %r1;\n\t@%p1 bra done;\n\tmul.wide.u32 %rd1, %r5, 8;\n")
	for i, t := range abc {
		name := string(rune('a' + i))
		fmt.Fprintf(&s, "\tld.param.u64 %%rd2, [%s];\n\tadd.u64 %%rd3, %%rd2, %%rd1;\n", name)
		if t == "pred" {
			fmt.Fprintf(&s, "\tld.global.u64 %%rd4, [%%rd3];\n\tand.b64 %%rd4, %%rd4, 1;\n\tsetp.ne.u64 %%p4, %%rd4, 0;\n")
			text = strings.ReplaceAll(text, "$"+name, "%p4")
			continue
		}
		fmt.Fprintf(&s, "\tld.global.b%d %%%s, [%%rd3];\n", width(t), name)
		text = strings.ReplaceAll(text, "$"+name, "%"+name)
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "$p", "%p2"), "$q", "%p3")
	text = strings.ReplaceAll(text, "$d", "%d")
	fmt.Fprintf(&s, "\t%s\n\tld.param.u64 %%rd2, [d];\n\tadd.u64 %%rd3, %%rd2, %%rd1;\n", text)
	if d == "" {
		s.WriteString("\tselp.u64 %rd5, 1, 0, %p2;\n\tst.global.u64 [%rd3], %rd5;\n")
	} else {
		fmt.Fprintf(&s, "\tst.global.b%d [%%rd3], %%d;\n", width(d))
	}
	s.WriteString("done:\n\tret;\n}\n")
	return s.String()
}

func width(t string) int {
	n := 0
	for _, c := range t {
		if c >= '0' && c <= '9' {
			n = n*10 + int(c-'0')
		}
	}
	return n
}

type opTest struct {
	text string
	d    string
	abc  []string
	want func(a, b, c uint64) uint64
}

// operands returns edges and random numbers for the given types.
func operands(types []string) (out [3][]uint64) {
	n := 900
	for i := range out {
		t := "u64"
		if i < len(types) {
			t = types[i]
		}
		for range n {
			out[i] = append(out[i], operandOf(t))
		}
	}
	return out
}

func operandOf(t string) uint64 {
	if rng.IntN(3) == 0 {
		edges := []uint64{0, 1, 2, 31, 32, 63, 64, 65, 127, 128, 255, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 63, 1<<63 - 1, ^uint64(0)}
		switch t {
		case "f32":
			return uint64(math.Float32bits(edgeFloats[rng.IntN(len(edgeFloats))]))
		case "f64":
			return math.Float64bits(float64(edgeFloats[rng.IntN(len(edgeFloats))]))
		case "f16", "bf16":
			return []uint64{0, 0x8000, 0x3c00, 0x7c00, 0xfc00, 0x7e00, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0x7f80, 0x3f80}[rng.IntN(13)]
		}
		return edges[rng.IntN(len(edges))]
	}
	switch {
	case t == "f32" && rng.IntN(2) == 0:
		return uint64(math.Float32bits(float32(rng.NormFloat64() * 100)))
	case t == "f64" && rng.IntN(2) == 0:
		return math.Float64bits(rng.NormFloat64() * 1e6)
	}
	return rng.Uint64() >> rng.UintN(64)
}

func low(v uint64, t string) uint64 {
	if t == "" {
		return v
	}
	return v & (^uint64(0) >> (64 - width(t)))
}

// runOps runs the instructions and compares the results. NaN equals any NaN of the
// type.
func runOps(t *testing.T, tests []opTest) {
	for _, o := range tests {
		t.Run(o.text, func(t *testing.T) {
			eachWay(t, opKernel(o.text, o.d, o.abc...), func(t *testing.T, m *module) {
				in := operands(o.abc)
				n := len(in[0])
				out := put(m.mem, make([]uint64, n))
				mustRun(t, m.launch(t, "op", blocks(n, 128), 128, put(m.mem, in[0]), put(m.mem, in[1]), put(m.mem, in[2]), out, n))
				for i, got := range valuesOf[uint64](out.Data) {
					var v [3]uint64
					for k, ty := range o.abc {
						v[k] = in[k][i]
						if ty != "pred" {
							v[k] = low(v[k], ty)
						}
					}
					want := low(o.want(v[0], v[1], v[2]), o.d)
					if got != want && !(nanOf(got, o.d) && nanOf(want, o.d)) {
						t.Fatalf("of %#x, %#x, %#x: got %#x, want %#x", v[0], v[1], v[2], got, want)
					}
				}
			})
		})
	}
}

func nanOf(v uint64, t string) bool {
	switch t {
	case "f32":
		return v&0x7fffffff > 0x7f800000
	case "f64":
		return v&^(1<<63) > 0x7ff<<52
	case "f16":
		return v&0x7fff > 0x7c00
	case "bf16":
		return v&0x7fff > 0x7f80
	}
	return false
}

func s32(v uint64) int64 { return int64(int32(v)) }

func f32(v uint64) float32 { return math.Float32frombits(uint32(v)) }

func b32(v float32) uint64 { return uint64(math.Float32bits(v)) }

func sat32(v int64) uint64 { return uint64(min(max(v, math.MinInt32), math.MaxInt32)) }

func TestIntegerInstructions(t *testing.T) {
	u32x2, u32x3 := []string{"u32", "u32"}, []string{"u32", "u32", "u32"}
	u64x2, u64x3 := []string{"u64", "u64"}, []string{"u64", "u64", "u64"}
	u16x2 := []string{"u16", "u16"}
	runOps(t, []opTest{
		{"add.sat.s32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 { return sat32(s32(a) + s32(b)) }},
		{"sub.sat.s32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 { return sat32(s32(a) - s32(b)) }},
		{"add.u16 $d, $a, $b;", "u16", u16x2, func(a, b, _ uint64) uint64 { return a + b }},
		{"sub.s64 $d, $a, $b;", "u64", u64x2, func(a, b, _ uint64) uint64 { return a - b }},
		{"mul.hi.s16 $d, $a, $b;", "u16", u16x2, func(a, b, _ uint64) uint64 { return uint64(int32(int16(a)) * int32(int16(b)) >> 16) }},
		{"mul.wide.u16 $d, $a, $b;", "u32", u16x2, func(a, b, _ uint64) uint64 { return a * b }},
		{"mul.wide.s16 $d, $a, $b;", "u32", u16x2, func(a, b, _ uint64) uint64 { return uint64(int64(int16(a)) * int64(int16(b))) }},
		{"mul.wide.u32 $d, $a, $b;", "u64", u32x2, func(a, b, _ uint64) uint64 { return a * b }},
		{"mul.hi.u64 $d, $a, $b;", "u64", u64x2, func(a, b, _ uint64) uint64 { h, _ := bits.Mul64(a, b); return h }},
		{"mad.hi.s32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return uint64(s32(a)*s32(b)>>32) + c }},
		{"mad.hi.sat.s32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return sat32(s32(a)*s32(b)>>32 + s32(c)) }},
		{"mad.wide.s32 $d, $a, $b, $c;", "u64", []string{"u32", "u32", "u64"}, func(a, b, c uint64) uint64 { return uint64(s32(a)*s32(b)) + c }},
		{"mad.lo.s64 $d, $a, $b, $c;", "u64", u64x3, func(a, b, c uint64) uint64 { return a*b + c }},
		{"mul24.lo.u32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 { return (a & 0xffffff) * (b & 0xffffff) }},
		{"mul24.hi.s32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 { return uint64(int64(int32(a<<8)>>8) * int64(int32(b<<8)>>8) >> 16) }},
		{"mad24.lo.s32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return uint64(int64(int32(a<<8)>>8)*int64(int32(b<<8)>>8)) + c }},
		{"sad.s32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return c + uint64(max(s32(a)-s32(b), s32(b)-s32(a))) }},
		{"sad.u64 $d, $a, $b, $c;", "u64", u64x3, func(a, b, c uint64) uint64 { return c + max(a, b) - min(a, b) }},
		{"div.s32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 {
			if b == 0 {
				return 0xffffffff
			}
			return uint64(s32(a) / s32(b))
		}},
		{"rem.u64 $d, $a, $b;", "u64", u64x2, func(a, b, _ uint64) uint64 {
			if b == 0 {
				return ^uint64(0)
			}
			return a % b
		}},
		{"abs.s64 $d, $a;", "u64", []string{"u64"}, func(a, _, _ uint64) uint64 { return uint64(max(int64(a), -int64(a))) }},
		{"abs.s16 $d, $a;", "u16", []string{"u16"}, func(a, _, _ uint64) uint64 { return uint64(max(int16(a), -int16(a))) }},
		{"neg.s32 $d, $a;", "u32", []string{"u32"}, func(a, _, _ uint64) uint64 { return -a }},
		{"min.s16 $d, $a, $b;", "u16", u16x2, func(a, b, _ uint64) uint64 { return uint64(min(int16(a), int16(b))) }},
		{"max.u16 $d, $a, $b;", "u16", u16x2, func(a, b, _ uint64) uint64 { return max(a, b) }},
		{"max.s64 $d, $a, $b;", "u64", u64x2, func(a, b, _ uint64) uint64 { return uint64(max(int64(a), int64(b))) }},
		{"dp4a.u32.s32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 {
			for i := range 4 {
				c += uint64(int64(uint8(a>>(8*i))) * int64(int8(b>>(8*i))))
			}
			return c
		}},
		{"dp2a.hi.s32.u32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 {
			return c + uint64(int64(int16(a))*int64(uint8(b>>16))+int64(int16(a>>16))*int64(uint8(b>>24)))
		}},
		{"add.cc.u32 %r6, $a, $b;\n\taddc.u32 $d, $c, 0;", "u32", u32x3, func(a, b, c uint64) uint64 { return c + (a+b)>>32 }},
		{"add.cc.u64 %rd9, $a, $b;\n\taddc.cc.u64 %rd9, %rd9, $c;\n\taddc.u64 $d, 0, 0;", "u64", u64x3, func(a, b, c uint64) uint64 {
			s, c1 := bits.Add64(a, b, 0)
			_, c2 := bits.Add64(s, c, c1)
			return c2
		}},
		{"sub.cc.u32 %r6, $a, $b;\n\tsubc.u32 $d, $c, 5;", "u32", u32x3, func(a, b, c uint64) uint64 { return c - 5 - uint64(bit(a < b)) }},
		// The carry flag is the inverse of the borrow. The oracle has results of an H200.
		{"sub.cc.u32 %r6, $a, $b;\n\taddc.u32 $d, $c, 0;", "u32", u32x3, func(a, b, c uint64) uint64 { return c + uint64(bit(a >= b)) }},
		{"add.cc.u32 %r6, $a, $b;\n\tsubc.u32 $d, $c, 0;", "u32", u32x3, func(a, b, c uint64) uint64 { return c - uint64(bit(a+b < 1<<32)) }},
		{"sub.cc.u64 %rd9, $a, $b;\n\taddc.u64 $d, $c, 0;", "u64", u64x3, func(a, b, c uint64) uint64 { return c + uint64(bit(a >= b)) }},
		{"sub.cc.u32 %r6, $a, $b;\n\tmadc.lo.u32 $d, $c, 3, 0;", "u32", u32x3, func(a, b, c uint64) uint64 { return 3*c + uint64(bit(a >= b)) }},
		{"sub.cc.u64 %rd9, $a, $b;\n\tsubc.cc.u64 %rd9, $b, $c;\n\tsubc.u64 $d, 0, 0;", "u64", u64x3, func(a, b, c uint64) uint64 {
			_, c1 := bits.Sub64(a, b, 0)
			_, c2 := bits.Sub64(b, c, c1)
			return -c2
		}},
		{"mad.lo.cc.u32 %r6, $a, $b, $c;\n\tmadc.hi.u32 $d, $a, $b, 7;", "u32", u32x3, func(a, b, c uint64) uint64 {
			return (a*b)>>32 + 7 + (a*b&0xffffffff+c)>>32
		}},
	})
}

func TestBitInstructions(t *testing.T) {
	u32, u32x2, u32x3 := []string{"u32"}, []string{"u32", "u32"}, []string{"u32", "u32", "u32"}
	u64 := []string{"u64"}
	runOps(t, []opTest{
		{"shl.b32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 { return uint64(uint32(a) << b) }},
		{"shl.b64 $d, $a, $b;", "u64", []string{"u64", "u32"}, func(a, b, _ uint64) uint64 { return a << b }},
		{"shl.b16 $d, $a, $b;", "u16", []string{"u16", "u32"}, func(a, b, _ uint64) uint64 { return uint64(uint16(a) << b) }},
		{"shr.s32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 { return uint64(int32(a) >> b) }},
		{"shr.u32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 { return uint64(uint32(a) >> b) }},
		{"shr.s16 $d, $a, $b;", "u16", []string{"u16", "u32"}, func(a, b, _ uint64) uint64 { return uint64(int16(a) >> b) }},
		{"shr.s64 $d, $a, $b;", "u64", []string{"u64", "u32"}, func(a, b, _ uint64) uint64 { return uint64(int64(a) >> b) }},
		{"shf.l.wrap.b32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return (b<<32 | a) << (c & 31) >> 32 }},
		{"shf.l.clamp.b32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return (b<<32 | a) << min(c, 32) >> 32 }},
		{"shf.r.wrap.b32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return (b<<32 | a) >> (c & 31) }},
		{"shf.r.clamp.b32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return (b<<32 | a) >> min(c, 32) }},
		{"lop3.b32 $d, $a, $b, $c, 0x96;", "u32", u32x3, func(a, b, c uint64) uint64 { return a ^ b ^ c }},
		{"lop3.b32 $d, $a, $b, $c, 0xe8;", "u32", u32x3, func(a, b, c uint64) uint64 { return a&b | a&c | b&c }},
		{"lop3.b32 $d, $a, $b, $c, 0x1a;", "u32", u32x3, func(a, b, c uint64) uint64 { return (a&b | c) ^ a }},
		{"cnot.b32 $d, $a;", "u32", u32, func(a, _, _ uint64) uint64 { return uint64(bit(a == 0)) }},
		{"not.b64 $d, $a;", "u64", u64, func(a, _, _ uint64) uint64 { return ^a }},
		{"brev.b64 $d, $a;", "u64", u64, func(a, _, _ uint64) uint64 { return bits.Reverse64(a) }},
		{"popc.b64 $d, $a;", "u32", u64, func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
		{"clz.b64 $d, $a;", "u32", u64, func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) }},
		{"bfind.u32 $d, $a;", "u32", u32, func(a, _, _ uint64) uint64 { return uint64(bits.Len64(a) - 1) }},
		{"bfind.s32 $d, $a;", "u32", u32, func(a, _, _ uint64) uint64 { return uint64(bits.Len32(uint32(int32(a)^int32(a)>>31)) - 1) }},
		{"bfind.shiftamt.u64 $d, $a;", "u32", u64, func(a, _, _ uint64) uint64 {
			if a == 0 {
				return ^uint64(0)
			}
			return uint64(bits.LeadingZeros64(a))
		}},
		{"bfe.u32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return fieldOf(a, b&255, c&255, 32, false) }},
		{"bfe.s32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return fieldOf(a, b&255, c&255, 32, true) }},
		{"bfe.u64 $d, $a, $b, $c;", "u64", []string{"u64", "u32", "u32"}, func(a, b, c uint64) uint64 { return fieldOf(a, min(b, 255), min(c, 255), 64, false) }},
		{"bfe.s64 $d, $a, $b, $c;", "u64", []string{"u64", "u32", "u32"}, func(a, b, c uint64) uint64 { return fieldOf(a, min(b, 255), min(c, 255), 64, true) }},
		{"bfi.b32 $d, $a, $b, $c, 9;", "u32", u32x3, func(a, b, c uint64) uint64 { return insert(a, b, c&255, 9, 32) }},
		{"bfi.b32 $d, $a, $b, 5, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return insert(a, b, 5, c&255, 32) }},
		{"bfi.b64 $d, $a, $b, $c, 40;", "u64", []string{"u64", "u64", "u32"}, func(a, b, c uint64) uint64 { return insert(a, b, min(c, 255), 40, 64) }},
		{"prmt.b32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 {
			var r uint64
			for i := range 4 {
				s := c >> (4 * i) & 15
				x := (b<<32 | a) >> (8 * (s & 7)) & 255
				if s > 7 {
					x = uint64(uint8(int8(x) >> 7))
				}
				r |= x << (8 * i)
			}
			return r
		}},
		{"prmt.b32.f4e $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 { return (b<<32 | a) >> (8 * (c & 3)) }},
		{"prmt.b32.rc16 $d, $a, $b, $c;", "u32", u32x3, func(a, _, c uint64) uint64 { return (a >> (16 * (c & 1)) & 0xffff) * 0x10001 }},
		{"fns.b32 $d, $a, $b, 2;", "u32", u32x2, func(a, b, _ uint64) uint64 {
			if b > 31 {
				return ^uint64(0)
			}
			m := a >> b << b
			m &= m - 1
			return uint64(bits.TrailingZeros64(m|1<<63)) | -uint64(bit(m == 0))
		}},
		{"mov.b64 {%r6, %r7}, $a;\n\tmov.b64 $d, {%r7, %r6};", "u64", u64, func(a, _, _ uint64) uint64 { return bits.RotateLeft64(a, 32) }},
		{"mov.b32 {%h1, %h2}, $a;\n\tmov.b32 $d, {%h2, %h1};", "u32", u32, func(a, _, _ uint64) uint64 { return uint64(bits.RotateLeft32(uint32(a), 16)) }},
		{"bmsk.clamp.b32 $d, $a, $b;", "u32", u32x2, func(a, b, _ uint64) uint64 { return insert(^uint64(0), 0, a, b, 32) }},
		{"selp.b32 $d, $a, $b, $c;", "u32", []string{"u32", "u32", "pred"}, func(a, b, c uint64) uint64 {
			if c&1 != 0 {
				return a
			}
			return b
		}},
		{"slct.u32.s32 $d, $a, $b, $c;", "u32", u32x3, func(a, b, c uint64) uint64 {
			if int32(c) >= 0 {
				return a
			}
			return b
		}},
	})
}

// fieldOf extracts a field bit by bit, as the ISA describes it.
func fieldOf(a, pos, n uint64, width uint64, isSigned bool) uint64 {
	var sign, r uint64
	if isSigned && n > 0 {
		sign = a >> min(pos+n-1, width-1) & 1
	}
	for i := range width {
		bit := sign
		if i < n && pos+i < width {
			bit = a >> (pos + i) & 1
		}
		r |= bit << i
	}
	return r
}

func insert(a, b, pos, n uint64, width uint64) uint64 {
	for i := range min(n, width) {
		if pos+i < width {
			b = b&^(1<<(pos+i)) | a>>i&1<<(pos+i)
		}
	}
	return b
}

func TestComparisons(t *testing.T) {
	u32x2, f32x2, f64x2 := []string{"u32", "u32"}, []string{"f32", "f32"}, []string{"f64", "f64"}
	yes := func(b bool) uint64 { return uint64(bit(b)) }
	tests := []opTest{
		{"setp.lo.u32 $p, $a, $b;", "", u32x2, func(a, b, _ uint64) uint64 { return yes(a < b) }},
		{"setp.hs.u64 $p, $a, $b;", "", []string{"u64", "u64"}, func(a, b, _ uint64) uint64 { return yes(a >= b) }},
		{"setp.gt.s16 $p, $a, $b;", "", []string{"u16", "u16"}, func(a, b, _ uint64) uint64 { return yes(int16(a) > int16(b)) }},
		{"setp.lt.and.s32 $p, $a, $b, $c;", "", []string{"u32", "u32", "pred"}, func(a, b, c uint64) uint64 { return yes(s32(a) < s32(b) && c&1 != 0) }},
		{"setp.ge.or.s32 $p, $a, $b, !$c;", "", []string{"u32", "u32", "pred"}, func(a, b, c uint64) uint64 { return yes(s32(a) >= s32(b) || c&1 == 0) }},
		{"setp.ne.xor.s64 $q|$p, $a, $b, $c;", "", []string{"u64", "u64", "pred"}, func(a, b, c uint64) uint64 { return yes((a == b) != (c&1 != 0)) }},
		{"set.lt.u32.f32 $d, $a, $b;", "u32", f32x2, func(a, b, _ uint64) uint64 { return -yes(f32(a) < f32(b)) }},
		{"set.ge.f32.s32 $d, $a, $b;", "f32", u32x2, func(a, b, _ uint64) uint64 { return b32(float32(yes(s32(a) >= s32(b)))) }},
		{"setp.lt.ftz.f32 $p, $a, $b;", "", f32x2, func(a, b, _ uint64) uint64 { return yes(flushed(f32(a)) < flushed(f32(b))) }},
		{"testp.normal.f32 $p, $a;", "", []string{"f32"}, func(a, _, _ uint64) uint64 {
			e := a >> 23 & 255
			return yes(e != 0 && e != 255 || a<<1&0xffffffff == 0)
		}},
		{"testp.subnormal.f64 $p, $a;", "", []string{"f64"}, func(a, _, _ uint64) uint64 { return yes(a>>52&0x7ff == 0 && a<<12 != 0) }},
		{"testp.finite.f32 $p, $a;", "", []string{"f32"}, func(a, _, _ uint64) uint64 { return yes(a>>23&255 != 255) }},
	}
	for op, f := range map[string]func(x, y float64) bool{
		"eq": func(x, y float64) bool { return x == y }, "ne": func(x, y float64) bool { return x < y || x > y },
		"lt": func(x, y float64) bool { return x < y }, "le": func(x, y float64) bool { return x <= y },
		"gt": func(x, y float64) bool { return x > y }, "ge": func(x, y float64) bool { return x >= y },
		"equ": func(x, y float64) bool { return !(x < y || x > y) }, "neu": func(x, y float64) bool { return x != y },
		"ltu": func(x, y float64) bool { return !(x >= y) }, "leu": func(x, y float64) bool { return !(x > y) },
		"gtu": func(x, y float64) bool { return !(x <= y) }, "geu": func(x, y float64) bool { return !(x < y) },
		"num": func(x, y float64) bool { return x == x && y == y }, "nan": func(x, y float64) bool { return x != x || y != y },
	} {
		tests = append(tests,
			opTest{"setp." + op + ".f32 $p, $a, $b;", "", f32x2, func(a, b, _ uint64) uint64 { return yes(f(float64(f32(a)), float64(f32(b)))) }},
			opTest{"setp." + op + ".f64 $p, $a, $b;", "", f64x2, func(a, b, _ uint64) uint64 {
				return yes(f(math.Float64frombits(a), math.Float64frombits(b)))
			}})
	}
	runOps(t, tests)
}

func flushed(v float32) float32 {
	if v != 0 && v > -1.17549435e-38 && v < 1.17549435e-38 {
		return float32(math.Copysign(0, float64(v)))
	}
	return v
}

// flushedProduct computes mul.ftz. A product that is below the smallest normal number
// at full precision becomes zero, also where f32 would round it up to that number.
func flushedProduct(x, y float32) float32 {
	x, y = flushed(x), flushed(y)
	p := float64(x) * float64(y) // exact
	if scaled := math.Abs(float64(float32(p * 0x1p60))); scaled < 0x1p-66 {
		return float32(math.Copysign(0, p))
	}
	return x * y
}

func TestFloatInstructions(t *testing.T) {
	f1, f2, f3 := []string{"f32"}, []string{"f32", "f32"}, []string{"f32", "f32", "f32"}
	tests := []opTest{
		{"add.ftz.f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 { return b32(flushed(flushed(f32(a)) + flushed(f32(b)))) }},
		{"mul.ftz.f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 { return b32(flushedProduct(f32(a), f32(b))) }},
		{"add.sat.f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 {
			v := f32(a) + f32(b)
			if !(v > 0) {
				return 0
			}
			return b32(min(v, 1))
		}},
		{"max.NaN.f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 { return b32(max(f32(a), f32(b))) }},
		{"min.ftz.f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 { return b32(fmin32(flushed(f32(a)), flushed(f32(b)))) }},
		{"neg.ftz.f32 $d, $a;", "f32", f1, func(a, _, _ uint64) uint64 { return b32(-flushed(f32(a))) }},
		{"rcp.rn.f32 $d, $a;", "f32", f1, func(a, _, _ uint64) uint64 { return b32(1 / f32(a)) }},
		{"sqrt.rn.ftz.f32 $d, $a;", "f32", f1, func(a, _, _ uint64) uint64 { return b32(float32(math.Sqrt(float64(flushed(f32(a)))))) }},
	}
	for name, mode := range map[string]softfloat.Rounding{"rn": softfloat.NearestEven, "rz": softfloat.TowardZero, "rm": softfloat.Down, "rp": softfloat.Up} {
		tests = append(tests,
			opTest{"add." + name + ".f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 { return b32(exactAdd(f32(a), f32(b), mode)) }},
			opTest{"sub." + name + ".f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 { return b32(exactAdd(f32(a), -f32(b), mode)) }},
			opTest{"mul." + name + ".f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 { return b32(exactMul(f32(a), f32(b), mode)) }},
			opTest{"fma." + name + ".f32 $d, $a, $b, $c;", "f32", f3, func(a, b, c uint64) uint64 {
				return b32(exactFMAMode(f32(a), f32(b), f32(c), mode))
			}},
			opTest{"div." + name + ".f32 $d, $a, $b;", "f32", f2, func(a, b, _ uint64) uint64 { return b32(exactDiv(f32(a), f32(b), mode)) }},
			opTest{"sqrt." + name + ".f32 $d, $a;", "f32", f1, func(a, _, _ uint64) uint64 { return b32(exactSqrt(f32(a), mode)) }},
			opTest{"rcp." + name + ".f32 $d, $a;", "f32", f1, func(a, _, _ uint64) uint64 { return b32(exactDiv(1, f32(a), mode)) }},
		)
	}
	runOps(t, tests)
}

func exactDiv(x, y float32, mode softfloat.Rounding) float32 {
	if notFinite(x, y) || x == 0 || y == 0 {
		return x / y
	}
	return round32(new(big.Float).SetPrec(2000).Quo(exactly(float64(x)), exactly(float64(y))), mode)
}

func exactSqrt(x float32, mode softfloat.Rounding) float32 {
	if notFinite(x) || x <= 0 {
		return float32(math.Sqrt(float64(x)))
	}
	return round32(new(big.Float).SetPrec(2000).Sqrt(exactly(float64(x))), mode)
}
