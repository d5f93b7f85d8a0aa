package oracle

import (
	"fmt"
	"strconv"
	"strings"
)

// memoryKernel tests loads, stores and related instructions.
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

// place returns an address in the space that the form names, and code that fills 32
// bytes there with operand a. Spaces that cannot be written hold other data.
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
	addr, code := k.place()
	bits := typeBits[t]
	width := bits
	if t[0] != 'f' && n <= 4 {
		width = max(64/max(n/2, 1), bits, 16)
	}
	width = max(width, 16)
	var regs []string
	for i := range n {
		r := fmt.Sprintf("%%d%d", i)
		regs = append(regs, r)
		k.out = append(k.out, word{r, width})
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

// giver declares a function with a result, taker a function with an argument.
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

// hint tests hints for the caches, which must have no effect.
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

// copy tests cp.async.
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

// atomKernel tests atom and red on the cell of the thread.
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
