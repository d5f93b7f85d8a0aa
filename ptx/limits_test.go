package ptx_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/ptx"
)

// TestRanges declares registers in ranges and single ones, and checks which of them
// collide.
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		declared string
		clash    bool
	}{
		{"%r<10>, %x", false},
		{"%r<10>, %r10", false},
		{"%r<11>, %r10", true},
		{"%r10, %r<11>", true},
		{"%r10, %r<10>", false},
		{"%r<10>, %r1<5>", false},
		{"%r<11>, %r1<5>", true},
		{"%r1<5>, %r<11>", true},
		{"%r1<5>, %r<10>", false},
		{"%r<200>, %r1<5>", true},
		{"%r1<500>, %r<101>", true},
		{"%r<2>, %r<2>", true},
		{"%r<2>, %r", false},
		{"%r<20>, %r01", false},
		{"%r<20>, %r0<5>", false},
		{"%r<2147483647>, %r2147483646", true},
		{"%r<2147483647>, %r2147483647", false},
		{"%r<2147483647>, %r99999999999999999999", false},
	} {
		_, err := ptx.Parse("k.ptx", moduleHead+".entry k() { .reg .u32 "+c.declared+"; ret; }")
		if (err != nil) != c.clash {
			t.Errorf("%s: %v, want an error: %t", c.declared, err, c.clash)
		}
	}
}

func TestLookup(t *testing.T) {
	f := parse(t, "k.ptx", moduleHead+".entry k(.param .u64 p) { .reg .u32 %r<1000000000>, %x; { .reg .u32 %x; } ret; }").Func("k")
	for _, c := range []struct {
		name, found string
		index       int
	}{
		{"%r0", "%r", 0}, {"%r999999999", "%r", 999999999}, {"%x", "%x", 0}, {"%x$1", "%x$1", 0}, {"p", "p", 0},
		{"%r1000000000", "", 0}, {"%r", "", 0}, {"%r01", "", 0}, {"%tid", "", 0}, {"", "", 0},
	} {
		v, index := f.Lookup(c.name)
		if name := nameOf(v); name != c.found || index != c.index {
			t.Errorf("Lookup(%q) = %q, %d, want %q, %d", c.name, name, index, c.found, c.index)
		}
	}
}

func nameOf(v *ptx.Var) string {
	if v == nil {
		return ""
	}
	return v.Name
}

// TestHugeClaims checks that sizes which a short text claims cost no memory.
func TestHugeClaims(t *testing.T) {
	source := moduleHead + `.global .b8 big[1000000000000];
.global .u64 rest[1000000000] = {1};
.entry k(.param .u64 p) { .reg .b32 %r<2000000000>; mov.b32 %r1999999999, 0; ret; }`
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			parse(b, "k.ptx", source)
		}
	})
	if got := result.AllocedBytesPerOp(); got > 64<<10 {
		t.Errorf("%d bytes are allocated for a text of %d", got, len(source))
	}
}

