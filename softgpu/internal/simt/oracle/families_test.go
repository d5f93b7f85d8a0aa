package oracle

import (
	"fmt"
	"strconv"
	"strings"
)

// kernelOf returns the kernel that tests a form; ok is false if there is none.
func kernelOf(text string) (k *kernel, ok bool) {
	f := parseForm(text)
	k = &kernel{form: f}
	for _, family := range []func(*kernel) bool{carryKernel, computeKernel, videoKernel, compareKernel, convertKernel, moveKernel, memoryKernel, atomKernel, warpKernel, controlKernel, barrierKernel, mbarrierKernel, matrixKernel, wmmaKernel} {
		if family(k) {
			return k, true
		}
		*k = kernel{form: f}
	}
	return nil, false
}

// arity is the number of sources of instructions that compute one result from values
// of one type.
var arity = map[string]int{
	"add": 2, "sub": 2, "mul": 2, "mad": 3, "fma": 3, "mul24": 2, "mad24": 3, "sad": 3, "div": 2, "rem": 2, "abs": 1, "neg": 1, "min": 2, "max": 2,
	"and": 2, "or": 2, "xor": 2, "not": 1, "cnot": 1, "popc": 1, "clz": 1, "brev": 1, "bfind": 1, "prmt": 3, "lop3": 3,
	"rcp": 1, "sqrt": 1, "rsqrt": 1, "sin": 1, "cos": 1, "lg2": 1, "ex2": 1, "tanh": 1, "copysign": 2, "dp4a": 3, "dp2a": 3,
	"shl": 2, "shr": 2, "shf": 3, "bfe": 3, "bfi": 3, "fns": 3, "bmsk": 2, "szext": 2,
}

// computeKernel tests instructions that only compute.
func computeKernel(k *kernel) bool {
	f := k.form
	n, ok := arity[f.op]
	if !ok {
		return false
	}
	if f.typ(0) == "pred" {
		return predicateKernel(k, n)
	}
	class, bits := classOf(f.typ(0)), typeBits[f.typ(0)]
	in := []string{class, class, class}[:n]
	switch f.op {
	case "mul", "mad":
		if f.has("wide") {
			bits *= 2
			if n == 3 {
				in[2] = "b" + strconv.Itoa(bits)
			}
		}
	case "popc", "clz", "bfind":
		bits = 32
	case "shl", "shr":
		in[1] = "shift32"
	case "shf", "bmsk", "szext":
		in[n-1] = "shift32"
		if f.op == "bmsk" {
			in[0] = "shift32"
		}
	case "bfe", "bfi":
		in[n-1] = "field32"
	case "fns":
		in[1], in[2] = "pos32", "pos32"
	case "sin", "cos":
		in[0] = "angle32"
	}
	k.in = one(in...)
	k.code = f.text + " %d, " + strings.Join([]string{"$a", "$b", "$c"}[:n], ", ") + ";"
	switch f.op {
	case "bfe":
		k.code = "shr.u32 %r1, $c, 8;\n" + f.text + " %d, $a, $c, %r1;"
	case "bfi":
		k.code = "shr.u32 %r1, $c, 8;\n" + f.text + " %d, $a, $b, $c, %r1;"
	case "fns":
		k.code = "sub.s32 %r1, $c, 16;\n" + f.text + " %d, $a, $b, %r1;"
	case "lop3":
		k.lop3()
	}
	k.out = append([]word{{"%d", bits}}, k.out...)
	return true
}

func (k *kernel) lop3() {
	f := k.form
	if f.any("and", "or") == "" {
		k.code = f.text + " %d, $a, $b, $c, 0xe4;\n" + f.text + " %e, $a, $b, $c, 0x1b;"
		k.out = []word{{"%e", 32}}
		return
	}
	k.code = "setp.lt.s32 %p1, $a, 0;\n" + f.text + " %d|%p2, $a, $b, $c, 0x80, %p1;"
	k.out = []word{{"%p2", 1}}
}

// predicateKernel tests and, or, xor and not of predicates.
func predicateKernel(k *kernel, n int) bool {
	k.in = one("b32", "b32")
	k.code = "setp.lt.s32 %p1, $a, 0;\nsetp.lt.s32 %p2, $b, 0;\n" + k.form.text + " %p3, " + []string{"", "%p1", "%p1, %p2"}[n] + ";"
	k.out = []word{{"%p3", 1}}
	return true
}

