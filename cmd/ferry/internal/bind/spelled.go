package bind

import (
	"slices"
	"strings"
)

// typedefs are types that most sources use and that are the same on 64-bit Linux.
var typedefs = map[string]string{
	"size_t": "unsigned long", "ptrdiff_t": "long", "intptr_t": "long", "uintptr_t": "unsigned long",
	"int8_t": "signed char", "int16_t": "short", "int32_t": "int", "int64_t": "long",
	"uint8_t": "unsigned char", "uint16_t": "unsigned short", "uint32_t": "unsigned int", "uint64_t": "unsigned long",
	"uint": "unsigned int", "ushort": "unsigned short", "uchar": "unsigned char", "ulong": "unsigned long",
}

// spelledTypes returns the types of parameters as they are written. It is used where no
// compiler tells them. A type that it does not understand is nil.
func spelledTypes(params []srcParam) []*ctype {
	var out []*ctype
	for _, p := range params {
		out = append(out, spelledType(p.typ))
	}
	return out
}

// spelledType reads a type such as "const float *__restrict__".
func spelledType(tokens []token) *ctype {
	base, i := []string(nil), 0
	constant := false
	for ; i < len(tokens) && (tokens[i].kind == word || tokens[i].is("::")); i++ {
		switch t := tokens[i].text; t {
		case "const":
			constant = true
		case "volatile", "struct", "enum", "union", "typename", "__grid_constant__":
		default:
			base = append(base, t)
		}
	}
	t := spelledBase(base)
	if t == nil {
		return nil
	}
	t.constant = constant
	for ; i < len(tokens); i++ {
		switch {
		case tokens[i].is("*"):
			t = &ctype{kind: pointer, elem: t, size: 8}
		case tokens[i].is("[") && matching(tokens, i) == len(tokens)-1: // an array is a pointer
			return &ctype{kind: pointer, elem: t, size: 8}
		case tokens[i].is("const"):
			t.constant = true
		case !slices.Contains([]string{"__restrict__", "__restrict", "restrict", "volatile"}, tokens[i].text):
			return nil
		}
	}
	t.constant = false // const of the parameter itself says nothing
	return t
}

// spelledBase returns the type of some words: "unsigned long long".
func spelledBase(words []string) *ctype {
	if len(words) == 0 {
		return nil
	}
	if len(words) == 1 && typedefs[words[0]] != "" {
		return scalar(typedefs[words[0]])
	}
	count := map[string]int{}
	for _, w := range words {
		count[w]++
	}
	if t := scalar(strings.Join(words, " ")); t != nil {
		return t
	}
	integer := count["int"] + count["long"] + count["short"] + count["char"] + count["signed"] + count["unsigned"]
	if integer != len(words) {
		return readNamed(strings.Join(words, ""))
	}
	name := map[bool]string{true: "unsigned "}[count["unsigned"] > 0]
	switch {
	case count["char"] > 0 && count["signed"] > 0:
		name = "signed char"
	case count["char"] > 0:
		name += "char"
	case count["short"] > 0:
		name += "short"
	case count["long"] > 1:
		name += "long long"
	case count["long"] > 0:
		name += "long"
	default:
		name += "int"
	}
	return scalar(name)
}
