package runner

import (
	"fmt"
	"strings"
)

// Type is the type of an argument's elements, with the names of PTX.
type Type uint8

// The types of arguments. B types are bit patterns. They are parsed as unsigned numbers,
// shown as unsigned numbers in JSON, and in hexadecimal in text.
const (
	U8 Type = iota
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	B8
	B16
	B32
	B64
	F16
	BF16
	F32
	F64
	typeCount
)

// class is the interpretation of a type's bits.
type class uint8

const (
	unsigned class = iota
	signed
	pattern
	float
)

var typeTable = [typeCount]struct {
	name  string
	bytes int
	class class
}{
	U8:   {"u8", 1, unsigned},
	U16:  {"u16", 2, unsigned},
	U32:  {"u32", 4, unsigned},
	U64:  {"u64", 8, unsigned},
	S8:   {"s8", 1, signed},
	S16:  {"s16", 2, signed},
	S32:  {"s32", 4, signed},
	S64:  {"s64", 8, signed},
	B8:   {"b8", 1, pattern},
	B16:  {"b16", 2, pattern},
	B32:  {"b32", 4, pattern},
	B64:  {"b64", 8, pattern},
	F16:  {"f16", 2, float},
	BF16: {"bf16", 2, float},
	F32:  {"f32", 4, float},
	F64:  {"f64", 8, float},
}

// String returns the name, such as "bf16".
func (t Type) String() string {
	if t < typeCount {
		return typeTable[t].name
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Size returns the size of one element in bytes.
func (t Type) Size() int { return typeTable[t].bytes }

func (t Type) class() class { return typeTable[t].class }

// IsFloat reports whether the type is a floating-point type.
func (t Type) IsFloat() bool { return t.class() == float }

// IsInteger reports whether the type is an integer, and not a bit pattern.
func (t Type) IsInteger() bool { return t.class() == unsigned || t.class() == signed }

// precision returns the number of bits of a float's significand.
func (t Type) precision() uint {
	return map[Type]uint{F16: 11, BF16: 8, F32: 24, F64: 53}[t]
}

// parseType returns the type with a name.
func parseType(name string) (Type, error) {
	for t := range typeCount {
		if typeTable[t].name == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%q is not a type (%s)", name, typeNames())
}

func typeNames() string {
	var names []string
	for t := range typeCount {
		names = append(names, typeTable[t].name)
	}
	return strings.Join(names, " ")
}