// TestDeepNesting checks that no text can exhaust the stack.
func TestDeepNesting(t *testing.T) {
	n := sample.Count(100_000, 1_000_000)
	for name, source := range map[string]string{
		"parentheses": bodyHead + "mov.u32 %r1, " + strings.Repeat("(", n),
		"signs":       bodyHead + "mov.u32 %r1, " + strings.Repeat("- ", n) + "1;",
		"conditions":  bodyHead + "mov.u32 %r1, " + strings.Repeat("1?", n),
		"vectors":     bodyHead + "mov.u32 %r1, " + strings.Repeat("{", n),
		"addresses":   bodyHead + "ld.u32 %r1, " + strings.Repeat("[%rd1,", n),
		"lists":       bodyHead + "call " + strings.Repeat("(", n),
		"scopes":      bodyHead + strings.Repeat("{", n),
		"values":      moduleHead + ".global .u32 x = " + strings.Repeat("{", n),
		"generic":     moduleHead + ".global .u32 x = " + strings.Repeat("generic(", n),
		"sections":    moduleHead + ".section .debug_str " + strings.Repeat("{", n),
		"dimensions":  moduleHead + ".global .u32 x" + strings.Repeat("[1]", 1000) + " = " + strings.Repeat("{", n),
	} {
		start := time.Now()
		_, err := ptx.Parse("k.ptx", source)
		if _, ok := errors.AsType[*ptx.Error](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
}

// TestManyNames declares, uses and looks up very many names. The time must not grow
// with their square.
func TestManyNames(t *testing.T) {
	n := sample.Count(10_000, 50_000)
	var b strings.Builder
	b.WriteString(moduleHead + ".entry k() {\n")
	for i := range n {
		fmt.Fprintf(&b, ".reg .u32 %%a%db, %%c%dd<3>; mov.u32 %%a%db, %%c%dd2; L%d: bra L%d;\n{ .reg .u32 x; mov.u32 x, 1; }\n", i, i, i, i, i, n-1-i)
	}
	m := parse(t, "k.ptx", b.String()+"}")
	f := m.Func("k")
	if len(f.Body) != 3*n || len(f.Vars) != 3*n || len(f.Labels) != n {
		t.Errorf("%d instructions, %d variables, %d labels", len(f.Body), len(f.Vars), len(f.Labels))
	}
	if got, want := f.Body[len(f.Body)-1].String(), fmt.Sprintf("mov.u32 x$%d, 1", n-1); got != want {
		t.Errorf("the last instruction is %q, want %q", got, want)
	}
}

// TestAddressSize checks the address size that Parse guesses if the source does not
// give it.
func TestAddressSize(t *testing.T) {
	for _, c := range []struct {
		name, source string
		want         int
	}{
		{"32 by directive", ".version 2.3 .target sm_20 .address_size 32 .entry k() { .reg .u64 a; ld.u32 _, [a]; }", 32},
		{"64 by directive", ".version 2.3 .target sm_20 .address_size 64 .entry k() { .reg .u32 a; ld.u32 _, [a]; }", 64},
		{"32 by a register", ".version 1.4 .target sm_10 .entry k() { .reg .u32 a; ld.u32 _, [a]; }", 32},
		{"64 by a register", ".version 1.4 .target sm_10 .entry k() { .reg .u64 a; ld.u32 _, [a]; }", 64},
		{"64 by one of several", ".version 1.4 .target sm_10 .entry k() { .reg .u32 b; .reg .u64 a; ld.u32 _, [b]; ld.u32 _, [a]; }", 64},
		{"nothing to tell from", ".version 1.4 .target sm_10 .entry k() { ret; }", 64},
	} {
		if got := parse(t, c.name, c.source).AddressSize; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestSpecialRegisters uses every special register of the PTX ISA.
func TestSpecialRegisters(t *testing.T) {
	var names []string
	for _, v := range strings.Fields("%tid %ntid %ctaid %nctaid %clusterid %nclusterid %cluster_ctaid %cluster_nctaid") {
		names = append(names, v, v+".x", v+".y", v+".z", v+".w")
	}
	names = append(names, strings.Fields(`%laneid %warpid %nwarpid %smid %nsmid %gridid %is_explicit_cluster %cluster_ctarank
		%cluster_nctarank %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt %clock %clock_hi %clock64 %pm0 %pm7
		%pm0_64 %pm7_64 %envreg0 %envreg31 %globaltimer %globaltimer_lo %globaltimer_hi %reserved_smem_offset_begin
		%reserved_smem_offset_end %reserved_smem_offset_cap %reserved_smem_offset_0 %reserved_smem_offset_1 %total_smem_size
		%aggr_smem_size %dynamic_smem_size %current_graph_exec`)...)
	for _, name := range names {
		f := parse(t, name, bodyHead+"mov.u32 %r1, "+name+";"+bodyTail).Func("k")
		if got, want := f.Body[0].Operands[1], (ptx.Reg{Name: name, Special: true}); got != ptx.Operand(want) {
			t.Errorf("%s: %#v", name, got)
		}
	}
	for _, name := range []string{"%envreg32", "%pm8", "%pm8_64", "%envreg", "%laneid.x", "%tid.v", "%envreg01"} {
		if _, err := ptx.Parse(name, bodyHead+"mov.u32 %r1, "+name+";"+bodyTail); err == nil {
			t.Errorf("%s is taken for a special register", name)
		}
	}
}

// TestManyItems demands that a text has as many instructions and addresses as its length
// allows, and no more.
func TestManyItems(t *testing.T) {
	const free = 500_000
	blanks := strings.Repeat(" ", 16*free+16-free*len("ret;")) // room for one more
	for name, c := range map[string]struct {
		source string
		right  bool
	}{
		"instructions": {bodyHead + strings.Repeat("ret;", free) + "}", true},
		"one more":     {bodyHead + strings.Repeat("ret;", free+1) + "}", false},
		"longer text":  {bodyHead + strings.Repeat("ret;", free+1) + blanks + "}", true},
		"addresses":    {moduleHead + ".global .u64 a[] = {a" + strings.Repeat(",a", free) + "};", false},
		"both":         {moduleHead + ".global .u64 a[] = {a, a};" + bodyHead[len(moduleHead):] + strings.Repeat("ret;", free-1) + "}", false},
	} {
		_, err := ptx.Parse("k.ptx", c.source)
		if c.right && err != nil || !c.right && (err == nil || !strings.Contains(err.Error(), "more than 500000 instructions")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
