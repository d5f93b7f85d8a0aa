package ferry

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// planners are the functions that may look at a kind of memory, or at the path of a copy.
var planners = map[string][]string{
	"kind": {"planKinds", "planOf"},
	"path": {"planKinds", "planCopy", "copyPlan.carryOut", "copyPlan.mustQueue"},
}

// TestCopiesArePlannedOnce: of the code of copies planOf alone asks for the kinds of memory,
// planKinds alone decides by them, and carryOut follows the path, or mustQueue for lists. Other code asks the
// plan.
func TestCopiesArePlannedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			by := functionName(function)
			for what := range questions(function.Body, copiesMemory(name)) {
				if topic, _, _ := strings.Cut(what, ":"); !slices.Contains(planners[topic], by) {
					t.Errorf("%s: %s has %s: let the plan decide it", name, by, what)
				} else {
					seen[topic+" in "+by] = true
				}
			}
		}
	}
	for topic, all := range planners {
		for _, by := range all {
			if !seen[topic+" in "+by] {
				t.Errorf("no question about the %s in %s: the test looks for nothing", topic, by)
			}
		}
	}
}

// TestQuestions: questions finds each form of a question, so that TestCopiesArePlannedOnce can
// fail.
func TestQuestions(t *testing.T) {
	for body, want := range map[string]string{
		"if r.kind() == deviceMemory {}":               "kind",
		"switch dst.kind() {}":                         "kind",
		"_ = r.a.kind":                                 "kind",
		"if k.onHost() {}":                             "kind",
		"x := pageableMemory; _ = x":                   "kind",
		"if p.path == pathRing {}":                     "path",
		"if x.plan.path != y {}":                       "path",
		"switch p.path {}":                             "path",
		"switch z { case pathCPU: }":                   "path",
		"switch { case p.path > 1: }":                  "path",
		"q := p.path; _ = q":                           "path",
		"if p.op == r.a.size && p.long { p.hold = 1 }": "",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f() {"+body+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for what := range questions(f.Decls[0].(*ast.FuncDecl).Body, true) {
			got, _, _ = strings.Cut(what, ":")
			break
		}
		if got != want {
			t.Errorf("%s: a question about %q, want %q", body, got, want)
		}
	}
}

// sources returns the files of the package that are no tests.
func sources(t *testing.T) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".go") && !strings.HasSuffix(n, "_test.go") {
			all = append(all, n)
		}
	}
	return all
}

// copiesMemory reports whether a file has code of copies. Other files, such as those of
// buffers, may ask for the kind of an allocation.
func copiesMemory(file string) bool {
	return strings.HasPrefix(file, "copy") || slices.Contains([]string{"pageable.go", "rect.go", "kernelcopy.go"}, file)
}

// functionName returns the name of a function, or type and name of a method.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	return fmt.Sprintf("%v.%s", t, f.Name.Name)
}

// questions yields what a function asks about kinds of memory and paths, with the topic
// before a colon. In code of copies it also finds kinds of allocations.
func questions(body ast.Node, copies bool) func(yield func(string) bool) {
	kinds := []string{"pageableMemory", "deviceMemory", "hostMemory", "registeredMemory", "managedMemory"}
	paths := []string{"pathNone", "pathCPU", "pathRing", "pathDriver"}
	return func(yield func(string) bool) {
		more := true
		say := func(topic, what string) {
			more = more && yield(topic+": "+what)
		}
		ast.Inspect(body, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if s, ok := x.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "kind" {
					say("kind", "a call of kind()")
				}
			case *ast.SelectorExpr:
				if x.Sel.Name == "path" {
					say("path", "a use of the path")
				} else if copies && (x.Sel.Name == "kind" || x.Sel.Name == "onHost") {
					say("kind", "a use of "+x.Sel.Name)
				}
			case *ast.Ident:
				if slices.Contains(paths, x.Name) {
					say("path", x.Name)
				} else if copies && slices.Contains(kinds, x.Name) {
					say("kind", x.Name)
				}
			}
			return more
		})
	}
}
