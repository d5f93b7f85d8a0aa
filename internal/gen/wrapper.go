package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
)

// wrapperPath is where the methods of a driver that wraps another one are, in its folder.
const wrapperPath = "/zz_calls.go"

// methodsIn returns the methods of cu.Driver.
func methodsIn(root string) ([]*method, error) {
	src, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		return nil, err
	}
	return parse(source, src)
}

// wrapperFile makes the methods of a driver in dir that wraps another one. write gets the
// methods and the names of the hooks beside them.
func wrapperFile(root, dir string, write func([]*method, map[string]bool) ([]byte, error)) ([]output, error) {
	methods, err := methodsIn(root)
	if err != nil {
		return nil, err
	}
	hooks, err := hooksIn(filepath.Join(root, dir))
	if err != nil {
		return nil, err
	}
	text, err := write(methods, hooks)
	if err != nil {
		return nil, err
	}
	return []output{{dir + wrapperPath, text}}, nil
}

// hooksIn returns the names of the functions in a folder that can be hooks.
func hooksIn(dir string) (map[string]bool, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "hooks*.go"))
	if err != nil {
		return nil, err
	}
	hooks := map[string]bool{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				hooks[f.Name.Name] = true
			}
		}
	}
	return hooks, nil
}

// writeOpen writes, for the first call of a driver, what refuses a wrapper without a driver.
func writeOpen(b *bytes.Buffer, m *method) {
	if m.name == "Init" {
		b.WriteString("\tif d == nil || d.inner == nil {\n\t\treturn errNoDriver\n\t}\n")
	}
}
