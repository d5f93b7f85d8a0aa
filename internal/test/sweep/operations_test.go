package sweep

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "github.com/ferrygpu/ferry"

// withoutScenario has, by the reason, the public functions and methods of the root and of
// package pipeline that no scenario calls. A name without a type stands for that method of all
// types.
var withoutScenario = map[string][]string{
	"makes no driver call": {"Error", "Unwrap", "String", "Len", "Size", "Pointer", "Range", "Name", "OnLeak", "Synchronous",
		"Batch.Reset", "GPU.CUContext", "GPU.Emulated", "GPU.Fallback", "GPU.Now", "GPU.Profile", "GPU.SetSaveCPU",
		"Kernel.Params", "Module.Kernels", "Module.Log", "Module.Warnings", "PageableSlice.Slice"},
	"opens drivers of its own": {"GPUs", "Open", "OpenAll"},
}

// TestEveryOperation finds public functions and methods that no scenario calls.
func TestEveryOperation(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	public, called := operations(t)
	used := map[string]bool{}
	for _, name := range public {
		_, method, _ := strings.Cut(name, ".")
		excused := false
		for _, names := range withoutScenario {
			for _, x := range []string{name, method} {
				if x != "" && slices.Contains(names, x) {
					excused, used[x] = true, true
				}
			}
		}
		if !called[name] && !excused {
			t.Errorf("no scenario calls %s: add one, or give a reason in withoutScenario", name)
		}
		if called[name] && used[name] {
			t.Errorf("a scenario calls %s, which withoutScenario has", name)
		}
	}
	for _, names := range withoutScenario {
		for _, x := range names {
			if !used[x] {
				t.Errorf("withoutScenario has %s, which is no public operation", x)
			}
		}
	}
	if len(public) < 100 {
		t.Errorf("found only %d operations", len(public))
	}
}

// operations returns the names of the public functions and methods, such as "Stream.Wait",
// and which of them the scenarios call.
func operations(t *testing.T) (public []string, called map[string]bool) {
	t.Helper()
	files := token.NewFileSet()
	imports := importer.ForCompiler(files, "gc", exports(t))
	for _, path := range []string{root, root + "/pipeline"} {
		p, err := imports.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Scope().Names() {
			switch o := p.Scope().Lookup(name).(type) {
			case *types.Func:
				public = append(public, o.Name())
			case *types.TypeName:
				named, ok := o.Type().(*types.Named)
				for i := 0; ok && i < named.NumMethods(); i++ {
					public = append(public, nameOf(named.Method(i)))
				}
			}
		}
	}
	public = slices.DeleteFunc(public, func(name string) bool {
		of, method, isMethod := strings.Cut(name, ".")
		return !ast.IsExported(of) || isMethod && !ast.IsExported(method)
	})
	return public, calls(t, files, imports)
}

// exports returns a function that opens the export data of a package.
func exports(t *testing.T) func(path string) (io.ReadCloser, error) {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(found[path]) }
}

// calls returns the names of the functions and methods that the scenarios use.
func calls(t *testing.T, files *token.FileSet, imports types.Importer) map[string]bool {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Instances: map[*ast.Ident]types.Instance{}}
	config := types.Config{Importer: imports}
	if _, err := config.Check("sweep", files, parsed, info); err != nil {
		t.Fatal(err)
	}
	called := map[string]bool{}
	for _, o := range info.Uses {
		if f, ok := o.(*types.Func); ok && f.Pkg() != nil && strings.HasPrefix(f.Pkg().Path(), root) {
			called[nameOf(f.Origin())] = true
		}
	}
	for x, i := range info.Instances {
		if x.Name == "take" { // which closes what it takes
			called[typeOf(i.TypeArgs.At(0))+".Close"] = true
		}
	}
	return called
}

// nameOf returns a name such as "Copy" or "Stream.Wait".
func nameOf(f *types.Func) string {
	if recv := f.Signature().Recv(); recv != nil {
		return typeOf(recv.Type()) + "." + f.Name()
	}
	return f.Name()
}

// typeOf returns the name of a type, or of the type to which it points.
func typeOf(x types.Type) string {
	if p, ok := x.(*types.Pointer); ok {
		x = p.Elem()
	}
	if n, ok := x.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}
