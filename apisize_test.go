package ferry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// mostNames is how many exported names the package has at most: functions, types, constants
// and variables. It may fall. To raise it, say in docs/RATIONALE.md why.
const mostNames = 100

// TestAPISize counts the exported names, and checks that a function with a context takes a
// Stream: a Batch, which Queue allows, waits for nothing.
func TestAPISize(t *testing.T) {
	var names []string
	for _, f := range sourceFiles(t) {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					names = append(names, d.Name.Name)
					if takes(d, "Context") && takes(d, "Queue") {
						t.Errorf("%s takes a context and a Queue: take a *Stream", d.Name.Name)
					}
				}
			case *ast.GenDecl:
				names = append(names, exportedIn(d)...)
			}
		}
	}
	if len(names) > mostNames {
		t.Errorf("package ferry exports %d names, want at most %d: %s", len(names), mostNames, strings.Join(names, " "))
	}
}

// sourceFiles parses the files of the package that are no tests.
func sourceFiles(t *testing.T) (files []*ast.File) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// takes reports whether a function has a parameter of a type, such as Queue or context.Context.
func takes(f *ast.FuncDecl, name string) bool {
	for _, p := range f.Type.Params.List {
		switch x := p.Type.(type) {
		case *ast.Ident:
			if x.Name == name {
				return true
			}
		case *ast.SelectorExpr:
			if x.Sel.Name == name {
				return true
			}
		}
	}
	return false
}

// exportedIn returns the exported names of a declaration.
func exportedIn(d *ast.GenDecl) (names []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			add(s.Name)
		case *ast.ValueSpec:
			for _, id := range s.Names {
				add(id)
			}
		}
	}
	return names
}
