package bind

import (
	"fmt"
	"slices"
	"strings"
)

// gotype is a Go type with the size and alignment that Go gives to it.
type gotype struct {
	text        string // empty if there is none; why has the reason
	size, align int
	why         string
}

// goStruct is a Go structure that has the layout of one in C.
type goStruct struct {
	name   string // in Go
	c      string // in C
	size   int
	align  int
	fields []goField
}

// goField is a field of a goStruct. Its name is "_" for bytes that C does not use.
type goField struct {
	name, typ string
	c         string // the name in C, empty for bytes that C does not use
	ctype     *ctype
	offset    int
	note      string
}

// goTypes finds Go types for C types.
type goTypes struct {
	src     *source
	layouts map[string]*layout
	memory  map[string]bool // for each structure of C, whether kernels may write it: see see
	structs []*goStruct
	named   map[string]gotype
	taken   map[string]bool // names in the Go package
}

func unknownType(why string, args ...any) gotype { return gotype{why: fmt.Sprintf(why, args...)} }

// bytesType returns the type of n bytes without meaning.
func bytesType(n int) gotype { return gotype{text: fmt.Sprintf("[%d]byte", n), size: n, align: 1} }

// see notes which structures a parameter has, and which of them stand in memory that a kernel
// may write: those behind a pointer. memory says whether t stands there.
func (g *goTypes) see(t *ctype, memory bool) {
	for ; t.elem != nil; t = t.elem {
		memory = memory || t.kind != array
	}
	before, seen := g.memory[t.name]
	if t.kind != named || seen && (before || !memory) {
		return
	}
	g.memory[t.name] = memory
	if l := g.layouts[t.name]; l != nil {
		for _, f := range l.fields {
			g.see(f.typ, memory)
		}
	}
}

// of returns the Go type for a C type. In memory that a kernel may write, a bool of C is a
// uint8: a Go bool must be 0 or 1.
func (g *goTypes) of(t *ctype, memory bool) gotype {
	number := func(prefix string) gotype {
		return gotype{text: fmt.Sprintf("%s%d", prefix, 8*t.size), size: t.size, align: t.size}
	}
	switch t.kind {
	case boolean:
		if memory {
			return gotype{text: "uint8", size: 1, align: 1}
		}
		return gotype{text: "bool", size: 1, align: 1}
	case signed:
		return number("int")
	case unsigned, half:
		return number("uint")
	case float:
		return number("float")
	case pointer, reference:
		return gotype{text: "cu.DevicePtr", size: 8, align: 8}
	case array:
		e := g.of(t.elem, memory)
		if e.text == "" {
			return e
		}
		return gotype{text: fmt.Sprintf("[%d]%s", t.n, e.text), size: t.n * e.size, align: e.align}
	case named:
		return g.ofNamed(t.name)
	}
	if strings.Contains(t.name, "(*)") { // a pointer to a function
		return gotype{text: "cu.DevicePtr", size: 8, align: 8}
	}
	return unknownType("%s has no type in Go", t)
}

// ofNamed returns the Go type for a structure, union or enumeration.
func (g *goTypes) ofNamed(name string) gotype {
	if t, ok := g.named[name]; ok {
		return t
	}
	t := g.newNamed(name)
	g.named[name] = t
	return t
}

func (g *goTypes) newNamed(name string) gotype {
	l := g.layouts[name]
	if v, ok := vectors[name]; ok && g.src.records[name] == nil {
		e := g.of(scalar(v.elem), false)
		t := gotype{text: fmt.Sprintf("[%d]%s", v.n, e.text), size: v.n * e.size, align: e.align}
		if l == nil || l.size == 0 || l.size == t.size {
			return t
		}
	}
	switch {
	case l == nil:
		return unknownType("the layout of %s is not known without its source and a compiler", name)
	case l.enum != nil:
		return g.of(l.enum, g.memory[name])
	case l.size == 0:
		return unknownType("%s is only declared", name)
	case len(l.fields) == 0:
		return unknownType("%s: %s", name, l.why)
	}
	return g.newStruct(name, l)
}

// newStruct makes a Go structure with padding as fields, so that the layout holds on every
// system.
func (g *goTypes) newStruct(name string, l *layout) gotype {
	s := &goStruct{c: name, size: l.size, align: 1}
	at, taken := 0, map[string]bool{}
	for _, f := range l.fields {
		t, note := g.of(f.typ, g.memory[name]), ""
		switch {
		case t.text == "":
			t, note = bytesType(f.size), t.why
		case t.size != f.size:
			t, note = bytesType(f.size), "its size differs in Go"
		case f.offset%t.align != 0:
			t, note = bytesType(f.size), "it is not aligned"
		case t.text == "cu.DevicePtr":
			note = "a launch does not track this memory"
		case f.typ.kind == boolean && t.text != "bool":
			note = "0 is false"
		}
		s.pad(at, f.offset)
		s.align, at = max(s.align, t.align), f.offset+f.size
		s.fields = append(s.fields, goField{unique(taken, goName(f.name)), t.text, f.name, f.typ, f.offset, note})
	}
	if l.size%s.align != 0 {
		return unknownType("%s is packed", name)
	}
	s.pad(at, l.size)
	s.name = unique(g.taken, goName(name[1+lastScope(name):]), goName(name))
	g.structs = append(g.structs, s)
	return gotype{text: s.name, size: s.size, align: s.align}
}

// lastScope returns the index of the last colon of a qualified name, outside of template
// arguments, or -1.
func lastScope(name string) int {
	last, depth := -1, 0
	for i, c := range name {
		switch {
		case c == '<':
			depth++
		case c == '>':
			depth--
		case c == ':' && depth == 0:
			last = i
		}
	}
	return last
}

// pad adds the bytes between two offsets, if there are any.
func (s *goStruct) pad(from, to int) {
	if to > from {
		s.fields = append(s.fields, goField{name: "_", typ: bytesType(to - from).text, offset: from})
	}
}

// namedTypes returns the names of the types that kernels use.
func namedTypes(kernels []*kernel) []string {
	var names []string
	for _, k := range kernels {
		for _, p := range k.params {
			names = addNamed(names, nil, p.ctype)
		}
	}
	return slices.Clip(names)
}
