package checkpoint

import (
	"fmt"
	"math/bits"
	"reflect"
	"strings"
)

// DType is the type of the elements of a tensor. Elements of some types have fewer bits than a
// byte, or share a scale with their neighbours: they stand in blocks.
type DType uint8

// Types of both formats.
const (
	NoDType DType = iota // no type: in options, the type that the file has
	I8
	I16
	I32
	I64
	F16  // IEEE 754 binary16
	BF16 // the upper half of a float32
	F32
	F64
)

// Types of safetensors alone.
const (
	Bool DType = F64 + 1 + iota // a byte each, 0 or 1
	U8
	U16
	U32
	U64
	F4     // FP4 of OCP, two in a byte
	F6E2M3 // FP6 of OCP, four in 3 bytes
	F6E3M2
	F8E5M2
	F8E4M3 // without infinities
	F8E8M0 // a power of two, the scale of a block
	F8E4M3FNUZ
	F8E5M2FNUZ
	C64 // two float32
)

// Types of GGUF alone. They have the names that ggml gives them.
const (
	Q1_0 DType = C64 + 1 + iota
	Q2_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q8_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Q8_K
	IQ1_S
	IQ1_M
	IQ2_XXS
	IQ2_XS
	IQ2_S
	IQ3_XXS
	IQ3_S
	IQ4_NL
	IQ4_XS
	TQ1_0
	TQ2_0
	MXFP4
	NVFP4
	dtypes // how many
)

// about says what a type is: how many elements and bytes a block has, and the kind in Go of what a
// block is if that is a number.
type about struct {
	name            string
	elements, bytes int64
	kind            reflect.Kind
}

// aboutTypes has the types. The sizes of blocks are those of ggml at commit d99724f2 (ggml-common.h).
var aboutTypes = [dtypes]about{
	NoDType: {"no dtype", 1, 0, 0},
	I8:      {"I8", 1, 1, reflect.Int8},
	I16:     {"I16", 1, 2, reflect.Int16},
	I32:     {"I32", 1, 4, reflect.Int32},
	I64:     {"I64", 1, 8, reflect.Int64},
	F16:     {"F16", 1, 2, reflect.Uint16},
	BF16:    {"BF16", 1, 2, reflect.Uint16},
	F32:     {"F32", 1, 4, reflect.Float32},
	F64:     {"F64", 1, 8, reflect.Float64},

	Bool:       {"BOOL", 1, 1, reflect.Uint8},
	U8:         {"U8", 1, 1, reflect.Uint8},
	U16:        {"U16", 1, 2, reflect.Uint16},
	U32:        {"U32", 1, 4, reflect.Uint32},
	U64:        {"U64", 1, 8, reflect.Uint64},
	F4:         {"F4", 2, 1, reflect.Uint8},
	F6E2M3:     {"F6_E2M3", 4, 3, 0},
	F6E3M2:     {"F6_E3M2", 4, 3, 0},
	F8E5M2:     {"F8_E5M2", 1, 1, reflect.Uint8},
	F8E4M3:     {"F8_E4M3", 1, 1, reflect.Uint8},
	F8E8M0:     {"F8_E8M0", 1, 1, reflect.Uint8},
	F8E4M3FNUZ: {"F8_E4M3FNUZ", 1, 1, reflect.Uint8},
	F8E5M2FNUZ: {"F8_E5M2FNUZ", 1, 1, reflect.Uint8},
	C64:        {"C64", 1, 8, reflect.Complex64},

	Q1_0:    {"Q1_0", 128, 18, 0},
	Q2_0:    {"Q2_0", 64, 18, 0},
	Q4_0:    {"Q4_0", 32, 18, 0},
	Q4_1:    {"Q4_1", 32, 20, 0},
	Q5_0:    {"Q5_0", 32, 22, 0},
	Q5_1:    {"Q5_1", 32, 24, 0},
	Q8_0:    {"Q8_0", 32, 34, 0},
	Q8_1:    {"Q8_1", 32, 36, 0},
	Q2_K:    {"Q2_K", 256, 84, 0},
	Q3_K:    {"Q3_K", 256, 110, 0},
	Q4_K:    {"Q4_K", 256, 144, 0},
	Q5_K:    {"Q5_K", 256, 176, 0},
	Q6_K:    {"Q6_K", 256, 210, 0},
	Q8_K:    {"Q8_K", 256, 292, 0},
	IQ1_S:   {"IQ1_S", 256, 50, 0},
	IQ1_M:   {"IQ1_M", 256, 56, 0},
	IQ2_XXS: {"IQ2_XXS", 256, 66, 0},
	IQ2_XS:  {"IQ2_XS", 256, 74, 0},
	IQ2_S:   {"IQ2_S", 256, 82, 0},
	IQ3_XXS: {"IQ3_XXS", 256, 98, 0},
	IQ3_S:   {"IQ3_S", 256, 110, 0},
	IQ4_NL:  {"IQ4_NL", 32, 18, 0},
	IQ4_XS:  {"IQ4_XS", 256, 136, 0},
	TQ1_0:   {"TQ1_0", 256, 54, 0},
	TQ2_0:   {"TQ2_0", 256, 66, 0},
	MXFP4:   {"MXFP4", 32, 17, 0},
	NVFP4:   {"NVFP4", 64, 36, 0},
}

