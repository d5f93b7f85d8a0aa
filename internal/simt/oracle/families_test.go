package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kernelOf makes the kernel of a form; ok is false if nobody has written down how
// to test it.
func kernelOf(text string) (k *kernel, ok bool) {
	f := parseForm(text)
	k = &kernel{form: f}
	for _, family := range []func(*kernel) bool{carryKernel, plainKernel, compareKernel, convertKernel, moveKernel, memoryKernel, atomKernel, warpKernel, controlKernel, barrierKernel, mbarrierKernel, matrixKernel, wmmaKernel} {
		if family(k) {
			return k, true
		}
		*k = kernel{form: f}
	}
	return nil, false
}

// arity is how many sources instructions have that compute one result of values
// of one type.
var arity = map[string]int{
	"add": 2, "sub": 2, "mul": 2, "mad": 3, "fma": 3, "mul24": 2, "mad24": 3, "sad": 3, "div": 2, "rem": 2, "abs": 1, "neg": 1, "min": 2, "max": 2,
	"and": 2, "or": 2, "xor": 2, "not": 1, "cnot": 1, "popc": 1, "clz": 1, "brev": 1, "bfind": 1, "prmt": 3, "lop3": 3,
	"rcp": 1, "sqrt": 1, "rsqrt": 1, "sin": 1, "cos": 1, "lg2": 1, "ex2": 1, "tanh": 1, "copysign": 2, "dp4a": 3, "dp2a": 3,
	"shl": 2, "shr": 2, "shf": 3, "bfe": 3, "bfi": 3, "fns": 3, "bmsk": 2, "szext": 2,
}

// plainKernel is for instructions that only compute.
func plainKernel(k *kernel) bool {
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

// predicateKernel is for and, or, xor and not of predicates.
func predicateKernel(k *kernel, n int) bool {
	k.in = one("b32", "b32")
	k.code = "setp.lt.s32 %p1, $a, 0;\nsetp.lt.s32 %p2, $b, 0;\n" + k.form.text + " %p3, " + []string{"", "%p1", "%p1, %p2"}[n] + ";"
	k.out = []word{{"%p3", 1}}
	return true
}

// carryKernel is for arithmetic with the carry flag.
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

// compareKernel is for setp, set, selp, slct and testp.
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
		if f.last() == "f16" || f.last() == "bf16" { // of which there is one result only
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

// convertKernel is for cvt.
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
	case typeBits[dst] == 8: // an 8-bit result extends into its register
		k.in, k.out = one(classOf(src)), []word{{"%d", 32}}
		k.code = f.text + " %d, $a;"
	default:
		k.in = one(classOf(src))
		k.code = f.text + " %d, $a;"
	}
	return true
}

