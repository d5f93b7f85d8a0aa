package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// method is one method of the interfaces of cu/driver.go and its cu: line.
type method struct {
	group   string // the interface, "Memory"
	name    string
	params  []field
	results []field // without the error
	hand    bool
	symbol  string
	version int
	args    []argument
}

// field is a parameter or a result.
type field struct{ name, typ string }

// argument is an argument of the C function.
type argument struct {
	name string
	out  bool // written by C
}

// bound reports whether the first parameter is the context to be bound.
func (m *method) bound() bool {
	if len(m.params) == 0 || m.params[0] != (field{"ctx", "Context"}) {
		return false
	}
	for _, a := range m.args {
		if a.name == "ctx" {
			return false
		}
	}
	return true
}

// parse reads the methods that have a cu: line, in the order of the source.
func parse(path string, src []byte) ([]*method, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []*method
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			it, ok := ts.Type.(*ast.InterfaceType)
			if !ok {
				continue
			}
			for _, f := range it.Methods.List {
				m, err := parseMethod(f)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", files.Position(f.Pos()), err)
				}
				if m != nil {
					m.group = ts.Name.Name
					all = append(all, m)
				}
			}
		}
	}
	return all, nil
}

// parseMethod is nil for an embedded interface.
func parseMethod(f *ast.Field) (*method, error) {
	fn, ok := f.Type.(*ast.FuncType)
	if !ok {
		return nil, nil
	}
	m := &method{name: f.Names[0].Name}
	if err := m.parseLine(f.Doc); err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	m.params = fields(fn.Params)
	m.results = fields(fn.Results)
	last := len(m.results) - 1
	if last < 0 || m.results[last].typ != "error" {
		return nil, fmt.Errorf("%s: the last result is not an error", m.name)
	}
	m.results = m.results[:last]
	if err := m.checkArgs(); err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return m, nil
}

var (
	callLine = regexp.MustCompile(`^//cu:call (cu[A-Z]\w*) (\d{4,5}) \(([^()]*)\)$`)
	handLine = regexp.MustCompile(`^//cu:hand (cu[A-Z]\w*) (\d{4,5})$`)
)

// parseLine finds the cu: line of a method's comment.
func (m *method) parseLine(doc *ast.CommentGroup) error {
	if doc == nil {
		return fmt.Errorf("no comment")
	}
	for _, c := range doc.List {
		if !strings.HasPrefix(c.Text, "//cu:") {
			continue
		}
		if m.symbol != "" {
			return fmt.Errorf("a second line %q", c.Text)
		}
		if part := callLine.FindStringSubmatch(c.Text); part != nil {
			m.symbol, m.version = part[1], number(part[2])
			m.args = arguments(part[3])
		} else if part := handLine.FindStringSubmatch(c.Text); part != nil {
			m.symbol, m.version, m.hand = part[1], number(part[2]), true
		} else {
			return fmt.Errorf("malformed line %q", c.Text)
		}
	}
	if m.symbol == "" {
		return fmt.Errorf("no line //cu:call or //cu:hand")
	}
	return nil
}

// checkArgs demands that a cu:call line uses each parameter and result once.
func (m *method) checkArgs() error {
	if m.hand {
		return nil
	}
	left := make(map[argument]bool)
	for i, p := range m.params {
		if i > 0 || !m.bound() {
			left[argument{p.name, false}] = true
		}
	}
	for _, r := range m.results {
		left[argument{r.name, true}] = true
	}
	for _, a := range m.args {
		if !left[a] {
			return fmt.Errorf("argument %q is no parameter, or starred and no result, or there twice", a.name)
		}
		delete(left, a)
	}
	for a := range left {
		return fmt.Errorf("%q is not among the arguments", a.name)
	}
	return nil
}

// number converts digits that a regular expression found.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

func arguments(list string) []argument {
	var args []argument
	for a := range strings.SplitSeq(list, ",") {
		if a = strings.TrimSpace(a); a != "" {
			name, out := strings.CutPrefix(a, "*")
			args = append(args, argument{name, out})
		}
	}
	return args
}

// fields names every parameter or result of a list; unnamed ones are "".
func fields(list *ast.FieldList) []field {
	if list == nil {
		return nil
	}
	var all []field
	for _, f := range list.List {
		typ := typeText(f.Type)
		if len(f.Names) == 0 {
			all = append(all, field{"", typ})
		}
		for _, n := range f.Names {
			all = append(all, field{n.Name, typ})
		}
	}
	return all
}

// typeText is the source of the types that the interfaces use.
func typeText(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return "*" + typeText(x.X)
	case *ast.ArrayType:
		return "[]" + typeText(x.Elt)
	case *ast.FuncType:
		return "func()"
	}
	return fmt.Sprintf("%T", x)
}
