package bind

import (
	"strconv"
	"strings"
)

// kind is a kind of C++ types.
type kind uint8

const (
	unknown   kind = iota // a type that has no Go type here, such as a pointer to a function
	void                  //
	boolean               //
	signed                // an integer
	unsigned              // an integer without sign
	float                 // float or double
	half                  // 16 bits of a float: __half, __nv_bfloat16
	named                 // a structure, union or enumeration
	pointer               //
	array                 //
	reference             //
)

// ctype is a C++ type.
type ctype struct {
	kind     kind
	name     string // as C writes it, for types without an element
	size     int    // in bytes; 0 if not known
	constant bool
	elem     *ctype // of pointers, references and arrays
	n        int    // elements of an array
}

// scalars are the types with a name of their own. Their sizes are those of 64-bit Linux,
// and the sizes of parameters are compared with the PTX.
var scalars = map[string]ctype{
	"void": {kind: void}, "bool": {kind: boolean, size: 1},
	"char": {kind: signed, size: 1}, "signed char": {kind: signed, size: 1}, "unsigned char": {kind: unsigned, size: 1}, "char8_t": {kind: unsigned, size: 1},
	"short": {kind: signed, size: 2}, "unsigned short": {kind: unsigned, size: 2}, "char16_t": {kind: unsigned, size: 2},
	"int": {kind: signed, size: 4}, "unsigned int": {kind: unsigned, size: 4}, "wchar_t": {kind: signed, size: 4}, "char32_t": {kind: unsigned, size: 4},
	"long": {kind: signed, size: 8}, "unsigned long": {kind: unsigned, size: 8},
	"long long": {kind: signed, size: 8}, "unsigned long long": {kind: unsigned, size: 8},
	"__int128": {kind: unknown, size: 16}, "unsigned __int128": {kind: unknown, size: 16},
	"float": {kind: float, size: 4}, "double": {kind: float, size: 8},
	"half": {kind: half, size: 2}, "__fp16": {kind: half, size: 2}, "_Float16": {kind: half, size: 2}, "__bf16": {kind: half, size: 2},
}

// scalar returns the type of that name.
func scalar(name string) *ctype {
	t, ok := scalars[name]
	if !ok {
		return nil
	}
	t.name = name
	return &t
}

// vectors are the types of CUDA's headers that are structures of equal numbers: the number
// of elements, and their type.
var vectors = vectorTypes()

type vector struct {
	n    int
	elem string
}

func vectorTypes() map[string]vector {
	all := map[string]vector{"dim3": {3, "unsigned int"}, "__half2": {2, "half"}, "__nv_bfloat162": {2, "__bf16"}}
	for short, elem := range map[string]string{"char": "signed char", "uchar": "unsigned char", "short": "short", "ushort": "unsigned short", "int": "int", "uint": "unsigned int",
		"long": "long", "ulong": "unsigned long", "longlong": "long long", "ulonglong": "unsigned long long", "float": "float", "double": "double"} {
		for n := 1; n <= 4; n++ {
			all[short+strconv.Itoa(n)] = vector{n, elem}
		}
	}
	return all
}

// String returns the type in C, as Ferry writes it: "const float *".
func (t *ctype) String() string { return t.declare("") }

// declare returns the declaration of a name, which may be empty: "const float *x".
func (t *ctype) declare(name string) string {
	switch t.kind {
	case pointer, reference:
		mark := "*"
		if t.kind == reference {
			mark = "&"
		}
		inner := mark + name
		if t.constant {
			inner = mark + "const"
			if name != "" {
				inner += " " + name
			}
		}
		if t.elem.kind == array {
			inner = "(" + inner + ")"
		}
		return t.elem.declare(inner)
	case array:
		extent := "[" + strconv.Itoa(t.n) + "]"
		if name == "" {
			extent = " " + extent
		}
		return t.elem.declare(name + extent)
	}
	text := t.name
	if t.constant {
		text = "const " + text
	}
	if t.kind == unknown && strings.Contains(text, "(*)") {
		return strings.Replace(text, "(*)", "(*"+name+")", 1)
	}
	if name == "" {
		return text
	}
	if name[0] == ' ' {
		return text + name
	}
	return text + " " + name
}

// makeConst returns the type with const. For an array it is that of the elements.
func (t *ctype) makeConst() *ctype {
	c := *t
	if t.kind == array {
		c.elem = t.elem.makeConst()
	} else {
		c.constant = true
	}
	return &c
}

// isConst reports whether values of the type cannot be changed.
func (t *ctype) isConst() bool {
	for t.kind == array {
		t = t.elem
	}
	return t.constant
}

// hasName reports whether a type consists of a named type, or points to one.
func (t *ctype) hasName() bool {
	for t.elem != nil {
		t = t.elem
	}
	return t.kind == named
}
