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

// method is one method of the interfaces of cu/driver.go with its cu: line.
type method struct {
	group   string // the interface, "Memory"
	name    string
	params  []field
	results []field // without the error
	hand    bool    // written by hand in libcuda
	symbol  string  // the C function
	export  string  // the name under which the library exports this form of it
	version int     // the CUDA version that introduced the form
	args    []argument
	handle  string // the parameter whose context the operation uses; "" for none
}

// field is a parameter or a result.
type field struct{ name, typ string }

// argument is an argument of the C function.
type argument struct {
	name string
	out  bool // written by C
}

// bound reports whether the first parameter is the context to be made current.
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

// parse reads the cu: lines of a file: first those of methods in the order of the
// source, then the cu:also lines.
func parse(path string, src []byte) ([]*method, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var methods, also []*method
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			it, ok := interfaceOf(spec)
			if !ok {
				continue
			}
			more, err := parseAlso(gen.Doc)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", files.Position(gen.Pos()), err)
			}
			also = append(also, more...)
			for _, f := range it.Methods.List {
				m, err := parseMethod(f)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", files.Position(f.Pos()), err)
				}
				if m != nil {
					m.group = spec.(*ast.TypeSpec).Name.Name
					methods = append(methods, m)
				}
			}
		}
	}
	return append(methods, also...), nil
}

func interfaceOf(spec ast.Spec) (*ast.InterfaceType, bool) {
	ts, ok := spec.(*ast.TypeSpec)
	if !ok {
		return nil, false
	}
	it, ok := ts.Type.(*ast.InterfaceType)
	return it, ok
}

// parseMethod returns nil for an embedded interface.
func parseMethod(f *ast.Field) (*method, error) {
	fn, ok := f.Type.(*ast.FuncType)
	if !ok {
		return nil, nil
	}
	m := &method{name: f.Names[0].Name}
	if err := m.parseSignature(fn); err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if err := m.parseDoc(f.Doc); err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if err := m.checkArgs(); err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if err := m.checkHandle(); err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return m, nil
}

func (m *method) parseSignature(fn *ast.FuncType) (err error) {
	if m.params, err = fields(fn.Params); err != nil {
		return err
	}
	results, err := fields(fn.Results)
	if err != nil {
		return err
	}
	last := len(results) - 1
	if last < 0 || results[last].typ != "error" {
		return fmt.Errorf("the last result is not an error")
	}
	m.results = results[:last]
	return nil
}

// parseDoc finds the one cu: line in the comment of a method.
func (m *method) parseDoc(doc *ast.CommentGroup) error {
	if doc == nil {
		return fmt.Errorf("no comment")
	}
	for _, c := range doc.List {
		if !strings.HasPrefix(c.Text, linePrefix) {
			continue
		}
		if m.symbol != "" {
			return fmt.Errorf("a second line %q", c.Text)
		}
		if err := m.parseLine(c.Text); err != nil {
			return err
		}
	}
	if m.symbol == "" {
		return fmt.Errorf("no line //cu:call or //cu:hand")
	}
	return nil
}

// parseAlso reads the cu:also lines in the comment of an interface.
func parseAlso(doc *ast.CommentGroup) ([]*method, error) {
	if doc == nil {
		return nil, nil
	}
	var all []*method
	for _, c := range doc.List {
		if !strings.HasPrefix(c.Text, linePrefix) {
			continue
		}
		part := alsoLine.FindStringSubmatch(c.Text)
		if part == nil {
			return nil, fmt.Errorf("malformed line %q", c.Text)
		}
		m := &method{hand: true}
		m.setForm(part[1], part[2])
		m.name = strings.TrimPrefix(m.symbol, "cu")
		all = append(all, m)
	}
	return all, nil
}

const (
	linePrefix = "//cu:"
	form       = ` (cu[A-Z]\w*) (\d{4,5})`
	context    = `(?: context=(\w+))?`
)

var (
	callLine = regexp.MustCompile(`^//cu:call` + form + ` \(([^()]*)\)` + context + `$`)
	handLine = regexp.MustCompile(`^//cu:hand` + form + context + `$`)
	alsoLine = regexp.MustCompile(`^//cu:also` + form + `$`)
	ending   = regexp.MustCompile(`_v\d$`)
)

// parseLine reads one line of a method.
func (m *method) parseLine(line string) error {
	if part := callLine.FindStringSubmatch(line); part != nil {
		m.setForm(part[1], part[2])
		m.args, m.handle = arguments(part[3]), part[4]
		return nil
	}
	if part := handLine.FindStringSubmatch(line); part != nil {
		m.setForm(part[1], part[2])
		m.hand, m.handle = true, part[3]
		return nil
	}
	return fmt.Errorf("malformed line %q", line)
}

// setForm sets which C function is called and in which form.
func (m *method) setForm(export, version string) {
	m.export, m.symbol = export, ending.ReplaceAllString(export, "")
	m.version, _ = strconv.Atoi(version) // the regular expression found digits
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
			return fmt.Errorf("argument %q is no parameter, or starred and no result, or listed twice", a.name)
		}
		delete(left, a)
	}
	for a := range left {
		return fmt.Errorf("%q is not among the arguments", a.name)
	}
	return nil
}

// maxHandleArgs is the number of arguments of named, besides the handle.
const maxHandleArgs = 4

// checkHandle demands that context= names a stream or an event of a bound call that
// is short enough for libcuda's call by handle.
func (m *method) checkHandle() error {
	if m.handle == "" {
		return nil
	}
	if !m.bound() || len(m.args) > maxHandleArgs {
		return fmt.Errorf("context=%s needs a first parameter ctx that is no argument, and %d arguments at most", m.handle, maxHandleArgs)
	}
	for _, p := range m.params {
		if p.name == m.handle && (p.typ == "Stream" || p.typ == "Event") {
			return nil
		}
	}
	return fmt.Errorf("context=%s names no parameter that is a stream or an event", m.handle)
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

// fields lists every parameter or result by name; the name of an unnamed one is "".
func fields(list *ast.FieldList) ([]field, error) {
	if list == nil {
		return nil, nil
	}
	var all []field
	for _, f := range list.List {
		typ, err := typeText(f.Type)
		if err != nil {
			return nil, err
		}
		if len(f.Names) == 0 {
			all = append(all, field{"", typ})
		}
		for _, n := range f.Names {
			all = append(all, field{n.Name, typ})
		}
	}
	return all, nil
}

// typeText returns the source text of a type, if the interfaces use such types.
func typeText(x ast.Expr) (string, error) {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name, nil
	case *ast.StarExpr:
		elem, err := typeText(x.X)
		return "*" + elem, err
	case *ast.ArrayType:
		elem, err := typeText(x.Elt)
		if n, ok := x.Len.(*ast.BasicLit); ok {
			return "[" + n.Value + "]" + elem, err
		}
		if x.Len == nil {
			return "[]" + elem, err
		}
	case *ast.FuncType:
		return "func()", nil
	}
	return "", fmt.Errorf("a type of kind %T, which typeText in internal/gen/parse.go does not know", x)
}
