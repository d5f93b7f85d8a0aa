package hostile

import (
	"fmt"
	"strconv"
	"strings"
)

// ptxHead begins a module, and kernelHead a kernel in it.
const (
	ptxHead    = ".version 8.0\n.target sm_80\n.address_size 64\n"
	kernelHead = ptxHead + ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
)

// fill repeats a text after head up to Bytes. A # in the text is the number of the
// repetition.
func fill(head, each, tail string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := 0; ; i++ {
		next := strings.ReplaceAll(each, "#", strconv.Itoa(i))
		if b.Len()+len(next)+len(tail) > Bytes {
			break
		}
		b.WriteString(next)
	}
	b.WriteString(tail)
	return b.String()
}

// nest opens and closes as often as fits, with a text in the middle.
func nest(head, open, middle, end, tail string) string {
	n := (Bytes - len(head) - len(middle) - len(tail)) / (len(open) + len(end))
	return head + strings.Repeat(open, n) + middle + strings.Repeat(end, n) + tail
}

// PTX returns texts of about [Bytes] bytes, by name: modules that nest deeply, have huge
// counts, long lines or numbers, or very many small parts. Some are valid.
func PTX() map[string]string {
	const value = ptxHead + ".global .u32 a = "
	return map[string]string{
		"zeros":                      strings.Repeat("\x00", Bytes),
		"letters":                    strings.Repeat("a", Bytes),
		"semicolons":                 strings.Repeat(";", Bytes),
		"lines":                      strings.Repeat("\n", Bytes),
		"dots":                       strings.Repeat(".", Bytes),
		"one comment":                ptxHead + "/*" + strings.Repeat("x", Bytes),
		"many comments":              fill(ptxHead, "/**/", ""),
		"nested comments":            fill(ptxHead, "/*", ""),
		"long string":                ptxHead + ".file 1 \"" + strings.Repeat("x", Bytes),
		"long name":                  ptxHead + ".global .u32 " + strings.Repeat("x", Bytes) + ";",
		"long number":                value + strings.Repeat("9", Bytes) + ";",
		"long hexadecimal number":    value + "0x" + strings.Repeat("f", Bytes) + ";",
		"long float":                 ptxHead + ".global .f32 a = 1." + strings.Repeat("3", Bytes) + ";",
		"huge exponent":              ptxHead + ".global .f64 a = 1e" + strings.Repeat("9", Bytes) + ";",
		"long float with exponent":   ptxHead + ".global .f64 a = 1" + strings.Repeat("0", Bytes) + "e-1000000;",
		"nested parentheses":         nest(value, "(", "1", ")", ";"),
		"nested complements":         value + strings.Repeat("~", Bytes) + "1;",
		"nested conditions":          nest(value, "1?", "1", ":1", ";"),
		"long sum":                   fill(value+"1", "+1", ";"),
		"long shift":                 fill(value+"1", "<<1", ";"),
		"nested casts":               fill(value, "(.s64)", "1;"),
		"nested initial values":      nest(ptxHead+".global .u32 a[1] = ", "{", "1", "}", ";"),
		"many dimensions":            fill(ptxHead+".global .u32 a", "[1]", ";"),
		"many large dimensions":      fill(ptxHead+".global .u32 a", "[65536]", ";"),
		"dimensions and values":      nest(ptxHead+".global .u32 a"+strings.Repeat("[1]", 1000)+" = ", "{", "1", "}", ";"),
		"a huge variable":            fill(ptxHead+".global .b8 a[18446744073709551615];", "\n", ""),
		"huge variables":             fill(ptxHead, ".global .b8 a#[1099511627776];\n", ""),
		"variables of one gigabyte":  fill(ptxHead, ".global .b8 a#[1073741824];\n", ""),
		"values of one gigabyte":     fill(ptxHead, ".global .b8 a#[1073741824] = {1};\n", ""),
		"values of 16 megabytes":     fill(ptxHead, ".global .b8 a#[16777216] = {1};\n", ""),
		"values of one megabyte":     fill(ptxHead, ".global .b8 a#[1048576] = {1};\n", ""),
		"managed gigabytes":          fill(ptxHead, ".global .attribute(.managed) .b8 a#[1073741824];\n", ""),
		"many values":                fill(ptxHead+".global .b8 a[] = {1", ",1", "};"),
		"many addresses":             fill(ptxHead+".global .b8 t[4];\n.global .u64 a[] = {t", ",t", "};"),
		"many masked addresses":      fill(ptxHead+".global .b8 t[4];\n.global .b8 a[] = {0xff(t)", ",0xff(t)", "};"),
		"many variables":             fill(ptxHead, ".global .u32 a#;\n", ""),
		"one variable often":         fill(ptxHead, ".global .u32 a;\n", ""),
		"many extern variables":      fill(ptxHead, ".extern .global .u32 a;\n", ""),
		"many shared variables":      fill(kernelHead, ".shared .b8 s#[65536];\n", "ret;\n}\n"),
		"huge local variables":       fill(kernelHead, ".local .b8 l#[1099511627776];\n", "ret;\n}\n"),
		"huge alignment":             ptxHead + ".global .align 9223372036854775808 .u32 a;" + fill("", "\n", ""),
		"huge registers":             kernelHead + ".reg .b32 %x<18446744073709551615>;\nret;\n}\n" + strings.Repeat("\n", Bytes-300),
		"many millions of registers": fill(kernelHead, ".reg .b32 %x#_<1000000>;\n", "ret;\n}\n"),
		"many registers":             fill(kernelHead, ".reg .b32 %x#;\n", "ret;\n}\n"),
		"many parameters":            fill(ptxHead+".visible .entry k(.param .u32 a", ",.param .u32 a#", ")\n{\nret;\n}\n"),
		"huge parameters":            fill(ptxHead+".visible .entry k(.param .u32 a", ",.param .b8 a#[2147483647]", ")\n{\nret;\n}\n"),
		"nested blocks":              nest(kernelHead, "{", "ret;", "}", "ret;\n}\n"),
		"nested blocks and names":    nest(kernelHead, "{.reg .b32 %x;", "mov.u32 %y,%x;", "mov.b32 %r1,%x;}", "ret;\n}\n"),
		"nested blocks and lookups":  nest(kernelHead, "{", strings.Repeat("mov.b32 %r1,%r2;", 100), "mov.b32 %r1,%r2;}", "ret;\n}\n"),
		"blocks in turn":             fill(kernelHead, "{.reg .b32 %x;mov.b32 %r1,%x;}\n", "ret;\n}\n"),
		"many instructions":          fill(kernelHead, "mov.b32 %r1,%r2;", "ret;\n}\n"),
		"many returns":               fill(kernelHead, "ret;", "}\n"),
		"many long opcodes":          fill(kernelHead, "add"+strings.Repeat(".sat", 2000)+".u32 %r1,%r1,%r1;", "ret;\n}\n"),
		"one long opcode":            fill(kernelHead+"add", ".sat", " %r1,%r1,%r1;ret;\n}\n"),
		"one long vector":            fill(kernelHead+"mov.b64 %rd1,{%r1", ",%r1", "};ret;\n}\n"),
		"nested vectors":             nest(kernelHead+"mov.b64 %rd1,", "{", "%r1", "}", ";ret;\n}\n"),
		"one long call":              fill(kernelHead+"call f,(%r1", ",%r1", ");ret;\n}\n"),
		"nested address":             nest(kernelHead+"ld.global.u32 %r1,", "[", "%rd1", "]", ";ret;\n}\n"),
		"long address":               fill(kernelHead+"ld.global.u32 %r1,[%rd1", "+1", "];ret;\n}\n"),
		"many labels":                fill(kernelHead, "L#:\n", "ret;\n}\n"),
		"many forward branches":      fill(kernelHead, "@%p1 bra E;\n", "E:\nret;\n}\n"),
		"many loops":                 fill(kernelHead, "L#:\n@%p1 bra L#;\n", "ret;\n}\n"),
		"branches to the start":      fill(kernelHead+"S:\n", "@%p1 bra S;\n", "ret;\n}\n"),
		"nested loops":               nestedLoops(),
		"crossed branches":           crossedBranches(),
		"many branch tables":         fill(kernelHead, "T#: .branchtargets E;\n", "E:\nret;\n}\n"),
		"one long branch table":      fill(kernelHead+"T: .branchtargets E", ",E", ";\nbrx.idx %r1,T;\nE:\nret;\n}\n"),
		"many users of a table":      fill(kernelHead+"T: .branchtargets E"+strings.Repeat(",E", 1000)+";\n", "brx.idx %r1,T;\n", "E:\nret;\n}\n"),
		"many users of many labels":  tableUsers(),
		"live registers and blocks":  liveRegisters(),
		"reversed live blocks":       reversedBlocks(20000/part, 1),
		"reversed blocks, often":     reversedBlocks(3000/part, 8),
		"many functions":             fill(ptxHead, ".func f#(){ret;}\n", ""),
		"many kernels":               fill(ptxHead, ".entry k#(){ret;}\n", ""),
		"many kernels with locals":   fill(ptxHead, ".entry k#(){.local .b8 l[524288];.shared .b8 s[32768];ret;}\n", ""),
		"many declarations":          fill(ptxHead, ".extern .func f(.param .b32 a);\n", ""),
		"a chain of calls":           callChain(),
		"a chain of doubled calls":   doubledCalls(),
		"kernels and a recursion":    kernelsAndChain(".func f0(){call f0;ret;}\n"),
		"kernels and a pointer":      kernelsAndChain(".func f0(){.reg .b64 a;mov.u64 a,f9;P: .callprototype _ ();call a,(),P;ret;}\n"),
		"kernels and a refusal":      kernelsAndChain(".extern .func unknown();\n.func f0(){.shared .b8 s[4];.reg .b32 a;mov.u32 a,s;call unknown;ret;}\n"),
		"kernels and pointers":       kernelsAndPointers(),
		"many file directives":       fill(ptxHead, ".file # \"x\"\n", ""),
		"many loc directives":        fill(strings.Replace(kernelHead, ".visible", ".file 1 \"x\"\n.visible", 1), ".loc 1 # 0\n", "ret;\n}\n"),
		"a long section":             fill(ptxHead+".section .debug_info\n{\n", ".b8 1\n", "}\n"),
		"many pragmas":               fill(kernelHead, ".pragma \"nounroll\";\n", "ret;\n}\n"),
		"many targets":               fill(".version 8.0\n.target sm_80", ",debug", "\n"),
		"many aliases":               fill(ptxHead+".func f(){ret;}\n", ".alias a#, f;\n", ""),
		"many prototypes":            fill(kernelHead, "P#: .callprototype _ (.param .b32 _);\n", "ret;\n}\n"),
		"an error at the end":        fill(kernelHead, "mov.b32 %r1,%r2;", "x y z\n}\n"),
		"an error on a long line":    strings.ReplaceAll(fill(kernelHead, "mov.b32 %r1,%r2;", "x y z}"), "\n", " "),
	}
}