// safetensorsTypes are the types that safetensors has, by name.
var safetensorsTypes = typesByName(I8, F64, Bool, C64)

// typesByName returns the types of two ranges by name.
func typesByName(from, to, from2, to2 DType) map[string]DType {
	all := map[string]DType{}
	for d := NoDType + 1; d < dtypes; d++ {
		if d >= from && d <= to || d >= from2 && d <= to2 {
			all[d.String()] = d
		}
	}
	return all
}

// ParseDType returns the type of a name, such as "BF16" or "Q4_K". Case does not count.
func ParseDType(name string) (DType, error) {
	for d := NoDType + 1; d < dtypes; d++ {
		if strings.EqualFold(d.String(), name) {
			return d, nil
		}
	}
	return NoDType, unknownType(name, typesByName(NoDType+1, dtypes-1, 0, 0))
}

// String returns the name that the formats give the type: "BF16", "F8_E4M3", "Q4_K".
func (d DType) String() string {
	if d < dtypes {
		return aboutTypes[d].name
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}

// Block returns how many elements and how many bytes a block has. A type whose elements are whole
// bytes has blocks of one element.
func (d DType) Block() (elements, bytes int64) {
	if d >= dtypes {
		d = NoDType
	}
	return aboutTypes[d].elements, aboutTypes[d].bytes
}

// size returns the bytes of a tensor. Without ok they are too many to count, or no whole number of
// blocks.
func (d DType) size(elements int64) (bytes int64, ok bool) {
	per, each := d.Block()
	return multiply(elements/per, each, elements%per == 0)
}

// multiply returns the product of two numbers that are not negative, and whether ok is true and
// the product an int64.
func multiply(a, b int64, ok bool) (int64, bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return int64(low), ok && high == 0 && int64(low) >= 0
}

// count returns the product of the dimensions, and whether it is an int64.
func count(shape []int64) (n int64, ok bool) {
	n, ok = 1, true
	for _, d := range shape {
		n, ok = multiply(n, d, ok)
	}
	return n, ok
}

// fits returns an error unless elements of a Go type can be elements of a tensor. Bytes always
// can. A block that is no number can be an array of its bytes.
func (d DType) fits(t reflect.Type) error {
	a := aboutTypes[d]
	scalar := t
	for scalar.Kind() == reflect.Array {
		scalar = scalar.Elem()
	}
	bytes := t.Kind() == reflect.Uint8 || a.kind == 0 && scalar.Kind() == reflect.Uint8 && int64(t.Size()) == a.bytes
	if bytes || a.kind != 0 && scalar.Kind() == a.kind {
		return nil
	}
	want := "elements of kind " + a.kind.String()
	if a.kind == 0 {
		want = fmt.Sprintf("[%d]byte, a block of %d elements", a.bytes, a.elements)
	}
	return fmt.Errorf("elements of type %v cannot be %v: that is %s, or byte", t, d, want)
}