// videoKernel tests vshr: on whole registers, on parts, and on parts into a part.
func videoKernel(k *kernel) bool {
	f := k.form
	if f.op != "vshr" {
		return false
	}
	// The types come first in PTX, and last in the text of a form.
	text := f.op + "." + strings.Join(f.types, ".")
	for _, m := range f.mods {
		if typeBits[m] == 0 {
			text += "." + m
		}
	}
	uses := []string{"%d, $a, $b", "%e, $a.h1, $b.b0", "%r1, $a.b3, $b.h0", "%r2.h1, $a, $b, $c", "%r3.h0, $a.h1, $b, $c", "%r4.b2, $a, $b.h0, $c", "%r5.b3, $a.b1, $b.b0, $c"}
	if f.any("add", "min", "max") != "" {
		uses = []string{"%d, $a, $b, $c", "%e, $a.h1, $b.b0, $c", "%r1, $a.b3, $b.h0, $c", "%r2, $a.b0, $b.b1, $c"}
	}
	k.in = one("b32", "shift32", "b32")
	for _, use := range uses {
		k.code += text + " " + use + ";\n"
		k.out = append(k.out, word{use[:strings.IndexAny(use, ".,")], 32})
	}
	k.code = strings.TrimSuffix(k.code, "\n")
	return true
}

// carryKernel tests arithmetic with the carry flag.
func carryKernel(k *kernel) bool {
	f := k.form
	in := f.op == "addc" || f.op == "subc" || f.op == "madc"
	if !in && !f.has("cc") {
		return false
	}
	t, n := f.typ(0), 2
	if strings.HasPrefix(f.op, "mad") {
		n = 3
	}
	class := classOf(t)
	k.in = one(class, class, class)
	first, last := "add", "addc"
	if strings.HasPrefix(f.op, "sub") {
		first, last = "sub", "subc"
	}
	if in {
		k.code = first + ".cc." + t + " %e, $a, $c;\n"
	}
	k.code += f.text + " %d, " + strings.Join([]string{"$a", "$b", "$c"}[:n], ", ") + ";"
	k.out = []word{{"%d", typeBits[t]}}
	if f.has("cc") {
		k.code += "\n" + last + "." + t + " %e, 0, 0;"
	}
	if f.has("cc") || in {
		k.out = append(k.out, word{"%e", typeBits[t]})
	}
	return true
}

// compareKernel tests setp, set, selp, slct and testp.
func compareKernel(k *kernel) bool {
	f := k.form
	logic := f.any("and", "or", "xor")
	c := classOf(f.last())
	switch f.op {
	case "setp":
		k.in = one(c, c, "b32")
		k.code, k.out = f.text+" %p1|%p2, $a, $b;", []word{{"%p1", 1}, {"%p2", 1}}
		if logic != "" {
			k.code = "setp.lt.s32 %p3, $c, 0;\n" + f.text + " %p1|%p2, $a, $b, %p3;"
		}
		if f.last() == "f16" || f.last() == "bf16" { // which have one result only
			k.code = strings.Replace(k.code, "|%p2", "", 1)
			k.out = k.out[:1]
		}
	case "set":
		k.in = one(c, c, "b32")
		k.code, k.out = f.text+" %d, $a, $b;", []word{{"%d", typeBits[f.typ(0)]}}
		if logic != "" {
			k.code = "setp.lt.s32 %p3, $c, 0;\n" + f.text + " %d, $a, $b, %p3;"
		}
	case "selp":
		k.in = one(c, c, "b32")
		k.code, k.out = "setp.lt.s32 %p3, $c, 0;\n"+f.text+" %d, $a, $b, %p3;", []word{{"%d", typeBits[f.typ(0)]}}
	case "slct":
		d := classOf(f.typ(0))
		k.in = one(d, d, c)
		k.code, k.out = f.text+" %d, $a, $b, $c;", []word{{"%d", typeBits[f.typ(0)]}}
	case "testp":
		k.in = one(c)
		k.code, k.out = f.text+" %p1, $a;", []word{{"%p1", 1}}
	default:
		return false
	}
	return true
}

// convertKernel tests cvt.
func convertKernel(k *kernel) bool {
	f := k.form
	if f.op != "cvt" {
		return false
	}
	dst, src := f.typ(0), f.typ(1)
	k.out = []word{{"%d", max(typeBits[dst], 16)}}
	switch {
	case f.has("pack"):
		k.in, k.out = one("b32", "b32", "b32"), []word{{"%d", 32}}
		k.code = f.text + " %d, $a, $b;"
		if len(f.types) == 3 {
			k.code = f.text + " %d, $a, $b, $c;"
		}
	case src == "f32" && (strings.HasSuffix(dst, "x2")):
		k.in = one("f32", "f32")
		k.code = f.text + " %d, $a, $b;"
	case typeBits[dst] == 8: // an 8-bit result is extended to its register
		k.in, k.out = one(classOf(src)), []word{{"%d", 32}}
		k.code = f.text + " %d, $a;"
	default:
		k.in = one(classOf(src))
		k.code = f.text + " %d, $a;"
	}
	return true
}

