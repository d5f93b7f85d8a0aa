package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// target is a fuzz target.
type target struct {
	dir  string // of its package, such as "ptx", or "." for the root
	name string // "FuzzParse"
}

func (t target) String() string {
	if t.dir == "." {
		return t.name
	}
	return filepath.ToSlash(t.dir) + "." + t.name
}

// targets returns the fuzz targets of the module in root, by directory.
func targets(root string) (all []target, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		names, err := targetsIn(path)
		for _, name := range names {
			dir, _ := filepath.Rel(root, filepath.Dir(path))
			all = append(all, target{dir, name})
		}
		return err
	})
	return all, err
}

// targetsIn returns the names of the targets in a file.
func targetsIn(path string) (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && takesF(f) {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// takesF reports whether a function has the parameter of a fuzz target.
func takesF(f *ast.FuncDecl) bool {
	if len(f.Type.Params.List) != 1 {
		return false
	}
	star, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	s, ok := star.X.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "F"
}
