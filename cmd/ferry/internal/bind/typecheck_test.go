package bind

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"go/types"
	"strings"
	"testing"
)

// stubs are packages that generated code imports, as far as it needs them.
var stubs = map[string]string{
	"embed":                        "package embed",
	"errors":                       "package errors; func Join(...error) error { return nil }",
	"github.com/ferrygpu/ferry/cu": "package cu; type DevicePtr uint64",
	"github.com/ferrygpu/ferry": `package ferry; type (GPU struct{}; LoadOptions struct{}; Module struct{}; Kernel struct{}; LaunchConfig struct{}; Queue interface{ queue() }; Memory[T any] interface { Len() int } )
		func Load(*GPU, []byte, *LoadOptions) (*Module, error) { return nil, nil }
		func (*Module) Close() error { return nil }`,
	"github.com/ferrygpu/ferry/ferrybind": `package ferrybind; import "github.com/ferrygpu/ferry"; type Param struct { Name, Type string; Size int; Reads bool }
		func Kernel(*ferry.Module, string, ...Param) (*ferry.Kernel, error) { return nil, nil }
		func Launch(*ferry.Kernel, ferry.Queue, ferry.LaunchConfig, ...any) error { return nil }`,
}

// stubImporter imports stubs, each once.
type stubImporter map[string]*types.Package

func (i stubImporter) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p, nil
	}
	text, ok := stubs[path]
	if !ok {
		return nil, fmt.Errorf("generated code imports %s", path)
	}
	set := gotoken.NewFileSet()
	file, err := parser.ParseFile(set, path, text, 0)
	if err != nil {
		return nil, err
	}
	p, err := (&types.Config{Importer: i}).Check(path, set, []*ast.File{file}, nil)
	i[path] = p
	return p, err
}

// typecheck compiles generated code, and compares the layout of its structures on several
// systems with that which the compiler of the kernels has told.
func typecheck(t *testing.T, code []byte) {
	t.Helper()
	set := gotoken.NewFileSet()
	file, err := parser.ParseFile(set, "generated.go", code, parser.ParseComments)
	if err != nil {
		t.Errorf("the code is not Go: %v\n%s", err, code)
		return
	}
	stamp, ok := readStamp(code)
	if !ok {
		t.Error("the code has no stamp")
	}
	for _, arch := range []string{"amd64", "arm64", "386"} {
		sizes := types.SizesFor("gc", arch)
		pkg, err := (&types.Config{Importer: stubImporter{}, Sizes: sizes}).Check("p", set, []*ast.File{file}, nil)
		if err != nil {
			t.Errorf("the code does not compile: %v\n%s", err, code)
			return
		}
		found := map[string]bool{}
		for _, name := range pkg.Scope().Names() {
			if s, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct); ok {
				found[layoutText(s, sizes)] = true
			}
		}
		for _, sig := range stamp.structs {
			want := ""
			for _, p := range sig.parts {
				want += p.typ[max(0, strings.LastIndex(p.typ, "at byte")):] + "; "
			}
			if !found[want] {
				t.Errorf("%s: no structure has the layout of %s, %s", arch, sig.name, want)
			}
		}
	}
}

// layoutText returns the offsets and the size of a structure as a stamp writes them.
func layoutText(s *types.Struct, sizes types.Sizes) string {
	var fields []*types.Var
	for f := range s.Fields() {
		fields = append(fields, f)
	}
	var b strings.Builder
	for i, offset := range sizes.Offsetsof(fields) {
		if fields[i].Name() != "_" {
			fmt.Fprintf(&b, "at byte %d; ", offset)
		}
	}
	fmt.Fprintf(&b, "%d bytes; ", sizes.Sizeof(s))
	return b.String()
}
