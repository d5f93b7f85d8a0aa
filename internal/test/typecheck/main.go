// Command typecheck checks the types of Ferry's packages for systems other
// than this one, tests included:
//
//	go run ./internal/test/typecheck darwin/arm64 windows/amd64
//	go run ./internal/test/typecheck js/wasm . ./softgpu
//
// It takes seconds where go build takes a minute, because go build compiles the
// whole standard library for each system. What a type checker cannot see, which
// is assembly and the linker's work, is left to go build.
package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	systems := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return !isSystem(arg) })
	patterns := slices.DeleteFunc(slices.Clone(os.Args[1:]), isSystem)
	if len(systems) == 0 {
		fmt.Fprintln(os.Stderr, "typecheck: name at least one system, such as windows/amd64, then the packages")
		os.Exit(2)
	}
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	failed := false
	for _, system := range systems {
		errs, err := check(".", system, patterns)
		if err != nil {
			errs = append(errs, err.Error())
		}
		for _, e := range errs {
			fmt.Fprintf(os.Stderr, "%s: %s\n", system, e)
		}
		failed = failed || len(errs) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// isSystem reports whether an argument is a GOOS and a GOARCH, not a package.
func isSystem(arg string) bool { return strings.Contains(arg, "/") && !strings.HasPrefix(arg, ".") }

// check returns the errors that the packages of the module in a folder, and
// their tests, have on a system.
func check(dir, system string, patterns []string) ([]string, error) {
	goos, goarch, _ := strings.Cut(system, "/")
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedModule | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax,
		Tests:     true,
		ParseFile: parse,
		Dir:       dir,
		Env:       append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
	}, patterns...)
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, fmt.Errorf("no package matches %s", strings.Join(patterns, " "))
	}
	var errs []string
	packages.Visit(loaded, nil, func(p *packages.Package) {
		if p.Module == nil {
			return // the standard library: see parse
		}
		for _, e := range p.Errors {
			errs = append(errs, e.Error())
		}
	})
	for _, p := range loaded {
		errs = append(errs, missingBodies(p)...)
	}
	slices.Sort(errs)
	return slices.Compact(errs), nil // a package and its tests report the same errors
}

// parse parses a file. It drops the bodies of functions of the standard library, of which only the
// declarations matter here: so the check takes half the time.
func parse(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	file, err := parser.ParseFile(fset, name, src, parser.AllErrors|parser.ParseComments|parser.SkipObjectResolution)
	if file == nil || !strings.HasPrefix(name, standard) {
		return file, err
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
	return file, err
}

// standard is the folder of the standard library.
var standard = filepath.Join(build.Default.GOROOT, "src") + string(filepath.Separator)

// missingBodies returns the functions without a body of a package that has no
// assembly. The type checker accepts them, the compiler does not.
func missingBodies(p *packages.Package) (errs []string) {
	if slices.ContainsFunc(p.OtherFiles, func(name string) bool { return filepath.Ext(name) == ".s" }) {
		return nil
	}
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body == nil {
				errs = append(errs, fmt.Sprintf("%s: %s has no body", p.Fset.Position(f.Pos()), f.Name.Name))
			}
		}
	}
	return errs
}
