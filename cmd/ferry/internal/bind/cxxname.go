package bind

import (
	"errors"
	"strconv"
	"strings"
)

// nodeKind is what a node of a mangled name is.
type nodeKind uint8

const (
	nodeName      nodeKind = iota // a built-in type, or a qualified name
	nodePointer                   // to elem
	nodeReference                 // to elem
	nodeQualified                 // elem with const or volatile, which text has
	nodeArray                     // n of elem
	nodeFunction                  // args to elem
	nodePack                      // args
	nodeValue                     // a constant, which text has
	nodeOther                     // a type that is not read further
)

// node is a part of a mangled name. Nodes are shared, because the names refer back to parts
// that they have already.
type node struct {
	kind nodeKind
	text string // of a name without template arguments, of qualifiers or of a value
	elem *node
	args []*node // of a template, function or pack
	tmpl bool    // a template: args are its arguments
	n    int
}

var errName = errors.New("not a name of the Itanium C++ ABI that is read here")

// nameParser reads a name of the Itanium C++ ABI, as far as kernels have such names. The
// rules are those of https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling.
type nameParser struct {
	s     string
	at    int
	subs  []*node // parts that the rest can refer to
	args  []*node // template arguments of the function
	depth int
}

// fail ends the reading: functions of the parser panic with errName, and parse recovers.
func (p *nameParser) fail() { panic(errName) }

// parseFunction reads "_Z" and a function. signature is nil if only the name can be read.
// The name is nil if nothing can.
func parseFunction(s string) (name, signature *node) {
	if !strings.HasPrefix(s, "_Z") || len(s) > maxName {
		return nil, nil
	}
	s, _, _ = strings.Cut(s, ".") // a suffix of the compiler
	p := &nameParser{s: s, at: 2}
	if !p.try(func() { name = p.name(true) }) || p.at == len(p.s) {
		return nil, nil
	}
	f := &node{kind: nodeFunction}
	ok := p.try(func() {
		if p.args = name.args; name.tmpl {
			f.elem = p.typ()
		}
		f.args = p.params("")
	})
	if !ok {
		return name, nil
	}
	return name, f
}

// try runs a part of the parser and reports whether it succeeds.
func (p *nameParser) try(read func()) (ok bool) {
	defer func() {
		if e := recover(); e != nil && e != errName {
			panic(e)
		}
	}()
	read()
	return true
}

// enter limits how deep names nest. The caller defers its result.
func (p *nameParser) enter() func() {
	if p.depth++; p.depth > 250 {
		p.fail()
	}
	return func() { p.depth-- }
}

// has reports whether the rest begins with a text, and goes on behind it.
func (p *nameParser) has(text string) bool {
	if !strings.HasPrefix(p.s[p.at:], text) {
		return false
	}
	p.at += len(text)
	return true
}

// peek returns the next byte, 0 at the end.
func (p *nameParser) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

func (p *nameParser) need(text string) {
	if !p.has(text) {
		p.fail()
	}
}

// add makes a part one that the rest can refer to.
func (p *nameParser) add(n *node) *node {
	p.subs = append(p.subs, n)
	return n
}

// number reads digits.
func (p *nameParser) number() int {
	from := p.at
	for digit(p.peek()) {
		p.at++
	}
	n, err := strconv.Atoi(p.s[from:p.at])
	if err != nil || n > 1<<30 {
		p.fail()
	}
	return n
}

// name reads a qualified name. A function's own name cannot be referred to.
func (p *nameParser) name(function bool) *node {
	defer p.enter()()
	if p.has("N") {
		for p.has("r") || p.has("V") || p.has("K") || p.has("R") || p.has("O") {
		}
		return p.nested(function)
	}
	var n *node
	if p.peek() == 'S' && !strings.HasPrefix(p.s[p.at:], "St") {
		n = p.substitution()
		if p.peek() != 'I' {
			return n
		}
	} else {
		prefix := ""
		if p.has("St") {
			prefix = "std::"
		}
		n = &node{text: prefix + p.unqualified()}
		if p.peek() == 'I' || !function {
			p.add(n)
		}
	}
	if p.peek() == 'I' {
		n = p.template(n)
		if !function {
			p.add(n)
		}
	}
	return n
}

