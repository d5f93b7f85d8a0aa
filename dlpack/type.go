package dlpack

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/ferrygpu/ferry/internal/refusal"
)

// Type is the type of the elements of a tensor, as DLPack has it: a code in the lowest 8 bits, then
// 8 bits with the number of bits, then 16 with the number of lanes.
type Type uint32

// Codes of types, from dlpack.h.
const (
	codeInt     = 0
	codeUint    = 1
	codeFloat   = 2
	codeHandle  = 3
	codeBfloat  = 4
	codeComplex = 5
	codeBool    = 6
	codeFloat8  = 7 // the first with 8 bits or fewer
	codeFloat4  = 17
)

// Types that Go lacks. Elements of these types are unsigned integers of the same size, such as
// uint16 for Float16: they are the bits.
const (
	Bool              Type = codeBool | 8<<8 | 1<<16
	Float16           Type = codeFloat | 16<<8 | 1<<16
	BFloat16          Type = codeBfloat | 16<<8 | 1<<16
	Complex32         Type = codeComplex | 32<<8 | 1<<16
	Float8E3M4        Type = 7 | 8<<8 | 1<<16
	Float8E4M3        Type = 8 | 8<<8 | 1<<16
	Float8E4M3B11FNUZ Type = 9 | 8<<8 | 1<<16
	Float8E4M3FN      Type = 10 | 8<<8 | 1<<16
	Float8E4M3FNUZ    Type = 11 | 8<<8 | 1<<16
	Float8E5M2        Type = 12 | 8<<8 | 1<<16
	Float8E5M2FNUZ    Type = 13 | 8<<8 | 1<<16
	Float8E8M0FNU     Type = 14 | 8<<8 | 1<<16
)

// float8Names are the names of the codes from codeFloat8 on.
var float8Names = [...]string{"float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
	"float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"}

func makeType(code, width int) Type { return Type(code | width<<8 | 1<<16) }

func (t Type) code() int  { return int(t & 0xff) }
func (t Type) width() int { return int(t >> 8 & 0xff) }
func (t Type) lanes() int { return int(t >> 16) }

// String returns the name that libraries of Python give the type: "float32", "bfloat16". A vector
// of 4 is "float32x4".
func (t Type) String() string {
	name := ""
	switch code := t.code(); code {
	case codeInt:
		name = fmt.Sprintf("int%d", t.width())
	case codeUint:
		name = fmt.Sprintf("uint%d", t.width())
	case codeFloat:
		name = fmt.Sprintf("float%d", t.width())
	case codeHandle:
		name = "a handle"
	case codeBfloat:
		name = fmt.Sprintf("bfloat%d", t.width())
	case codeComplex:
		name = fmt.Sprintf("complex%d", t.width())
	case codeBool:
		if name = "bool"; t.width() != 8 {
			name = fmt.Sprintf("bool of %d bits", t.width())
		}
	default:
		if name = fmt.Sprintf("type code %d with %d bits", code, t.width()); code >= codeFloat8 && code <= codeFloat4 {
			name = float8Names[code-codeFloat8]
		}
	}
	if t.lanes() != 1 {
		name += fmt.Sprintf("x%d", t.lanes())
	}
	return name
}

// scalarType returns the type of numbers of a Go type; 0 for others.
func scalarType(t reflect.Type) Type {
	width := int(t.Size()) * 8
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return makeType(codeInt, width)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return makeType(codeUint, width)
	case reflect.Float32, reflect.Float64:
		return makeType(codeFloat, width)
	case reflect.Complex64, reflect.Complex128:
		return makeType(codeComplex, width)
	}
	return 0
}

// elementType returns the type of the numbers in elements of a Go type. inner is the shape of an
// element that is an array. as is the type that they have for the consumer, 0 for their own.
func elementType(t reflect.Type, as Type) (typ Type, inner []int64, err error) {
	number := t
	for number.Kind() == reflect.Array {
		inner = append(inner, int64(number.Len()))
		number = number.Elem()
	}
	switch typ = scalarType(number); {
	case typ == 0:
		return 0, nil, refusal.Invalid("elements of type %v are no numbers, nor arrays of numbers: make a View with elements that are", t)
	case as == 0:
		return typ, inner, nil
	case !slices.Contains(knownTypes, as):
		return 0, nil, refusal.Invalid("elements of type %v cannot be %v: Type is one of the constants of this package", t, as)
	case typ.code() != codeUint || as.width() != typ.width() || as.lanes() != 1:
		return 0, nil, refusal.Invalid("elements of type %v cannot be %v: that takes unsigned integers of its size: make a View", t, as)
	}
	return as, inner, nil
}

// accepts returns an error if elements of a Go type cannot be those of a tensor.
func (t Type) accepts(element reflect.Type) error {
	number, lanes := element, 1
	if element.Kind() == reflect.Array && t.lanes() > 1 {
		number, lanes = element.Elem(), element.Len()
	}
	own := scalarType(number)
	if own != 0 && slices.Contains(knownTypes, t.scalar()) && lanes == t.lanes() && (own.code() == t.code() || own.code() == codeUint && t.needsBits()) && own.width() == t.width() {
		return nil
	}
	return refusal.Invalid("its elements are %v, and %v was asked for: use %s", t, element, t.goType())
}

// scalar returns the type of one lane.
func (t Type) scalar() Type { return makeType(t.code(), t.width()) }

// needsBits reports whether Go lacks the type, so that unsigned integers stand for it.
func (t Type) needsBits() bool {
	switch t.code() {
	case codeFloat:
		return t.width() == 16
	case codeComplex:
		return t.width() == 32
	case codeBfloat, codeBool:
		return true
	}
	return t.code() >= codeFloat8
}

// goType names a Go type for elements.
func (t Type) goType() string {
	name := ""
	switch known := slices.Contains(knownTypes, t.scalar()); {
	case known && t.needsBits():
		name = fmt.Sprintf("uint%d", t.width())
	case known:
		name = t.scalar().String()
	}
	switch {
	case name == "" || t.lanes() == 0:
		return "another tensor: Go has no elements of this type"
	case t.lanes() > 1:
		return fmt.Sprintf("[%d]%s", t.lanes(), name)
	}
	return name
}

// parseType is the inverse of Type.String, for types without lanes.
func parseType(name string) (Type, error) {
	for _, t := range knownTypes {
		if t.String() == name {
			return t, nil
		}
	}
	return 0, refusal.Invalid("the type %.20q is not known", name)
}

// knownTypes are the types with bytes of their own, and without lanes.
var knownTypes = slices.Concat(
	[]Type{Bool, Float16, BFloat16, Complex32, Float8E3M4, Float8E4M3, Float8E4M3B11FNUZ, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0FNU},
	[]Type{makeType(codeInt, 8), makeType(codeInt, 16), makeType(codeInt, 32), makeType(codeInt, 64)},
	[]Type{makeType(codeUint, 8), makeType(codeUint, 16), makeType(codeUint, 32), makeType(codeUint, 64)},
	[]Type{makeType(codeFloat, 32), makeType(codeFloat, 64), makeType(codeComplex, 64), makeType(codeComplex, 128)})
