package ptx_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

const linkHeader = ".version 7.8\n.target sm_80\n.address_size 64\n"

// linkInputs parses texts as the inputs a, b, c of a link.
func linkInputs(t *testing.T, texts ...string) []ptx.Input {
	t.Helper()
	var inputs []ptx.Input
	for i, text := range texts {
		name := string(rune('a' + i))
		m, err := ptx.Parse(name, linkHeader+text)
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, ptx.Input{Name: name, Module: m})
	}
	return inputs
}

// body returns the instructions of a function as text.
func body(m *ptx.Module, name string) string {
	var b strings.Builder
	if f := m.Func(name); f != nil {
		for i := range f.Body {
			b.WriteString(f.Body[i].String() + "; ")
		}
	}
	return b.String()
}

func TestLink(t *testing.T) {
	inputs := linkInputs(t, `
.file 1 "a.cu"
.extern .func (.param .b32 r) twice(.param .b32 x);
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);
.extern .global .u32 limit;
.global .u32 count = 1;
.func helper() { ret; }
.visible .entry k() {
	.reg .b32 %r<3>;
	.reg .b64 %d<2>;
	.param .b32 p;
	.param .b32 q;
	.loc 1 7 0
	ld.global.u32 %r1, [limit];
	ld.global.u32 %r1, [count+4];
	mov.u64 %d1, count;
	st.param.b32 [p], %r1;
	call (q), twice, (p);
	call helper;
	ret;
}`, `
.file 4 "b.cu"
.global .u32 count = 2;
.visible .global .u32 limit = 9;
.global .u64 where = count;
.weak .func w() { ret; }
.func helper() { .reg .b32 %r<2>; .loc 4 3 0 
	mov.u32 %r1, 5; count: bra count; }
.visible .func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<2>; ld.global.u32 %r1, [count]; call helper; ret; }
`, `
.visible .func w() { trap; ret; }
.weak .global .u32 limit = 3;
.extern .shared .align 4 .b8 window[];
.visible .entry l() { .reg .b32 %r<2>; ld.shared.u32 %r1, [window]; call w; ret; }
`)
	before := body(inputs[1].Module, "twice")
	m, err := ptx.Link(inputs, "vprintf")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"k":        "ld.global.u32 %r1, [limit]; ld.global.u32 %r1, [count+4]; mov.u64 %d1, count; st.param.b32 [p], %r1; call (q), twice, (p); call helper; ret; ",
		"twice":    "ld.global.u32 %r1, [count$1]; call helper$1; ret; ",
		"helper$1": "mov.u32 %r1, 5; bra count; ",
		"w":        "trap; ret; ",
		"l":        "ld.shared.u32 %r1, [window]; call w; ret; ",
	} {
		if got := body(m, name); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
	if v := m.Var("where"); v == nil || v.Relocs[0].Symbol != "count$1" {
		t.Errorf("where: %+v, want the address of count$1", v)
	}
	if v := m.Var("limit"); v == nil || v.Linkage != ptx.Visible || v.Init[0] != 9 || len(m.Vars) != 5 {
		t.Errorf("limit %+v of %d variables, want the visible definition of 5", v, len(m.Vars))
	}
	if at := m.Func("helper$1").Body[0].Loc; m.Files[at.File] != "b.cu" || m.Files[m.Func("k").Body[0].Loc.File] != "a.cu" {
		t.Errorf("files %v, place %v", m.Files, at)
	}
	if file, text := m.Func("twice").Text(); file != "b" || !strings.Contains(text, "b.cu") {
		t.Errorf("twice is of %q", file)
	}
	if got := body(inputs[1].Module, "twice"); got != before {
		t.Errorf("the input changed to %s", got)
	}
}