// moveKernel tests mov, cvta, isspacep and the stack.
func moveKernel(k *kernel) bool {
	f := k.form
	space := f.any("global", "shared", "shared::cta", "local", "param", "param::entry", "param::func", "const")
	address := map[string]string{"global": "%cell", "shared": "%x1", "shared::cta": "%x1", "local": "%x2", "param": "%x3", "param::entry": "%x3", "const": "%x4"}
	const addresses = "cvt.u64.u32 %x1, %sh;\nmov.u64 %x2, lo;\nmov.b64 %x3, arg;\nmov.u64 %x4, cdata;\n"
	switch f.op {
	case "mov":
		k.move()
	case "cvta":
		if f.typ(0) == "u32" { // for modules with 32-bit addresses
			k.in, k.out, k.code = one("b32"), []word{{"%d", 32}}, f.text+" %d, $a;"
			return true
		}
		k.local, k.decl, k.in = true, constants, one("b64")
		load := strings.TrimSuffix(strings.TrimSuffix(space, "::cta"), "::entry")
		if load == "global" || load == "shared" || load == "local" {
			k.code = addresses + "st." + load + ".b64 [" + address[space] + "], $a;\n"
		} else {
			k.code = addresses
		}
		k.code += "cvta." + space + ".u64 %x5, " + address[space] + ";\nld.b64 %d, [%x5];\ncvta.to." + space + ".u64 %x6, %x5;\nld." + load + ".b64 %e, [%x6];"
		k.out = []word{{"%d", 64}, {"%e", 64}}
	case "mapa":
		k.in, k.out = one("b64"), []word{{"%d", 64}}
		k.code = "cvt.u64.u32 %x4, %sh;\ncvta.shared.u64 %x5, %x4;\nmapa.u64 %x6, %x5, 0;\nst.b64 [%x6], $a;\nld.shared.b64 %d, [%sh];"
	case "getctarank":
		k.out = []word{{"%d", 32}, {"%e", 32}}
		k.code = "cvt.u64.u32 %x4, %sh;\ncvta.shared.u64 %x5, %x4;\nmapa.u64 %x6, %x5, 0;\ngetctarank.u64 %d, %x5;\ngetctarank.u64 %e, %x6;"
	case "isspacep":
		k.local, k.decl = true, constants
		k.code = addresses + "cvta.shared.u64 %x1, %x1;\ncvta.local.u64 %x2, %x2;\ncvta.param.u64 %x3, %x3;\ncvta.const.u64 %x4, %x4;\n"
		for i, a := range []string{"%cell", "%x1", "%x2"} {
			k.code += fmt.Sprintf("isspacep.%s %%p%d, %s;\n", space, i+1, a)
			k.out = append(k.out, word{fmt.Sprintf("%%p%d", i+1), 1})
		}
	case "alloca", "stacksave", "stackrestore":
		k.in, k.out = one("b64"), []word{{"%d", 64}, {"%e", 64}}
		k.code = "stacksave.u64 %x1;\nalloca.u64 %x2, 32, 16;\nst.local.u64 [%x2], $a;\nst.local.u64 [%x2+24], %off;\nalloca.u64 %x3, 16, 16;\n" +
			"st.local.u64 [%x3], %in;\nld.local.u64 %d, [%x2];\nld.local.u64 %e, [%x2+24];\nstackrestore.u64 %x1;"
	default:
		return false
	}
	return true
}

func (k *kernel) move() {
	f := k.form
	t := f.typ(0)
	bits := typeBits[t]
	if n := f.any("v2", "v4", "v8"); n != "" {
		k.vectorMove(n, t)
		return
	}
	if t == "pred" {
		k.in, k.out = one("b32"), []word{{"%p2", 1}}
		k.code = "setp.lt.s32 %p1, $a, 0;\n" + f.text + " %p2, %p1;"
		return
	}
	k.in, k.out = one(classOf(t)), []word{{"%d", bits}}
	k.code = f.text + " %d, $a;"
	switch t { // test packing too
	case "b32":
		k.code += "\nmov.b32 {%h1, %h2}, $a;\nmov.b32 %e, {%h2, %h1};"
		k.out = append(k.out, word{"%e", 32})
	case "b64":
		k.code += "\nmov.b64 {%r1, %r2}, $a;\nmov.b64 %e, {%r2, %r1};\nmov.b64 {%h1, %h2, %h3, %h4}, $a;\nmov.b64 %e1, {%h3, %h1, %h4, %h2};"
		k.out = append(k.out, word{"%e", 64}, word{"%e1", 64})
	}
}

func (k *kernel) vectorMove(vector, t string) {
	n, _ := strconv.Atoi(vector[1:])
	c := classOf(t)
	k.in = []operand{{c, n}}
	var from, to []string
	for i := range n {
		from = append(from, fmt.Sprintf("%%a%d", n-1-i))
		to = append(to, fmt.Sprintf("%%d%d", i))
		k.out = append(k.out, word{to[i], typeBits[t]})
	}
	k.code = k.form.text + " {" + strings.Join(to, ", ") + "}, {" + strings.Join(from, ", ") + "};"
}
