package sfu_test

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// A form is an instruction, its operands for each number, and its result in Go. Results
// are 32 bits: those of f64 are folded.
type form struct {
	name   string
	kind   string
	inputs uint64 // how many operands there are, or are tried
	result func(v uint64) uint32
}

// The numbers of mix, which makes random operands of numbers, and of fold.
const (
	mixA   = 0x9e3779b97f4a7c15
	mixB   = 0xd6e8feb86659fd93
	folded = 0x9e3779b1
)

func mix(v uint64) uint64 {
	v *= mixA
	v = (v ^ v>>32) * mixB
	return v ^ v>>32
}

// fold returns 32 bits of an f64. They are the upper word if the lower one is 0.
func fold(v uint64) uint32 { return uint32(v>>32) ^ uint32(v)*folded }

// edge32 replaces the exponent of x by one of the four largest or least.
func edge32(x uint32) uint32 { return x&0x807fffff | (251+x&7)&255<<23 }

// pair returns two random operands. Every second has an exponent at the edge.
func pair(v uint64) (a, b uint32) {
	z := mix(v)
	a, b = uint32(z), uint32(z>>32)
	if v&1 != 0 {
		a = edge32(a)
	}
	if v&2 != 0 {
		b = edge32(b)
	}
	return a, b
}

// double returns a random operand. Every fourth has an exponent at the edge.
func double(v uint64) uint64 {
	z := mix(v)
	if v&3 == 3 {
		z = z&0x800fffffffffffff | (2043+z&7)&2047<<52
	}
	return z
}

// forms lists all approximate instructions.
func forms() []form {
	var list []form
	add := func(name, kind string, inputs uint64, result func(v uint64) uint32) {
		list = append(list, form{name, kind, inputs, result})
	}
	for _, op := range []string{"sqrt", "tanh", "rcp", "rsqrt", "lg2", "ex2", "sin", "cos"} {
		for _, ftz := range []string{"", ".ftz"} {
			if op == "tanh" && ftz != "" {
				continue
			}
			f := softfloat.Approx32(op, ftz != "")
			add(op+".approx"+ftz+".f32", "f32", 1<<32, func(v uint64) uint32 { return f(uint32(v)) })
		}
	}
	for _, op := range []string{"rcp", "rsqrt"} {
		f := softfloat.Approx64(op, true)
		add(op+".approx.ftz.f64", "upper", 1<<32, func(v uint64) uint32 { return fold(f(v<<32 | uint64(uint32(v)*folded))) })
	}
	rsqrt := softfloat.Approx64("rsqrt", false)
	add("rsqrt.approx.f64", "f64", 1<<30, func(v uint64) uint32 { return fold(rsqrt(double(v))) })
	for _, name := range []string{"div.approx", "div.approx.ftz", "div.full", "div.full.ftz"} {
		f := softfloat.DivApprox32(strings.Split(name, ".")[1], strings.HasSuffix(name, "ftz"))
		add(name+".f32", "pair", 1<<30, func(v uint64) uint32 { a, b := pair(v); return f(a, b) })
	}
	for _, h := range []struct {
		op, mods string
		ftz      bool
		format   *softfloat.Format
	}{
		{"ex2", "approx.f16", false, &softfloat.F16}, {"ex2", "approx.ftz.bf16", true, &softfloat.BF16},
		{"tanh", "approx.f16", false, &softfloat.F16}, {"tanh", "approx.bf16", false, &softfloat.BF16},
	} {
		f := softfloat.ApproxHalf(h.op, h.format, h.ftz)
		add(h.op+"."+h.mods, "half", 1<<16, func(v uint64) uint32 { return uint32(f(v & 0xffff)) })
		add(h.op+"."+h.mods+"x2", "half2", 1<<16, func(v uint64) uint32 {
			return uint32(f(v&0xffff)) | uint32(f(^v&0xffff))<<16
		})
	}
	return list
}

