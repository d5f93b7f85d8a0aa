package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// matrixKernel tests ldmatrix, stmatrix, movmatrix and mma.
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

// wmma is a product of matrices in memory that each warp has of its own.
type wmma struct {
	shape   string
	m, n, k int
	a, b    string // types
	c, d    string
	orders  [4]string // row or col, for a, b, c and d
	op      string    // the wmma.mma with all its modifiers
	space   string
}

// wmmaOf completes a form to a whole product.
func wmmaOf(f form) wmma {
	w := wmma{orders: [4]string{"row", "col", "row", "row"}}
	i := slices.IndexFunc(f.mods, func(s string) bool { return strings.HasPrefix(s, "m") && strings.Contains(s, "k") })
	w.shape = f.mods[i]
	fmt.Sscanf(w.shape, "m%dn%dk%d", &w.m, &w.n, &w.k)
	t := f.last()
	w.a, w.c = t, map[string]string{"f16": "f32", "bf16": "f32", "tf32": "f32", "u8": "s32", "s8": "s32", "f64": "f64"}[t]
	if f.has("mma") {
		w.c, w.d, w.a = f.last(), f.typ(0), "f16"
		if len(f.types) == 4 {
			w.a = f.typ(1)
		}
		orders := slices.DeleteFunc(slices.Clone(f.mods), func(s string) bool { return s != "row" && s != "col" })
		w.orders[0], w.orders[1] = orders[0], orders[1]
		w.b, w.op = w.a, f.text
		return w
	}
	w.space = f.any("global", "shared", "shared::cta")
	order := f.any("row", "col")
	switch f.any("a", "b", "c", "d") {
	case "a":
		w.orders[0] = order
	case "b":
		w.orders[1] = order
	case "c":
		w.orders[2] = order
	case "d":
		w.orders[3] = order
	}
	if f.any("c", "d") != "" {
		w.a = map[string]string{"f16": "f16", "f32": "f16", "s32": "s8", "f64": "f64"}[t]
		if w.shape == "m16n16k8" {
			w.a = "tf32"
		}
		w.c = t
	}
	w.b, w.d = w.a, w.c
	types := w.d + "." + w.a + "." + w.b + "." + w.c
	if w.a == "f16" {
		types = w.d + "." + w.c
	}
	w.op = "wmma.mma.sync.aligned." + w.orders[0] + "." + w.orders[1] + "." + w.shape + "." + types
	return w
}

// registers returns the number of registers of a fragment.
func (w *wmma) registers(elements int, t string, factor bool) int {
	if t == "f16" && factor {
		return 8
	}
	return max(elements*typeBits[t]/32/max(32, typeBits[t]), 1)
}

// wmmaKernel tests wmma.
func wmmaKernel(k *kernel) bool {
	f := k.form
	if f.op != "wmma" {
		return false
	}
	w := wmmaOf(f)
	sp := ""
	var s strings.Builder
	s.WriteString("ld.param.u64 %x9, [scratch];\nadd.u64 %x9, %x9, 131072;\nshr.u32 %r30, %id, 5;\n")
	if strings.HasPrefix(w.space, "shared") {
		sp = "." + w.space
		k.decl = ".shared .align 32 .b8 big[16384];\n"
		s.Reset()
		s.WriteString("mov.u64 %x9, big;\nshr.u32 %r30, %t, 5;\n")
	} else if w.space != "" {
		sp = ".global"
	}
	s.WriteString("mul.wide.u32 %x10, %r30, 4096;\nadd.u64 %x9, %x9, %x10;\nmov.u32 %r31, %laneid;\n")
	class := func(t string) string {
		if c := matrixClass[t]; c != "" {
			return c
		}
		return "b32"
	}
	size := 4
	if w.a == "f64" {
		size = 8
	}
	fmt.Fprintf(&s, "mul.wide.u32 %%x11, %%r31, %d;\nadd.u64 %%x11, %%x9, %%x11;\n.reg .b%d %%fa<8>, %%fb<8>, %%fc<8>, %%fd<8>;\n", size, size*8)
	na := max(w.m*w.k*typeBits[w.a]/8/32/size, 1)
	nb := max(w.k*w.n*typeBits[w.b]/8/32/size, 1)
	nc := max(w.m*w.n*typeBits[w.c]/8/32/size, 1)
	k.in = []operand{{class(w.a), na}, {class(w.b), nb}, {class(w.c), nc}}
	st := strings.Replace(sp, "::cta", "", 1)
	for i, n := range []int{na, nb, nc} {
		for j := range n {
			fmt.Fprintf(&s, "st%s.b%d [%%x11+%d], %%%c%d;\n", st, size*8, 1024*i+j*32*size, 'a'+i, j)
		}
	}
	for j := range 8 / (size / 4) {
		fmt.Fprintf(&s, "cvt.u64.u32 %%x12, %%id;\nst%s.b%d [%%x11+%d], %s;\n", st, size*8, 3072+j*32*size, map[int]string{4: "%id", 8: "%x12"}[size])
	}
	s.WriteString("bar.warp.sync 0xffffffff;\n")
	list := func(r string, n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%%f%s%d", r, i))
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	ra, rb := w.registers(w.m*w.k, w.a, true), w.registers(w.k*w.n, w.b, true)
	rc, rd := w.registers(w.m*w.n, w.c, false), w.registers(w.m*w.n, w.d, false)
	stride := func(rows, cols int, order string) string {
		if order == "row" {
			return fmt.Sprint(", ", cols)
		}
		return fmt.Sprint(", ", rows)
	}
	fmt.Fprintf(&s, "wmma.load.a.sync.aligned.%s.%s%s.%s %s, [%%x9]%s;\n", w.orders[0], w.shape, sp, w.a, list("a", ra), stride(w.m, w.k, w.orders[0]))
	fmt.Fprintf(&s, "wmma.load.b.sync.aligned.%s.%s%s.%s %s, [%%x9+1024]%s;\n", w.orders[1], w.shape, sp, w.b, list("b", rb), stride(w.k, w.n, w.orders[1]))
	fmt.Fprintf(&s, "wmma.load.c.sync.aligned.%s.%s%s.%s %s, [%%x9+2048]%s;\n", w.orders[2], w.shape, sp, w.c, list("c", rc), stride(w.m, w.n, w.orders[2]))
	fmt.Fprintf(&s, "%s %s, %s, %s, %s;\n", w.op, list("d", rd), list("a", ra), list("b", rb), list("c", rc))
	fmt.Fprintf(&s, "wmma.store.d.sync.aligned.%s.%s%s.%s [%%x9+3072], %s%s;\n", w.orders[3], w.shape, sp, w.d, list("d", rd), stride(w.m, w.n, w.orders[3]))
	s.WriteString("bar.warp.sync 0xffffffff;")
	for j := range 8 / (size / 4) {
		fmt.Fprintf(&s, "\nld%s.b%d %%d%d, [%%x11+%d];", st, size*8, j, 3072+j*32*size)
		k.out = append(k.out, word{fmt.Sprintf("%%d%d", j), size * 8})
	}
	k.code = s.String()
	return true
}
