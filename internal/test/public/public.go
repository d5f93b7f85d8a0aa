// Package public finds the public operations of Ferry, and those that test code calls, so that a
// test can demand that none is left out.
package public

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

// Finder knows the packages that the package of a test imports.
type Finder struct {
	files   *token.FileSet
	imports types.Importer
}

// New returns a finder for the package in the present folder. It skips the test where there is no
// go command.
func New(t *testing.T) *Finder {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	files := token.NewFileSet()
	return &Finder{files, importer.ForCompiler(files, "gc", exports(t))}
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

// Operations returns the names of the public functions and methods of packages, such as
// "Stream.Wait". A package is named by its folder in the repository, the root by "".
func (f *Finder) Operations(t *testing.T, packages ...string) (public []string) {
	t.Helper()
	for _, folder := range packages {
		p, err := f.imports.Import(strings.TrimSuffix(root+"/"+folder, "/"))
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
	return slices.DeleteFunc(public, func(name string) bool {
		of, method, isMethod := strings.Cut(name, ".")
		return !ast.IsExported(of) || isMethod && !ast.IsExported(method)
	})
}

// Called returns the names of the functions and methods that the files of a folder use, without its
// tests. A generic function named closes calls Close of its first type argument.
func (f *Finder) Called(t *testing.T, folder, closes string) map[string]bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(f.files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Instances: map[*ast.Ident]types.Instance{}}
	config := types.Config{Importer: f.imports}
	if _, err := config.Check(folder, f.files, parsed, info); err != nil {
		t.Fatal(err)
	}
	called := map[string]bool{}
	for _, o := range info.Uses {
		if f, ok := o.(*types.Func); ok && f.Pkg() != nil && strings.HasPrefix(f.Pkg().Path(), root) {
			called[nameOf(f.Origin())] = true
		}
	}
	for x, i := range info.Instances {
		if x.Name == closes {
			called[typeOf(i.TypeArgs.At(0))+".Close"] = true
		}
	}
	return called
}

// Missing compares what is public with what is called. An excuse is the name of an operation, or
// of a method of all types. It returns what is neither called nor excused, and the excuses that
// are called, or are no operation.
func Missing(public []string, called map[string]bool, excuses ...[]string) (missing, wrong []string) {
	used := map[string]bool{}
	all := slices.Concat(excuses...)
	for _, name := range public {
		_, method, _ := strings.Cut(name, ".")
		excused := ""
		for _, x := range []string{name, method} {
			if x != "" && slices.Contains(all, x) {
				excused, used[x] = x, true
			}
		}
		switch {
		case !called[name] && excused == "":
			missing = append(missing, name)
		case called[name] && excused == name:
			wrong = append(wrong, name)
		}
	}
	for _, x := range all {
		if !used[x] {
			wrong = append(wrong, x)
		}
	}
	return missing, wrong
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