// nestedLoops returns a kernel whose loops are all within each other.
func nestedLoops() string {
	var b strings.Builder
	b.WriteString(kernelHead)
	n := Bytes / 28
	for i := range n {
		fmt.Fprintf(&b, "L%d:\n", i)
	}
	for i := range n {
		fmt.Fprintf(&b, "@%%p1 bra L%d;\n", n-1-i)
	}
	return b.String() + "ret;\n}\n"
}

// crossedBranches returns a kernel whose branches go from the first half to the second in
// the same order.
func crossedBranches() string {
	var b strings.Builder
	b.WriteString(kernelHead)
	n := Bytes / 50
	for i := range n {
		fmt.Fprintf(&b, "@%%p1 bra L%d;\n", i)
	}
	for i := range n {
		fmt.Fprintf(&b, "L%d:\nmov.b32 %%r1,%%r2;\n", i)
	}
	return b.String() + "ret;\n}\n"
}

// liveRegisters returns a kernel with many registers that are all live in many blocks.
func liveRegisters() string {
	var b strings.Builder
	n := Bytes / 56
	fmt.Fprintf(&b, "%s.reg .b32 %%x<%d>;\n", kernelHead, n)
	for i := range n {
		fmt.Fprintf(&b, "mov.b32 %%x%d,1;\n", i)
	}
	for i := range n {
		fmt.Fprintf(&b, "@%%p1 bra L%d;\nL%d:\n", i, i)
	}
	for i := range n / 2 {
		fmt.Fprintf(&b, "add.u32 %%r1,%%r1,%%x%d;\n", i)
	}
	return b.String() + "ret;\n}\n"
}