// moveKernel is for mov, cvta, isspacep and the stack.
func moveKernel(k *kernel) bool {
	f := k.form
	space := f.any("global", "shared", "shared::cta", "local", "param", "param::entry", "param::func", "const")
	address := map[string]string{"global": "%cell", "shared": "%x1", "shared::cta": "%x1", "local": "%x2", "param": "%x3", "param::entry": "%x3", "const": "%x4"}
	const addresses = "cvt.u64.u32 %x1, %sh;\nmov.u64 %x2, lo;\nmov.b64 %x3, arg;\nmov.u64 %x4, cdata;\n"
	switch f.op {
	case "mov":
		k.move()
	case "cvta":
		if f.typ(0) == "u32" { // of a module with 32-bit addresses
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
	switch t { // packing too
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

// memoryKernel is for loads, stores and what goes with them.
func memoryKernel(k *kernel) bool {
	f := k.form
	switch f.op {
	case "ld", "ldu":
		k.load()
	case "st":
		k.store()
	case "prefetch", "prefetchu", "discard", "applypriority", "createpolicy":
		k.hint()
	case "cp":
		if f.has("mbarrier") {
			return false
		}
		k.copy()
	default:
		return false
	}
	return true
}

// place is an address in the space that the form names, and how to fill 32 bytes
// there with operand a; the spaces that cannot be written hold other data.
func (k *kernel) place() (addr, fill string) {
	st := func(space, at string) string {
		return fmt.Sprintf("st%s.b64 [%s], %%a0;\nst%s.b64 [%s+8], %%a1;\nst%s.b64 [%s+16], %%a2;\nst%s.b64 [%s+24], %%a3;\n", space, at, space, at, space, at, space, at)
	}
	switch k.form.any("global", "shared", "shared::cta", "local", "param", "param::entry", "param::func", "const") {
	case "shared", "shared::cta":
		return "%sh", st(".shared", "%sh")
	case "local":
		k.local = true
		return "%x1", "mov.u64 %x1, lo;\n" + st(".local", "%x1")
	case "param", "param::entry":
		return "arg", ""
	case "const":
		k.decl = constants
		return "%x1", "mov.u64 %x1, cdata;\n"
	}
	return "%cell", st("", "%cell")
}

func (k *kernel) load() {
	f := k.form
	t := f.last()
	k.in = []operand{{"b64", 4}}
	n := 1
	if v := f.any("v2", "v4", "v8"); v != "" {
		n, _ = strconv.Atoi(v[1:])
	}
	if f.has("param::func") || f.op == "ld" && f.has("param") && f.has("volatile") {
		k.code = "" // a call's own: see the tests of calls
	}
	addr, code := k.place()
	bits := typeBits[t]
	wide := bits
	if t[0] != 'f' && n <= 4 {
		wide = max(64/max(n/2, 1), bits, 16)
	}
	wide = max(wide, 16)
	var regs []string
	for i := range n {
		r := fmt.Sprintf("%%d%d", i)
		regs = append(regs, r)
		k.out = append(k.out, word{r, wide})
	}
	dst := regs[0]
	if n > 1 {
		dst = "{" + strings.Join(regs, ", ") + "}"
	}
	if f.has("param::func") {
		k.in = nil
		k.code = "{\n.param .align 16 .b8 r[32];\ncall (r), give, ();\n" + f.text + " " + dst + ", [r];\n}"
		k.decl = giver
		return
	}
	k.code = code + f.text + " " + dst + ", [" + addr + "];"
}

// giver is a function with a result, taker one with an argument.
const giver = ".func (.param .align 16 .b8 r[32]) give() {\n\t.reg .b64 %x<4>;\n\tmov.b64 %x1, 0x8182030405868788;\n\tst.param.b64 [r], %x1;\n\tnot.b64 %x2, %x1;\n\tst.param.b64 [r+8], %x2;\n\tst.param.b64 [r+16], %x1;\n\tst.param.b64 [r+24], %x2;\n\tret;\n}\n"

const taker = ".func (.param .b64 r) take(.param .align 16 .b8 a[32]) {\n\t.reg .b64 %x<4>;\n\tld.param.b64 %x1, [a];\n\tst.param.b64 [r], %x1;\n\tret;\n}\n"

func (k *kernel) store() {
	f := k.form
	t := f.last()
	n := 1
	if v := f.any("v2", "v4", "v8"); v != "" {
		n, _ = strconv.Atoi(v[1:])
	}
	class := "b" + strconv.Itoa(max(typeBits[t], 16))
	k.in = []operand{{class, n}}
	var regs []string
	for i := range n {
		regs = append(regs, fmt.Sprintf("%%a%d", i))
	}
	src := regs[0]
	if n > 1 {
		src = "{" + strings.Join(regs, ", ") + "}"
	}
	if space := f.any("param", "param::func"); space != "" {
		k.decl = taker
		k.code = "{\n.param .align 16 .b8 a[32];\n.param .b64 r;\nst.param.b64 [a+16], %off;\nst.param.b64 [a+24], %off;\n" + f.text + " [a], " + src + ";\ncall (r), take, (a);\nld.param.b64 %d, [r];\n}"
		if b := typeBits[t] * n; b < 64 {
			k.code += fmt.Sprintf("\nand.b64 %%d, %%d, %d;", uint64(1)<<b-1)
		}
		k.out = []word{{"%d", 64}}
		return
	}
	addr, _ := k.place()
	load := map[string]string{"shared": ".shared", "shared::cta": ".shared", "local": ".local"}[f.any("shared", "shared::cta", "local")]
	pre := ""
	if load == ".local" {
		pre = "mov.u64 %x1, lo;\n"
	}
	for i := range 4 {
		pre += fmt.Sprintf("st%s.b64 [%s+%d], %%off;\n", load, addr, 8*i)
	}
	k.code = pre + f.text + " [" + addr + "], " + src + ";\n"
	for i := range 4 {
		k.code += fmt.Sprintf("ld%s.b64 %%d%d, [%s+%d];\n", load, i, addr, 8*i)
		k.out = append(k.out, word{fmt.Sprintf("%%d%d", i), 64})
	}
}

// hint is for what only tells caches something: it must do nothing.
func (k *kernel) hint() {
	f := k.form
	k.in, k.out = one("b64"), []word{{"%d", 64}}
	k.code = "st.global.b64 [%cell], $a;\n"
	use := ""
	switch {
	case f.op == "prefetch" || f.op == "prefetchu":
		at := "%cell"
		if f.has("local") {
			k.local = true
			k.code += "mov.u64 %x1, lo;\n"
			at = "%x1"
		}
		use = f.text + " [" + at + "];"
	case f.op == "discard":
		k.code, use = "and.b64 %x2, %cell, -128;\nadd.u64 %x2, %x2, 131072;\n", f.text+" [%x2], 128;\nst.global.b64 [%cell], $a;"
	case f.op == "applypriority":
		use = "and.b64 %x2, %cell, -128;\n" + f.text + " [%x2], 128;"
	case f.has("fractional"):
		use = f.text + " %x1, 0.5;\nst.global.L2::cache_hint.b64 [%cell], $a, %x1;"
	case f.has("range"):
		use = f.text + " %x1, [%cell], 128, 256;\nst.global.L2::cache_hint.b64 [%cell], $a, %x1;"
	default:
		use = f.text + " %x1, 0x10F0000000000000;"
	}
	k.code += use + "\nld.global.b64 %d, [%cell];"
}

// copy is for cp.async.
func (k *kernel) copy() {
	f := k.form
	k.in = []operand{{"b64", 2}}
	k.out = []word{{"%d0", 64}, {"%d1", 64}, {"%d2", 64}, {"%d3", 64}}
	fill := "st.global.b64 [%cell], %a0;\nst.global.b64 [%cell+8], %a1;\nst.shared.b64 [%sh], %off;\nst.shared.b64 [%sh+8], %off;\nst.shared.b64 [%sh+16], %off;\nst.shared.b64 [%sh+24], %off;\nand.b32 %r1, %t, 15;\n"
	const end = "cp.async.wait_all;\nld.shared.b64 %d0, [%sh];\nld.shared.b64 %d1, [%sh+8];\nld.shared.b64 %d2, [%sh+16];\nld.shared.b64 %d3, [%sh+24];"
	switch {
	case f.has("commit_group"):
		k.code = fill + "cp.async.ca.shared.global [%sh], [%cell], 8;\ncp.async.commit_group;\ncp.async.ca.shared.global [%sh+16], [%cell+8], 4, 3;\ncp.async.commit_group;\n" + end
	case f.has("wait_group"):
		k.code = fill + "cp.async.cg.shared.global [%sh], [%cell], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\n" + end
	case f.has("wait_all"):
		k.code = fill + "cp.async.ca.shared.global [%sh+16], [%cell], 16, %r1;\n" + end
	default:
		hint := ""
		if f.has("L2::cache_hint") {
			k.code = "createpolicy.fractional.L2::evict_last.b64 %x1, 1.0;\n"
			hint = ", %x1"
		}
		k.code = fill + k.code + f.text + " [%sh], [%cell], 16" + hint + ";\n"
		if f.has("ca") {
			k.code += f.text + " [%sh+16], [%cell+4], 4" + hint + ";\n" + f.text + " [%sh+24], [%cell+8], 8" + hint + ";\n"
		} else if hint == "" {
			k.code += f.text + " [%sh+16], [%cell], 16, %r1;\n"
		}
		k.code += end
	}
}

// atomKernel is for atom and red, on the thread's own cell.
func atomKernel(k *kernel) bool {
	f := k.form
	if f.op != "atom" && f.op != "red" {
		return false
	}
	t := f.last()
	c := classOf(t)
	k.in = one(c, c, c)
	bits := typeBits[t]
	addr, space := "%cell", ".global"
	if f.any("shared", "shared::cta") != "" {
		addr, space = "%sh", ".shared"
	}
	pre := fmt.Sprintf("st%s.b64 [%s], %%off;\nst%s.b%d [%s], $a;\n", space, addr, space, bits, addr)
	args := "$b"
	if f.has("cas") {
		pre = "setp.lt.u32 %p1, %t, 64;\n" + pre + fmt.Sprintf("selp.b%d %%b0, %%a0, %%b0, %%p1;\n", bits)
		args = "$b, $c"
		if bits == 16 {
			pre = strings.Replace(pre, "selp.b16", "@%p1 mov.b16", 1)
			pre = strings.Replace(pre, "%b0, %a0, %b0, %p1;", "%b0, %a0;", 1)
		}
	}
	if f.op == "atom" {
		k.code = pre + f.text + " %d, [" + addr + "], " + args + ";\n"
		k.out = []word{{"%d", bits}}
	} else {
		k.code = pre + f.text + " [" + addr + "], " + args + ";\n"
	}
	k.code += fmt.Sprintf("ld%s.b64 %%e, [%s];", space, addr)
	k.out = append([]word{{"%e", 64}}, k.out...)
	return true
}

// warpKernel is for what lanes of a warp do together.
func warpKernel(k *kernel) bool {
	f := k.form
	sync := ""
	if f.has("sync") {
		sync = ", 0xffffffff"
	}
	switch f.op {
	case "shfl":
		k.in = one("b32", "shift32", "b32")
		k.code = "and.b32 %r1, $c, 0x1f1f;\n" + f.text + " %d|%p1, $a, $b, %r1" + sync + ";"
		k.out = []word{{"%d", 32}, {"%p1", 1}}
	case "vote":
		k.in = one("even32")
		k.code = "shr.u32 %r1, %id, 5;\nsetp.lt.u32 %p1, $a, %r1;\n" + f.text
		if f.has("ballot") {
			k.code += " %d, !%p1" + sync + ";"
			k.out = []word{{"%d", 32}}
		} else {
			k.code += " %p2, %p1" + sync + ";"
			k.out = []word{{"%p2", 1}}
		}
	case "match":
		k.in = one("even" + strconv.Itoa(typeBits[f.last()]))
		k.code, k.out = f.text+" %d, $a, 0xffffffff;", []word{{"%d", 32}}
		if f.has("all") {
			k.code = "setp.lt.u32 %p2, %id, 64;\n@%p2 mov.b" + strconv.Itoa(typeBits[f.last()]) + " %a0, 5;\n" + f.text + " %d|%p1, $a, 0xffffffff;"
			k.out = append(k.out, word{"%p1", 1})
		}
	case "redux":
		k.in = one("b32")
		k.code, k.out = f.text+" %d, $a, 0xffffffff;", []word{{"%d", 32}}
	case "activemask":
		k.code, k.out = "mov.b32 %d, 0;\nand.b32 %r1, %t, 3;\nsetp.eq.u32 %p1, %r1, 1;\n@%p1 activemask.b32 %d;", []word{{"%d", 32}}
	case "elect":
		k.code, k.out = "elect.sync %d|%p1, 0xffffffff;", []word{{"%d", 32}, {"%p1", 1}}
	default:
		return false
	}
	return true
}

const adder = ".func (.param .b32 r) f(.param .b32 x) {\n\t.reg .b32 %r<3>;\n\t.reg .pred %p;\n\tld.param.u32 %r1, [x];\n\tsetp.gt.u32 %p, %r1, 3;\n\t@%p RET;\n\tadd.u32 %r1, %r1, 7;\n\tst.param.b32 [r], %r1;\n\tret;\n}\n"

// controlKernel is for branches and calls. Traps cannot have results: their kernels
// do them under a predicate that is never true.
func controlKernel(k *kernel) bool {
	f := k.form
	k.out = []word{{"%d", 32}}
	k.in = one("even32")
	switch f.op {
	case "bra":
		k.code = "mov.u32 %d, 1;\nsetp.gt.u32 %p1, $a, 1;\n@%p1 bra A;\nadd.u32 %d, %d, 2;\n" + f.text + " B;\nA: add.u32 %d, %d, 4;\nB: add.u32 %d, %d, 8;"
	case "brx":
		k.code = "mov.u32 %d, 1;\nT: .branchtargets A, B, C, A;\n" + f.text + " $a, T;\nA: add.u32 %d, %d, 2;\nB: add.u32 %d, %d, 4;\nC: add.u32 %d, %d, 8;"
		if f.has("uni") {
			k.code = strings.Replace(k.code, " $a, T", " %r1, T", 1)
			k.code = "mov.u32 %r1, 1;\n" + k.code
		}
	case "call", "ret":
		ret, call := "ret", "call.uni"
		if f.op == "ret" {
			ret = f.text
		} else {
			call = f.text
		}
		k.decl = strings.Replace(adder, "RET", "bra E", 1)
		k.decl = strings.Replace(k.decl, "\tret;\n}", "E:\t"+ret+";\n}", 1)
		k.code = "{\n.param .b32 x;\n.param .b32 r;\nst.param.b32 [x], $a;\n" + call + " (r), f, (x);\nld.param.b32 %d, [r];\n}"
	case "exit":
		k.code = "mov.u32 %d, 1;\nst.global.u32 [%out], $a;\nsetp.eq.u32 %p1, $a, 2;\n@%p1 exit;"
	case "trap", "brkpt":
		k.code = "mov.u32 %d, 1;\nsetp.gt.u32 %p1, $a, 5;\n@%p1 " + f.text + ";"
	case "nanosleep":
		k.code = "mov.u32 %d, 1;\nnanosleep.u32 $a;"
	case "pmevent":
		k.code = "mov.u32 %d, 1;\n" + f.text + " 1;"
	case "griddepcontrol":
		k.code = "mov.u32 %d, 1;\n" + f.text + ";"
	case "setmaxnreg":
		n := "232"
		if f.has("dec") {
			n = "24"
		}
		k.code = "mov.u32 %d, 1;\n" + f.text + " " + n + ";"
	default:
		return false
	}
	return true
}

// barrierKernel is for barriers and fences: a neighbour's value comes through
// shared memory.
func barrierKernel(k *kernel) bool {
	f := k.form
	k.in = one("even32")
	k.out = []word{{"%d", 32}}
	const give, take = "st.shared.u32 [%sh], $a;\n", "xor.b32 %r1, %t, 1;\nmov.u32 %r2, sh;\nmad.lo.u32 %r2, %r1, 64, %r2;\nld.shared.u32 %d, [%r2];"
	switch {
	case f.op == "membar" || f.op == "fence":
		k.code = give + f.text + ";\nbar.sync 0;\n" + take
	case f.op != "bar" && f.op != "barrier":
		return false
	case f.has("warp"):
		k.code = give + "bar.warp.sync 0xffffffff;\n" + take
	case f.has("red"):
		k.code = "setp.gt.u32 %p1, $a, 0;\nsetp.lt.u32 %p2, %id, 128;\nor.pred %p1, %p1, %p2;\n"
		if f.has("popc") {
			k.code += f.text + " %d, 3, %p1;\n" + f.text + " %e, 4, 128, !%p1;"
			k.out = append(k.out, word{"%e", 32})
		} else {
			k.code += f.text + " %p3, 3, 128, %p1;\n" + f.text + " %p4, 0, !%p1;"
			k.out = []word{{"%p3", 1}, {"%p4", 1}}
		}
	case f.has("arrive"):
		wait := strings.Replace(f.text, "arrive", "sync", 1)
		k.code = give + "setp.lt.u32 %p1, %t, 64;\n@%p1 bra A;\n" + f.text + " 2, 128;\nbra.uni B;\nA: " + wait + " 2, 128;\nB: bar.sync 0;\n" + take
	default:
		k.code = give + f.text + " 1, 128;\n" + take
		if f.op == "bar" {
			k.code = give + f.text + " 0;\n" + take + "\n" + f.text + " 5, 128;"
		}
	}
	return true
}

// mbarrierKernel is for mbarrier: each thread has an object of its own and uses
// it alone, or waits for its neighbours.
func mbarrierKernel(k *kernel) bool {
	f := k.form
	if f.op != "mbarrier" && !(f.op == "cp" && f.has("mbarrier")) {
		return false
	}
	addr := "%sh"
	if f.any("shared", "shared::cta") == "" {
		addr = "%x5"
	}
	k.code = "cvt.u64.u32 %x4, %sh;\ncvta.shared.u64 %x5, %x4;\nmbarrier.init.shared.b64 [%sh], 3;\n"
	wait := func(i int, parity int) string {
		return fmt.Sprintf("mbarrier.test_wait.parity.shared.b64 %%p%d, [%%sh], %d;\n", i, parity)
	}
	k.out = []word{{"%p1", 1}, {"%p2", 1}, {"%p3", 1}}
	arrive := "mbarrier.arrive.shared.b64 %x1, [%sh];\n"
	switch {
	case f.op == "cp":
		k.code += arrive + wait(1, 0) + arrive + f.text + " [" + addr + "];\ncp.async.wait_all;\n"
		k.out = []word{{"%p1", 1}, {"%p3", 1}}
		if f.has("noinc") {
			k.code += "L: mbarrier.test_wait.parity.shared.b64 %p3, [%sh], 0;\n@!%p3 bra L;\n"
		} else {
			k.code += arrive + "L: mbarrier.test_wait.parity.shared.b64 %p3, [%sh], 0;\n@!%p3 bra L;\n"
		}
	case f.has("init"):
		k.code += f.text + " [" + addr + "], 2;\n" + arrive + wait(1, 0) + arrive + wait(2, 0) + wait(3, 1)
	case f.has("inval"):
		k.code += arrive + wait(1, 0) + f.text + " [" + addr + "];\nst.shared.b64 [%sh], %off;\nmbarrier.init.shared.b64 [%sh], 1;\n" + wait(2, 0) + arrive + wait(3, 0)
	case f.has("pending_count"):
		k.code += arrive + f.text + " %r1, %x1;\n" + arrive + f.text + " %r2, %x1;\n" + arrive + f.text + " %r3, %x1;\n" + arrive + f.text + " %r4, %x1;\n"
		k.out = []word{{"%r1", 32}, {"%r2", 32}, {"%r3", 32}, {"%r4", 32}}
	case f.any("test_wait", "try_wait") != "" && f.has("parity"):
		k.code += strings.ReplaceAll("F %p1, [A], 1;\nF %p2, [A], 0;\n"+arrive+arrive+arrive+"F %p3, [A], 0;\n", "F ", f.text+" ")
		k.code = strings.ReplaceAll(k.code, "[A]", "["+addr+"]")
	case f.any("test_wait", "try_wait") != "":
		k.code += strings.ReplaceAll(arrive+"F %p1, [A], %x1;\n"+arrive+arrive+"F %p2, [A], %x1;\n"+arrive+"F %p3, [A], %x1;\n", "F ", f.text+" ")
		k.code = strings.ReplaceAll(k.code, "[A]", "["+addr+"]")
	case f.has("noComplete"):
		k.code += f.text + " %x2, [" + addr + "], 2;\nmbarrier.pending_count.b64 %r1, %x2;\n" + wait(1, 0) + arrive + wait(2, 0) + wait(3, 1)
		k.out = append(k.out, word{"%r1", 32})
	case f.any("arrive", "arrive_drop") != "" && f.has("expect_tx"):
		k.code += f.text + " %x2, [" + addr + "], 64;\n" + arrive + arrive + wait(1, 0) + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%sh], 64;\n" + wait(2, 0) + arrive + arrive + wait(3, 1)
	case f.has("expect_tx"):
		k.code += f.text + " [" + addr + "], 32;\n" + arrive + arrive + arrive + wait(1, 0) + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%sh], 32;\n" + wait(2, 0) + wait(3, 1)
	case f.has("complete_tx"):
		k.code += "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%sh], 32;\n" + arrive + arrive + arrive + wait(1, 0) + f.text + " [" + addr + "], 12;\n" + wait(2, 0) + f.text + " [" + addr + "], 20;\n" + wait(3, 0)
	case f.has("arrive_drop"):
		k.code += f.text + " %x2, [" + addr + "];\n" + arrive + wait(1, 0) + arrive + wait(2, 0) + arrive + arrive + wait(3, 1)
	default:
		k.code += f.text + " %x2, [" + addr + "];\n" + wait(1, 0) + f.text + " %x2, [" + addr + "], 2;\n" + wait(2, 0) + arrive + wait(3, 1)
	}
	k.code = strings.TrimSuffix(k.code, "\n")
	return true
}

// matrixKernel is for ldmatrix, stmatrix, movmatrix and mma.
func matrixKernel(k *kernel) bool {
	f := k.form
	n := map[string]int{"x1": 1, "x2": 2, "x4": 4}[f.any("x1", "x2", "x4")]
	list := func(reg string, n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%%%s%d", reg, i))
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	addr := "%sh"
	if f.any("shared", "shared::cta") == "" {
		addr = "%x2"
	}
	const generic = "cvt.u64.u32 %x1, %sh;\ncvta.shared.u64 %x2, %x1;\n"
	switch f.op {
	case "ldmatrix":
		k.in = []operand{{"b64", 2}}
		k.code = generic + "st.shared.b64 [%sh], %a0;\nst.shared.b64 [%sh+8], %a1;\nbar.sync 0;\n" + f.text + " " + list("d", n) + ", [" + addr + "];"
		for i := range n {
			k.out = append(k.out, word{fmt.Sprintf("%%d%d", i), 32})
		}
	case "stmatrix":
		k.in = []operand{{"b32", n}}
		k.code = generic + "st.shared.b64 [%sh], %off;\nst.shared.b64 [%sh+8], %off;\nbar.sync 0;\n" + f.text + " [" + addr + "], " + list("a", n) + ";\nbar.sync 0;\nld.shared.b64 %d0, [%sh];\nld.shared.b64 %d1, [%sh+8];"
		k.out = []word{{"%d0", 64}, {"%d1", 64}}
	case "movmatrix":
		k.in, k.out = one("b32"), []word{{"%d", 32}}
		k.code = f.text + " %d, $a;"
	case "mma":
		k.mma(list)
	default:
		return false
	}
	return true
}

var matrixClass = map[string]string{
	"f16": "mmaf16x32", "bf16": "mmabf16x32", "tf32": "mmatf32x32", "f32": "mmaf32x32", "e4m3": "mmafp8x32", "e5m2": "mmafp8x32", "f64": "mmaf64",
}

func (k *kernel) mma(list func(string, int) string) {
	f := k.form
	var m, n, kk int
	i := slices.IndexFunc(f.mods, func(s string) bool { return strings.HasPrefix(s, "m") && strings.Contains(s, "n8k") })
	fmt.Sscanf(f.mods[i], "m%dn%dk%d", &m, &n, &kk)
	class := func(t string) string {
		if c := matrixClass[t]; c != "" {
			return c
		}
		return "b32"
	}
	per := func(elements int, t string, acc bool) int {
		bits := typeBits[t]
		if acc && t != "f16" {
			bits = max(bits, 32)
		}
		return max(elements/32*bits/max(32, bits), 1)
	}
	a, b, c, d := per(m*kk, f.typ(1), false), per(n*kk, f.typ(2), false), per(m*n, f.typ(3), true), per(m*n, f.typ(0), true)
	if m == 8 && kk == 4 && f.typ(1) == "f16" {
		a, b = 2, 2
		c, d = map[string]int{"f16": 4, "f32": 8}[f.typ(3)], map[string]int{"f16": 4, "f32": 8}[f.typ(0)]
	}
	k.in = []operand{{class(f.typ(1)), a}, {class(f.typ(2)), b}, {class(f.typ(3)), c}}
	bits := max(typeBits[f.typ(0)], 32)
	for i := range d {
		k.out = append(k.out, word{fmt.Sprintf("%%d%d", i), bits})
	}
	k.code = f.text + " " + list("d", d) + ", " + list("a", a) + ", " + list("b", b) + ", " + list("c", c) + ";"
}
