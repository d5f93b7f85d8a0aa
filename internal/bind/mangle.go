package bind

import (
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// symbol is what a mangled name tells about a kernel.
type symbol struct {
	path   string   // the qualified name without template arguments: "ns::scale"
	args   string   // the template arguments as C++ writes them: "<float, 4>"
	typed  bool     // params are known: the name is mangled
	params []*ctype //
}

// maxName is the length of a name that is demangled. The types of one with 200 parameters
// are shorter.
const maxName = 1 << 16

// readSymbol reads the name of an entry. A name that is not mangled has no parameters.
func readSymbol(name string) symbol {
	ast := parseName(name)
	typed, ok := ast.(*demangle.Typed)
	if !ok {
		return symbol{path: name}
	}
	f, ok := typed.Type.(*demangle.FunctionType)
	if !ok {
		return symbol{path: name}
	}
	s := symbol{typed: true, params: readParams(f)}
	s.path, s.args = readPath(typed.Name)
	s.path = strings.ReplaceAll(s.path, "(anonymous namespace)::", "") // which a source cannot write
	return s
}

// readParams returns the types of a function's parameters.
func readParams(f *demangle.FunctionType) []*ctype {
	var params []*ctype
	for _, arg := range f.Args {
		for _, a := range expand(arg) {
			params = append(params, readType(a))
		}
	}
	if len(params) == 1 && params[0].kind == void {
		return nil
	}
	return params
}

// parseName demangles a name of the Itanium C++ ABI. It returns nil for other names.
func parseName(name string) demangle.AST {
	if !strings.HasPrefix(name, "_Z") || len(name) > maxName {
		return nil
	}
	if i := strings.IndexByte(name, '.'); i > 0 { // a suffix of the compiler
		name = name[:i]
	}
	ast, err := demangle.ToAST(name)
	if err != nil {
		return nil
	}
	return ast
}

// readPath returns a qualified name, and the template arguments of its last part.
func readPath(ast demangle.AST) (path, args string) {
	t, ok := ast.(*demangle.Template)
	if !ok {
		return write(ast), ""
	}
	path = write(t.Name)
	return path, strings.TrimPrefix(write(t), path)
}

// write returns C++ text.
func write(ast demangle.AST) string {
	return demangle.ASTToString(ast, demangle.LLVMStyle, demangle.MaxLength(16))
}

// expand returns the elements of a pack of template arguments.
func expand(ast demangle.AST) []demangle.AST {
	ast = resolve(ast)
	switch t := ast.(type) {
	case *demangle.ArgumentPack:
		var out []demangle.AST
		for _, a := range t.Args {
			out = append(out, expand(a)...)
		}
		return out
	case *demangle.PackExpansion:
		if base, ok := t.Base.(*demangle.TemplateParam); ok {
			return expand(base)
		}
	}
	return []demangle.AST{ast}
}

// resolve replaces a parameter of a template by its argument.
func resolve(ast demangle.AST) demangle.AST {
	for range 16 {
		p, ok := ast.(*demangle.TemplateParam)
		if !ok || p.Template == nil || p.Index < 0 || p.Index >= len(p.Template.Args) {
			break
		}
		ast = p.Template.Args[p.Index]
	}
	return ast
}

// readType converts a type. A type that it does not know is unknown, with its text.
func readType(ast demangle.AST) *ctype {
	ast = resolve(ast)
	switch t := ast.(type) {
	case *demangle.BuiltinType:
		if t.Name == "std::bfloat16_t" {
			return scalar("__bf16")
		}
		if s := scalar(t.Name); s != nil {
			return s
		}
	case *demangle.BinaryFP:
		if t.Bits == 16 && t.Suffix == "b" {
			return scalar("__bf16")
		} else if t.Bits == 16 {
			return scalar("_Float16")
		}
	case *demangle.PointerType:
		return pointerTo(pointer, t.Base)
	case *demangle.ReferenceType:
		return pointerTo(reference, t.Base)
	case *demangle.RvalueReferenceType:
		return pointerTo(reference, t.Base)
	case *demangle.VendorQualifier:
		return readType(t.Type) // such as __restrict
	case *demangle.TypeWithQualifiers:
		inner := readType(t.Base)
		if strings.Contains(" "+write(t.Qualifiers)+" ", " const ") {
			inner = inner.makeConst()
		}
		return inner
	case *demangle.ArrayType:
		if n, err := strconv.Atoi(write(t.Dimension)); err == nil && n >= 0 && n < 1<<31 {
			elem := readType(t.Element)
			return &ctype{kind: array, elem: elem, n: n, size: n * elem.size}
		}
	case *demangle.Name, *demangle.Qualified, *demangle.Template:
		return readNamed(write(ast))
	}
	return &ctype{kind: unknown, name: write(ast)}
}

// pointerTo returns a pointer or a reference. One to a function is unknown.
func pointerTo(k kind, base demangle.AST) *ctype {
	if _, ok := resolve(base).(*demangle.FunctionType); ok {
		return &ctype{kind: unknown, name: write(&demangle.PointerType{Base: base}), size: 8}
	}
	return &ctype{kind: k, elem: readType(base), size: 8}
}

// readNamed returns the type of a qualified name.
func readNamed(name string) *ctype {
	switch name {
	case "__half", "__nv_bfloat16":
		return &ctype{kind: half, name: name, size: 2}
	}
	if strings.ContainsAny(name, "'?{") { // without a name that a source can write
		return &ctype{kind: unknown, name: name}
	}
	return &ctype{kind: named, name: name}
}

// tag is the content of a parameter of a probe: a type and numbers.
type tag struct {
	typ     demangle.AST
	numbers []int
}

// readTags reads the name of a probe kernel: its number and the tags of its parameters.
func readTags(name string) (index int, tags []tag, ok bool) {
	typed, isTyped := parseName(name).(*demangle.Typed)
	if !isTyped {
		return 0, nil, false
	}
	n, found := strings.CutPrefix(write(typed.Name), probeName)
	f, isFunction := typed.Type.(*demangle.FunctionType)
	index, err := strconv.Atoi(n)
	if !found || !isFunction || err != nil {
		return 0, nil, false
	}
	for _, arg := range f.Args {
		t, isTag := arg.(*demangle.Template)
		if !isTag || len(t.Args) == 0 {
			return 0, nil, false
		}
		one := tag{typ: t.Args[0]}
		for _, a := range t.Args[1:] {
			for _, v := range expand(a) {
				one.numbers = append(one.numbers, readNumber(v))
			}
		}
		tags = append(tags, one)
	}
	return index, tags, true
}

// readNumber reads a constant.
func readNumber(ast demangle.AST) int {
	if l, ok := ast.(*demangle.Literal); ok && !l.Neg {
		if n, err := strconv.Atoi(l.Val); err == nil {
			return n
		}
	}
	return 0
}