func TestLinkErrors(t *testing.T) {
	for name, c := range map[string]struct {
		texts  []string
		symbol string
		want   string
	}{
		"undefined function": {[]string{".extern .func f();\n.visible .entry k() { call f; ret; }"}, "f", "undefined reference to f in a"},
		"undefined variable": {[]string{"", ".extern .global .u32 v;\n.visible .entry k() { .reg .b64 %d<2>; mov.u64 %d1, v; ret; }"}, "v", "undefined reference to v in b"},
		"undefined address":  {[]string{".extern .global .u32 v;\n.global .u64 p = v;"}, "v", "undefined reference to v in a"},
		"two functions":      {[]string{".visible .func f() { ret; }", ".visible .func f() { ret; }"}, "f", "multiple definition of f in b, first defined in a"},
		"two kernels":        {[]string{".visible .entry k() { ret; }", "", ".visible .entry k() { ret; }"}, "k", "multiple definition of k in c, first defined in a"},
		"two variables":      {[]string{".visible .global .u32 v = 1;", ".visible .global .u32 v = 1;"}, "v", "multiple definition of v in b, first defined in a"},
		"sizes": {[]string{".visible .global .u32 v = 1;", ".extern .global .u64 v;"}, "v",
			"variable v has 8 bytes in b and 4 bytes in a"},
		"parameters": {[]string{".extern .func f(.param .b32 x);\n.visible .entry k() { ret; }", ".visible .func f(.param .b64 x) { ret; }"}, "f",
			"function f has other parameters or results in a than in b"},
		"kinds": {[]string{".extern .func f();", ".visible .global .u32 f;"}, "f", "f is a function in a and a variable in b"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ptx.Link(linkInputs(t, c.texts...))
			e, ok := errors.AsType[*ptx.LinkError](err)
			if m != nil || !ok || e.Symbol != c.symbol || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

// TestLinkUnused: a name that nothing uses needs no definition.
func TestLinkUnused(t *testing.T) {
	m, err := ptx.Link(linkInputs(t, ".extern .func f();\n.extern .global .u32 v;\n.visible .entry k() { ret; }"))
	if err != nil || m.Func("k") == nil || len(m.Vars) != 0 {
		t.Errorf("%v, %v", m, err)
	}
}

func TestLinkWeak(t *testing.T) {
	m, err := ptx.Link(linkInputs(t, ".common .global .u32 c[2];\n.weak .func w() { trap; }", ".common .global .u32 c[4];\n.weak .func w() { ret; }"))
	if err != nil {
		t.Fatal(err)
	}
	if v := m.Var("c"); v.Size() != 16 || len(m.Vars) != 1 || body(m, "w") != "trap; " || len(m.Funcs) != 1 {
		t.Errorf("c has %d bytes, w is %s", v.Size(), body(m, "w"))
	}
}

// TestLinkAliases: an alias is a definition, for other modules too. Order does not matter.
func TestLinkAliases(t *testing.T) {
	const (
		alias  = ".visible .func f();\n.visible .func g() { trap; }\n.alias f, g;"
		caller = ".extern .func f();\n.visible .entry k() { call f; ret; }"
		local  = ".func f();\n.func g() { ret; }\n.alias f, g;\n.visible .entry l() { call f; ret; }"
	)
	for _, texts := range [][]string{{alias, caller, local}, {local, caller, alias}} {
		m, err := ptx.Link(linkInputs(t, texts...))
		if err != nil {
			t.Fatal(err)
		}
		if body(m, "f") != "trap; " || m.Aliases["f"] != "g" || len(m.Aliases) != 2 {
			t.Errorf("f is %q, aliases %v", body(m, "f"), m.Aliases)
		}
		if text := body(m, "l"); body(m, strings.TrimSuffix(strings.TrimPrefix(text, "call "), "; ret; ")) != "ret; " {
			t.Errorf("l is %q, which does not call its own f", text)
		}
	}
	_, err := ptx.Link(linkInputs(t, alias, ".visible .func f() { ret; }"))
	if err == nil || err.Error() != "multiple definition of f in b, first defined in a" {
		t.Errorf("an alias and a function of one name: %v", err)
	}
}

// TestLinkDynamicShared: dynamic shared memory has the largest of its alignments.
func TestLinkDynamicShared(t *testing.T) {
	const use = "[];\n.visible .entry "
	const rest = "() { .reg .b32 %r; ld.shared.u32 %r, [w]; ret; }"
	m, err := ptx.Link(linkInputs(t, ".extern .shared .align 4 .b8 w"+use+"k"+rest, ".extern .shared .align 16 .b8 w"+use+"l"+rest))
	if err != nil || m.Var("w").Align != 16 || len(m.Vars) != 1 {
		t.Errorf("%v, %v, want one variable with alignment 16", m.Vars, err)
	}
}