// tableUsers returns a kernel with a long table of labels and as many branches that use it.
func tableUsers() string {
	n := Bytes / 48
	var labels, body strings.Builder
	for i := range n {
		fmt.Fprintf(&labels, ",L%d", i)
		fmt.Fprintf(&body, "brx.idx %%r1,T;L%d: add.u32 %%r1,%%r1,1;\n", i)
	}
	return kernelHead + "T: .branchtargets L0" + labels.String() + ";\n" + body.String() + "ret;\n}\n"
}

// reversedBlocks returns kernels with n blocks and n registers each. The blocks run in the reverse
// order of the text.
func reversedBlocks(n, kernels int) string {
	var b strings.Builder
	b.WriteString(ptxHead)
	for k := range kernels {
		fmt.Fprintf(&b, ".entry k%d(){.reg .b32 x<%d>;bra L%d;\n", k, n, n-1)
		for i := range n {
			next := fmt.Sprintf("bra L%d", i-1)
			if i == 0 {
				next = "ret"
			}
			fmt.Fprintf(&b, "L%d:add.u32 x%d,x%d,1;%s;\n", i, i, (i+n/2)%n, next)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// callChain returns functions that each call the next one.
func callChain() string {
	var parts []string
	size := len(kernelHead)
	for i := 0; size < Bytes-100; i++ {
		part := fmt.Sprintf(".func f%d(){call f%d;ret;}\n", i+1, i)
		parts = append(parts, part)
		size += len(part)
	}
	return fmt.Sprintf("%s.func f0(){ret;}\n%s.entry k(){call f%d;ret;}\n", ptxHead, strings.Join(parts, ""), len(parts))
}

// doubledCalls returns functions that each call the next one twice, besides a recursion.
func doubledCalls() string {
	var b strings.Builder
	b.WriteString(ptxHead + ".func r(){call r;ret;}\n.func f0(){call r;ret;}\n")
	n := Bytes / 46
	for i := range n {
		fmt.Fprintf(&b, ".func f%d(){call f%d;call f%d;ret;}\n", i+1, i, i)
	}
	fmt.Fprintf(&b, ".entry k(){call f%d;ret;}\n", n)
	return b.String()
}

// kernelsAndChain returns functions that each call the next one, down to f0, and as many kernels
// that call the first one.
func kernelsAndChain(f0 string) string {
	var b strings.Builder
	b.WriteString(ptxHead + f0)
	n := Bytes / 66
	for i := range n {
		fmt.Fprintf(&b, ".func f%d(){call f%d;ret;}\n", i+1, i)
	}
	for i := range n {
		fmt.Fprintf(&b, ".entry k%d(){call f%d;ret;}\n", i, n)
	}
	return b.String()
}

// kernelsAndPointers returns functions that each take their own address and call it, and as many
// kernels.
func kernelsAndPointers() string {
	var b strings.Builder
	b.WriteString(ptxHead)
	for i := range Bytes / 120 {
		fmt.Fprintf(&b, ".func f%d(){.reg .b64 a;mov.u64 a,f%d;P: .callprototype _ ();call a,(),P;ret;}\n.entry k%d(){call f%d;ret;}\n", i, i, i, i)
	}
	return b.String()
}