// bodies has, by kind, the instructions that make the operands of the number %v, run the
// instruction $I, and put the result into %r9.
var bodies = map[string]string{
	"f32": `cvt.u32.u64 %r1, %v;
	mov.b32 %f1, %r1;
	$I %f2, %f1;
	mov.b32 %r9, %f2;`,
	"upper": `cvt.u32.u64 %r1, %v;
	mul.lo.u32 %r2, %r1, $folded;
	mov.b64 %d1, {%r2, %r1};
	$I %d2, %d1;
	$end`,
	"f64": `$mix
	add.u64 %z2, %z, 0;
	and.b64 %z3, %z, 7;
	add.u64 %z3, %z3, 2043;
	and.b64 %z3, %z3, 2047;
	shl.b64 %z3, %z3, 52;
	and.b64 %z2, %z2, 0x800fffffffffffff;
	or.b64 %z2, %z2, %z3;
	and.b64 %z3, %v, 3;
	setp.eq.u64 %p, %z3, 3;
	selp.b64 %z, %z2, %z, %p;
	mov.b64 %d1, %z;
	$I %d2, %d1;
	$end`,
	"pair": `$mix
	mov.b64 {%r1, %r2}, %z;
	cvt.u32.u64 %r8, %v;
	and.b32 %r3, %r1, 7;
	add.u32 %r3, %r3, 251;
	and.b32 %r3, %r3, 255;
	shl.b32 %r3, %r3, 23;
	and.b32 %r4, %r1, 0x807fffff;
	or.b32 %r3, %r3, %r4;
	and.b32 %r4, %r8, 1;
	setp.ne.u32 %p, %r4, 0;
	selp.b32 %r1, %r3, %r1, %p;
	and.b32 %r3, %r2, 7;
	add.u32 %r3, %r3, 251;
	and.b32 %r3, %r3, 255;
	shl.b32 %r3, %r3, 23;
	and.b32 %r4, %r2, 0x807fffff;
	or.b32 %r3, %r3, %r4;
	and.b32 %r4, %r8, 2;
	setp.ne.u32 %p, %r4, 0;
	selp.b32 %r2, %r3, %r2, %p;
	mov.b32 %f1, %r1;
	mov.b32 %f2, %r2;
	$I %f3, %f1, %f2;
	mov.b32 %r9, %f3;`,
	"half": `cvt.u16.u64 %h1, %v;
	$I %h2, %h1;
	cvt.u32.u16 %r9, %h2;`,
	"half2": `cvt.u16.u64 %h1, %v;
	not.b16 %h2, %h1;
	mov.b32 %r1, {%h1, %h2};
	$I %r9, %r1;`,
}

const mixBody = `mul.lo.u64 %z, %v, $A;
	shr.u64 %z2, %z, 32;
	xor.b64 %z, %z, %z2;
	mul.lo.u64 %z, %z, $B;
	shr.u64 %z2, %z, 32;
	xor.b64 %z, %z, %z2;`

const foldBody = `mov.b64 {%r1, %r2}, %d2;
	mul.lo.u32 %r1, %r1, $folded;
	xor.b32 %r9, %r1, %r2;`

const kernelText = `
.visible .entry k%d(.param .u64 out, .param .u64 first)
{
	.reg .pred %%p;
	.reg .b16 %%h<3>;
	.reg .b32 %%r<10>;
	.reg .f32 %%f<4>;
	.reg .b64 %%v, %%z, %%z2, %%z3, %%out;
	.reg .f64 %%d<3>;
	mov.u32 %%r1, %%ctaid.x;
	mov.u32 %%r2, %%ntid.x;
	mov.u32 %%r3, %%tid.x;
	mad.lo.u32 %%r1, %%r1, %%r2, %%r3;
	ld.param.u64 %%v, [first];
	ld.param.u64 %%out, [out];
	cvt.u64.u32 %%z, %%r1;
	add.u64 %%v, %%v, %%z;
	mad.wide.u32 %%out, %%r1, 4, %%out;
	%s
	st.global.u32 [%%out], %%r9;
	ret;
}
`

// module returns a kernel k0, k1, ... for each form. A thread does one instruction.
func module(list []form) []byte {
	var s strings.Builder
	s.WriteString(".version 8.0\n.target sm_90\n.address_size 64\n")
	for i, f := range list {
		body := strings.NewReplacer("$I", f.name, "$mix", mixBody, "$end", foldBody).Replace(bodies[f.kind])
		body = strings.NewReplacer("$A", fmt.Sprintf("%#x", uint64(mixA)), "$B", fmt.Sprintf("%#x", uint64(mixB)), "$folded", fmt.Sprint(folded)).Replace(body)
		fmt.Fprintf(&s, kernelText, i, body)
	}
	return []byte(s.String())
}
