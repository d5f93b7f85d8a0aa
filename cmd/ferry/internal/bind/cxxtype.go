package bind

import (
	"strconv"
	"strings"
)

// builtins are the types of one letter.
var builtins = map[byte]string{'v': "void", 'w': "wchar_t", 'b': "bool", 'c': "char", 'a': "signed char", 'h': "unsigned char", 's': "short", 't': "unsigned short",
	'i': "int", 'j': "unsigned int", 'l': "long", 'm': "unsigned long", 'x': "long long", 'y': "unsigned long long", 'n': "__int128", 'o': "unsigned __int128",
	'f': "float", 'd': "double", 'e': "long double", 'g': "__float128", 'z': "..."}

// extended are the types of several letters.
var extended = []struct{ code, name string }{{"Dh", "half"}, {"DF16_", "_Float16"}, {"DF16b", "__bf16"}, {"Di", "char32_t"}, {"Ds", "char16_t"}, {"Du", "char8_t"}, {"Dn", "decltype(nullptr)"}}

// typ reads a type.
func (p *nameParser) typ() *node {
	defer p.enter()()
	if text := builtins[p.peek()]; text != "" {
		p.at++
		return &node{text: text}
	}
	for _, x := range extended {
		if p.has(x.code) {
			return &node{text: x.name}
		}
	}
	switch c := p.peek(); c {
	case 'r', 'V', 'K':
		return p.add(p.qualified())
	case 'P':
		p.at++
		return p.add(&node{kind: nodePointer, elem: p.typ()})
	case 'R', 'O':
		p.at++
		return p.add(&node{kind: nodeReference, elem: p.typ()})
	case 'A':
		return p.add(p.array())
	case 'F':
		return p.add(p.function())
	case 'D':
		return p.special()
	case 'u', 'U':
		return p.vendor()
	case 'T':
		n := p.param()
		p.add(n)
		if p.peek() == 'I' { // a template as argument
			p.fail()
		}
		return n
	case 'S', 'N', 'Z', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.name(false)
	}
	p.fail()
	return nil
}

// qualified reads const, volatile and restrict before a type.
func (p *nameParser) qualified() *node {
	p.has("r")
	volatile, constant := p.has("V"), p.has("K")
	var words []string
	if constant {
		words = append(words, "const")
	}
	if volatile {
		words = append(words, "volatile")
	}
	return &node{kind: nodeQualified, text: strings.Join(words, " "), elem: p.typ()}
}

func (p *nameParser) array() *node {
	p.need("A")
	n := &node{kind: nodeArray}
	if p.peek() != '_' {
		n.n = p.number()
	}
	p.need("_")
	n.elem = p.typ()
	return n
}

func (p *nameParser) function() *node {
	p.need("F")
	p.has("Y") // extern "C"
	n := &node{kind: nodeFunction, elem: p.typ()}
	n.args = p.params("E")
	if !p.has("E") {
		p.fail()
	}
	return n
}

// params reads types up to an end.
func (p *nameParser) params(end string) []*node {
	var all []*node
	for p.at < len(p.s) && (end == "" || p.s[p.at] != end[0]) {
		all = append(all, flatten(p.typ())...)
	}
	if len(all) == 1 && all[0].kind == nodeName && all[0].text == "void" {
		return nil
	}
	return all
}

// flatten returns the elements of a pack.
func flatten(n *node) []*node {
	if n.kind != nodePack {
		return []*node{n}
	}
	var all []*node
	for _, a := range n.args {
		if len(all) > 1000 {
			break
		}
		all = append(all, flatten(a)...)
	}
	return all
}

// special reads types that begin with D.
func (p *nameParser) special() *node {
	switch {
	case p.has("Do"): // noexcept
		return p.typ()
	case p.has("Dp"):
		n := p.typ()
		if n.kind != nodePack { // a pattern over a pack
			n = &node{kind: nodeOther, text: "?"}
		}
		return p.add(n)
	case p.has("Dv"):
		p.number()
		p.need("_")
		return p.add(&node{kind: nodeOther, text: "?", elem: p.typ()})
	}
	p.fail()
	return nil
}

// vendor reads a type of a compiler.
func (p *nameParser) vendor() *node {
	if p.has("U") {
		p.source()
		n := p.typ()
		p.add(n)
		return n
	}
	p.need("u")
	return p.add(&node{text: p.source()})
}

// maxText is the length of the text of a node. Longer ones come from names that refer to
// themselves again and again.
const maxText = 1 << 14

// String returns the C++ text of a type, name or value.
func (n *node) String() string {
	var b strings.Builder
	n.write(&b, "")
	return b.String()
}

// write writes a declaration of a name, which may be empty.
func (n *node) write(b *strings.Builder, name string) {
	if b.Len() > maxText || len(name) > maxText {
		return
	}
	switch n.kind {
	case nodePointer, nodeReference:
		mark := map[bool]string{true: "*", false: "&"}[n.kind == nodePointer] + name
		if n.elem.kind == nodeArray || n.elem.kind == nodeFunction {
			mark = "(" + mark + ")"
		}
		n.elem.write(b, mark)
		return
	case nodeQualified:
		if n.elem.kind == nodePointer {
			n.elem.write(b, n.text+name)
			return
		}
		b.WriteString(strings.TrimSpace(n.text + " "))
		b.WriteByte(' ')
		n.elem.write(b, name)
		return
	case nodeArray:
		n.elem.write(b, name+"["+strconv.Itoa(n.n)+"]")
		return
	case nodeFunction:
		n.writeFunction(b, name)
		return
	case nodePack:
		writeList(b, n.args)
	default:
		b.WriteString(n.text)
		if n.tmpl {
			n.writeArgs(b)
		}
	}
	if name != "" {
		b.WriteString(" " + name)
	}
}

func (n *node) writeFunction(b *strings.Builder, name string) {
	var args strings.Builder
	writeList(&args, n.args)
	if n.elem == nil {
		b.WriteString(name + "(" + args.String() + ")")
		return
	}
	n.elem.write(b, name+"("+args.String()+")")
}

// writeArgs writes the arguments of a template.
func (n *node) writeArgs(b *strings.Builder) {
	b.WriteByte('<')
	writeList(b, n.args)
	b.WriteByte('>')
}

// writeList writes nodes with commas between them.
func writeList(b *strings.Builder, all []*node) {
	first := true
	for _, a := range all {
		for _, x := range flatten(a) {
			if !first {
				b.WriteString(", ")
			}
			first = false
			x.write(b, "")
		}
	}
}
