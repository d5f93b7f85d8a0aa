package bind

import (
	"strconv"
	"strings"
)

// symbol is what a mangled name tells about a kernel.
type symbol struct {
	path    string   // the qualified name without template arguments: "ns::scale"
	args    string   // the template arguments as C++ writes them: "<float, 4>"
	mangled bool     // path is qualified
	typed   bool     // params are known
	params  []*ctype //
}

// maxName is the length of a name that is read. The types of one with 200 parameters are
// shorter.
const maxName = 1 << 16

// readSymbol reads the name of an entry. A name that is not mangled has no parameters.
func readSymbol(name string) symbol {
	n, f := parseFunction(name)
	if n == nil {
		return symbol{path: name}
	}
	s := symbol{mangled: true, path: strings.ReplaceAll(n.text, "(anonymous namespace)::", "")} // which a source cannot write
	if n.tmpl {
		var b strings.Builder
		n.writeArgs(&b)
		s.args = b.String()
	}
	if f != nil {
		s.typed, s.params = true, readParams(f)
	}
	return s
}

// readParams returns the types of a function's parameters.
func readParams(f *node) []*ctype {
	var params []*ctype
	for _, a := range f.args {
		params = append(params, readType(a))
	}
	return params
}

// readType converts a type. A type that it does not know is unknown, with its text.
func readType(n *node) *ctype {
	switch n.kind {
	case nodeName:
		if s := scalar(n.text); s != nil && !n.tmpl {
			return s
		}
		return readNamed(n.String())
	case nodePointer, nodeReference:
		if n.elem.kind == nodeFunction {
			return &ctype{kind: unknown, name: n.String(), size: 8}
		}
		return &ctype{kind: map[bool]kind{true: pointer, false: reference}[n.kind == nodePointer], elem: readType(n.elem), size: 8}
	case nodeQualified:
		if strings.HasPrefix(n.text, "const") {
			return readType(n.elem).makeConst()
		}
		return readType(n.elem)
	case nodeArray:
		e := readType(n.elem)
		return &ctype{kind: array, elem: e, n: n.n, size: n.n * e.size}
	}
	return &ctype{kind: unknown, name: n.String()}
}

// readNamed returns the type of a qualified name.
func readNamed(name string) *ctype {
	switch name {
	case "__half", "__nv_bfloat16":
		return &ctype{kind: half, name: name, size: 2}
	case "long double", "__float128", "...", "decltype(nullptr)":
		return &ctype{kind: unknown, name: name}
	}
	if strings.ContainsAny(name, "'?{") || strings.Contains(name, "(anonymous") || len(name) > maxText { // without a name that a source can write
		return &ctype{kind: unknown, name: name}
	}
	return &ctype{kind: named, name: name}
}

// tag is the content of a parameter of a probe: a type and numbers.
type tag struct {
	typ     *node
	numbers []int
}

// readTags reads the name of a probe kernel: its number and the tags of its parameters.
func readTags(name string) (index int, tags []tag, ok bool) {
	n, f := parseFunction(name)
	if n == nil || f == nil {
		return 0, nil, false
	}
	digits, found := strings.CutPrefix(n.text, probeName)
	index, err := strconv.Atoi(digits)
	if !found || err != nil {
		return 0, nil, false
	}
	for _, arg := range f.args {
		if !arg.tmpl || len(arg.args) == 0 {
			return 0, nil, false
		}
		one := tag{typ: arg.args[0]}
		for _, a := range arg.args[1:] {
			for _, v := range flatten(a) {
				one.numbers = append(one.numbers, readNumber(v))
			}
		}
		tags = append(tags, one)
	}
	return index, tags, true
}

// readNumber reads a constant that is not negative.
func readNumber(n *node) int {
	v, err := strconv.Atoi(n.text)
	if err != nil || v < 0 {
		return 0
	}
	return v
}