// nested reads the parts of a nested name up to its E.
func (p *nameParser) nested(function bool) *node {
	var n *node
	for !p.has("E") {
		switch c := p.peek(); {
		case c == 'I' && n != nil:
			n = p.template(n)
		case c == 'S' && n == nil && p.has("St"):
			n = &node{text: "std::" + p.unqualified()}
		case c == 'S' && n == nil:
			n = p.substitution()
			continue
		case c == 'T' && n == nil:
			n = p.param()
		default:
			text := p.unqualified()
			if n != nil {
				text = n.String() + "::" + text
			}
			n = &node{text: text}
		}
		if !function || p.peek() != 'E' {
			p.add(n)
		}
	}
	if n == nil {
		p.fail()
	}
	return n
}

// unqualified reads one part of a name.
func (p *nameParser) unqualified() string {
	p.has("L") // internal linkage
	text := ""
	switch {
	case digit(p.peek()):
		text = p.source()
	case p.has("Ut"):
		if digit(p.peek()) {
			p.number()
		}
		p.need("_")
		text = "'unnamed'"
	default:
		p.fail()
	}
	for p.has("B") {
		p.source()
	}
	return text
}

// source reads a name with its length before it.
func (p *nameParser) source() string {
	n := p.number()
	if n == 0 || n > len(p.s)-p.at {
		p.fail()
	}
	text := p.s[p.at : p.at+n]
	p.at += n
	if strings.HasPrefix(text, "_GLOBAL__N") {
		return "(anonymous namespace)"
	}
	return text
}

// standard are the short forms of names of the standard library.
var standard = map[byte]string{'a': "std::allocator", 'b': "std::basic_string", 's': "std::string", 'i': "std::istream", 'o': "std::ostream", 'd': "std::iostream"}

// substitution reads a reference to an earlier part.
func (p *nameParser) substitution() *node {
	p.need("S")
	if text := standard[p.peek()]; text != "" {
		p.at++
		return &node{text: text}
	}
	from := p.at
	for p.peek() != '_' {
		if c := p.peek(); !digit(c) && (c < 'A' || c > 'Z') {
			p.fail()
		}
		p.at++
	}
	i := 0
	if text := p.s[from:p.at]; text != "" {
		n, err := strconv.ParseUint(text, 36, 30)
		if err != nil {
			p.fail()
		}
		i = int(n) + 1
	}
	p.at++
	if i >= len(p.subs) {
		p.fail()
	}
	return p.subs[i]
}

// param reads a reference to a template argument of the function.
func (p *nameParser) param() *node {
	p.need("T")
	i := 0
	if p.peek() != '_' {
		i = p.number() + 1
	}
	p.need("_")
	if i >= len(p.args) {
		p.fail()
	}
	return p.args[i]
}

// template reads the arguments of a template.
func (p *nameParser) template(of *node) *node {
	p.need("I")
	n := &node{kind: of.kind, text: of.text, tmpl: true}
	if of.kind != nodeName || of.tmpl {
		p.fail()
	}
	for !p.has("E") {
		n.args = append(n.args, p.argument())
	}
	return n
}

// argument reads a template argument: a type, a constant or a pack.
func (p *nameParser) argument() *node {
	defer p.enter()()
	switch {
	case p.has("J"):
		n := &node{kind: nodePack}
		for !p.has("E") {
			n.args = append(n.args, p.argument())
		}
		return n
	case p.has("L"):
		return p.literal()
	}
	return p.typ()
}

// literal reads a constant behind its L.
func (p *nameParser) literal() *node {
	if p.peek() == '_' { // the address of a function or variable
		p.fail()
	}
	t := p.typ()
	sign := ""
	if p.has("n") {
		sign = "-"
	}
	from := p.at
	p.number()
	v := &node{kind: nodeValue, text: sign + p.s[from:p.at]}
	p.need("E")
	switch text := t.String(); {
	case text == "bool":
		v.text = map[string]string{"0": "false"}[v.text]
		if v.text == "" {
			v.text = "true"
		}
	case text == "char" || scalar(text) == nil:
		v.text = "(" + text + ")" + v.text
	}
	return v
}
