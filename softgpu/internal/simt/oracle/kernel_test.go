package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// outBytes is how much each thread may write. cellBytes is the memory of each thread
// that instructions may work on.
const (
	outBytes  = 64
	cellBytes = 64
	block     = 128
)

// form is an opcode with its modifiers.
type form struct {
	text  string
	op    string
	mods  []string
	types []string
}

var typeBits = map[string]int{
	"u8": 8, "s8": 8, "b8": 8, "u16": 16, "s16": 16, "b16": 16, "u32": 32, "s32": 32, "b32": 32, "u64": 64, "s64": 64, "b64": 64,
	"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "u16x2": 32, "s16x2": 32, "tf32": 32,
	"e4m3x2": 16, "e5m2x2": 16, "pred": 1, "e4m3": 8, "e5m2": 8, "u4": 4, "s4": 4, "b1": 1,
}

func parseForm(text string) form {
	parts := strings.Split(text, ".")
	f := form{text: text, op: parts[0], mods: parts[1:]}
	for _, m := range f.mods {
		if typeBits[m] > 0 {
			f.types = append(f.types, m)
		}
	}
	return f
}

func (f form) has(mod string) bool { return slices.Contains(f.mods, mod) }

func (f form) any(mods ...string) string {
	for _, m := range mods {
		if f.has(m) {
			return m
		}
	}
	return ""
}

// typ returns the i'th type of the form, "" if it has fewer.
func (f form) typ(i int) string {
	if i >= 0 && i < len(f.types) {
		return f.types[i]
	}
	return ""
}

func (f form) last() string { return f.typ(len(f.types) - 1) }

// operand is a source: a class of values, and the number of registers.
type operand struct {
	class string
	n     int
}

// word is a register that is stored at the end.
type word struct {
	reg  string
	bits int
}

// kernel runs one form in each thread.
type kernel struct {
	form  form
	in    []operand
	code  string // with $a, $b, $c for the sources
	out   []word
	decl  string // at module scope
	local bool   // has a cell in local memory
}

// classOf returns the class of values for a type.
func classOf(t string) string {
	switch t {
	case "f16", "bf16":
		return t + "x16"
	case "f16x2":
		return "f16x32"
	case "bf16x2":
		return "bf16x32"
	case "f32", "tf32":
		return "f32"
	case "f64":
		return "f64"
	case "e4m3x2", "e5m2x2":
		return "fp8x16"
	case "u16x2", "s16x2":
		return "b32"
	}
	switch n := typeBits[t]; {
	case n <= 16:
		return "b16"
	case n == 32:
		return "b32"
	}
	return "b64"
}

func one(classes ...string) []operand {
	out := make([]operand, len(classes))
	for i, c := range classes {
		out[i] = operand{c, 1}
	}
	return out
}

// source returns the kernel as PTX, as an entry of that name.
func (k *kernel) source(name string) string {
	var s strings.Builder
	fmt.Fprintf(&s, ".visible .entry %s(.param .u64 in, .param .u64 out, .param .u64 scratch, .param .align 16 .b8 arg[32]) {\n", name)
	s.WriteString("\t.reg .b64 %in, %out, %cell, %off, %x<40>;\n\t.reg .b32 %id, %sh, %t, %r<40>;\n\t.reg .b16 %h<20>;\n\t.reg .pred %p<9>;\n")
	s.WriteString("\t.shared .align 16 .b8 sh[" + fmt.Sprint(block*cellBytes) + "];\n")
	if k.local {
		s.WriteString("\t.local .align 16 .b8 lo[64];\n")
	}
	for i, o := range k.in {
		fmt.Fprintf(&s, "\t.reg .b%d %%%c<%d>;\n", classBits(o.class), 'a'+i, o.n)
	}
	for _, w := range k.out {
		if strings.HasPrefix(w.reg, "%d") || strings.HasPrefix(w.reg, "%e") {
			fmt.Fprintf(&s, "\t.reg .b%d %s;\n", max(w.bits, 16), w.reg)
		}
	}
	s.WriteString("\tld.param.u64 %in, [in];\n\tld.param.u64 %out, [out];\n\tld.param.u64 %cell, [scratch];\n")
	s.WriteString("\tmov.u32 %id, %ctaid.x;\n\tmov.u32 %t, %tid.x;\n\tmad.lo.u32 %id, %id, 128, %t;\n\tmul.wide.u32 %off, %id, 8;\n\tadd.u64 %in, %in, %off;\n")
	s.WriteString("\tmul.wide.u32 %off, %id, 64;\n\tadd.u64 %out, %out, %off;\n\tadd.u64 %cell, %cell, %off;\n\tmov.u32 %sh, sh;\n\tmad.lo.u32 %sh, %t, 64, %sh;\n")
	for i, o := range k.in {
		for j := range o.n {
			fmt.Fprintf(&s, "\tld.global.b%d %%%c%d, [%%in+%d];\n", classBits(o.class), 'a'+i, j, at(o.class, i, j))
		}
	}
	code := strings.NewReplacer("$a", "%a0", "$b", "%b0", "$c", "%c0").Replace(k.code)
	for line := range strings.SplitSeq(code, "\n") {
		s.WriteString("\t" + line + "\n")
	}
	off := 0
	for _, w := range k.out {
		if w.bits == 1 {
			fmt.Fprintf(&s, "\tselp.u32 %%r39, 1, 0, %s;\n\tst.global.b32 [%%out+%d], %%r39;\n", w.reg, off)
			off += 4
			continue
		}
		n := max(w.bits/8, 1)
		off = (off + n - 1) / n * n
		fmt.Fprintf(&s, "\tst.global.b%d [%%out+%d], %s;\n", w.bits, off, w.reg)
		off += n
	}
	s.WriteString("\tret;\n}\n")
	if off > outBytes {
		panic("BUG: " + k.form.text + " stores too much")
	}
	return s.String()
}

const head = ".version 8.6\n.target sm_90a\n.address_size 64\n"

// constants is the declaration of constant memory for the kernels.
const constants = ".const .align 16 .b8 cdata[64] = {1,130,3,252,5,254,7,8,129,10,11,140,13,14,15,144,17,18,147,20,21,22,151,24,25,26,155,28,29,30,159,32,255,254,253,252,251,250,249,248,247,246,245,244,243,242,241,240,5,4,3,2,1};\n"
