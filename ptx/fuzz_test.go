package ptx_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/ptx"
)

// FuzzParse checks that Parse returns either a module or an error, and does not
// panic. A parsed module can be laid out and printed, its names are unique, and every
// name of an operand is found.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.ptx")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < 12<<10 { // with larger files the fuzzer would spend its time on minimising
			f.Add(string(text))
		}
	}
	text, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range strings.Split(string(text), "=== ")[1:] {
		name, source, _ := strings.Cut(c, "\n")
		source, _, _ = strings.Cut(source, "\n--- error\n")
		f.Add(wholeSource(name, source))
	}
	f.Fuzz(func(t *testing.T, source string) {
		var m *ptx.Module
		var err error
		hostile.Check(t, "parse", func() { m, err = ptx.Parse("f.ptx", source) })
		if (m == nil) == (err == nil) {
			t.Fatalf("module %v, error %v", m, err)
		}
		if err != nil {
			if e, ok := errors.AsType[*ptx.Error](err); !ok || e.Pos.Line < 1 || e.Pos.Col < 1 || err.Error() == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		checkModule(t, m)
		other, err := ptx.Parse("g.ptx", linkedTo)
		if err != nil {
			t.Fatal(err)
		}
		for _, modules := range [][]*ptx.Module{{m}, {m, m}, {m, other}, {other, m}} {
			hostile.Check(t, "link", func() {
				var inputs []ptx.Input
				for i, m := range modules {
					inputs = append(inputs, ptx.Input{Name: string(rune('a' + i)), Module: m})
				}
				linked, err := ptx.Link(inputs)
				if (linked == nil) == (err == nil) {
					t.Fatalf("linked module %v, error %v", linked, err)
				}
			})
		}
	})
}

// linkedTo has the names that many of the seeds have.
const linkedTo = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .global .u32 a;\n.visible .func f(.param .b32 x) { ret; }\n.weak .global .u32 b = 7;\n.visible .entry k() { ret; }\n"

// checkModule checks what must hold for every module.
func checkModule(t *testing.T, m *ptx.Module) {
	t.Helper()
	for _, v := range m.Vars {
		checkVar(t, v)
	}
	for _, f := range m.Funcs {
		layout, total := f.ParamLayout()
		for _, p := range layout {
			if p.Offset%p.Align != 0 || p.Offset+p.Size > total {
				t.Fatalf("%s: %v in %d bytes", f.Name, layout, total)
			}
		}
		for name, at := range f.Labels {
			if at < 0 || at > len(f.Body) {
				t.Fatalf("label %s at %d of %d", name, at, len(f.Body))
			}
		}
		seen := make(map[string]bool)
		for _, v := range f.Vars {
			checkVar(t, v)
			if seen[v.Name] {
				t.Fatalf("%s: %s twice", f.Name, v.Name)
			}
			seen[v.Name] = true
		}
		for i := range f.Body {
			checkOperands(t, m, f, &f.Body[i], f.Body[i].Operands)
			if f.Body[i].String() == "" {
				t.Fatalf("%s: instruction %d prints as nothing", f.Name, i)
			}
		}
	}
}

func checkVar(t *testing.T, v *ptx.Var) {
	t.Helper()
	if v.Size() < 0 || v.Align < 1 || len(v.Init) > v.Size() {
		t.Fatalf("%+v: size %d", *v, v.Size())
	}
	for _, r := range v.Relocs {
		if r.Offset < 0 || r.Offset+r.Size > len(v.Init) {
			t.Fatalf("%s: %+v in %d bytes", v.Name, r, len(v.Init))
		}
	}
}

// checkOperands checks that every name in operands is declared.
func checkOperands(t *testing.T, m *ptx.Module, f *ptx.Func, in *ptx.Instr, list []ptx.Operand) {
	t.Helper()
	for _, o := range list {
		switch o := o.(type) {
		case ptx.Reg:
			if v, _ := f.Lookup(o.Name); !o.Special && (v == nil || v.Space != ptx.RegSpace) {
				t.Fatalf("%s: register %s is not found", in, o.Name)
			}
		case ptx.Mem:
			if o.Base != "" {
				checkName(t, m, f, in, o.Base)
			}
			checkOperands(t, m, f, in, o.Args)
		case ptx.Sym:
			checkName(t, m, f, in, o.Name)
		case ptx.Vec:
			checkOperands(t, m, f, in, o.Elems)
		case ptx.List:
			checkOperands(t, m, f, in, o.Elems)
		case ptx.Pair:
			checkOperands(t, m, f, in, []ptx.Operand{o.First, o.Second})
		case nil:
			t.Fatalf("%s: an operand is nil", in)
		}
	}
}

func checkName(t *testing.T, m *ptx.Module, f *ptx.Func, in *ptx.Instr, name string) {
	t.Helper()
	v, _ := f.Lookup(name)
	_, isLabel := f.Labels[name]
	_, isTable := f.Tables[name]
	if v == nil && !isLabel && !isTable && f.Protos[name] == nil && m.Var(name) == nil && m.Func(name) == nil {
		t.Fatalf("%s: %s is not found", in, name)
	}
}
