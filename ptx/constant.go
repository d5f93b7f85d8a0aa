package ptx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// value is the value of a constant: a 64-bit integer, or the bits of a float.
type value struct {
	bits     uint64
	unsigned bool
	width    int // 32 for a float 0f, 64 for other floats, 0 for an integer
}

func integer(n int64) value { return value{bits: uint64(n)} }

func truth(b bool) value {
	if b {
		return integer(1)
	}
	return integer(0)
}

func double(f float64) value { return value{bits: math.Float64bits(f), width: 64} }

// float returns the value as a float64, also for an integer.
func (v value) float() float64 {
	switch {
	case v.width == 32:
		return float64(math.Float32frombits(uint32(v.bits)))
	case v.width == 64:
		return math.Float64frombits(v.bits)
	case v.unsigned:
		return float64(v.bits)
	}
	return float64(int64(v.bits))
}

// isTrue reports whether the value counts as true, as in C.
func (v value) isTrue() bool {
	if v.width != 0 {
		return v.float() != 0
	}
	return v.bits != 0
}

// operand returns the value as an operand of an instruction.
func (v value) operand() Operand {
	if v.width != 0 {
		return Float{Bits: v.bits, Width: v.width}
	}
	return Imm{Value: v.bits}
}

// number parses a number token. If it is malformed, problem says why.
func number(text string) (v value, problem string) {
	if len(text) > 1 && text[0] == '0' {
		switch text[1] {
		case 'f', 'F':
			return floatBits(text, 32)
		case 'd', 'D':
			return floatBits(text, 64)
		case 'x', 'X':
			return integerOf(text, text[2:], 16)
		case 'b', 'B':
			return integerOf(text, text[2:], 2)
		}
	}
	if strings.ContainsAny(text, ".eE") {
		return decimalFloat(text)
	}
	if len(text) > 1 && text[0] == '0' && text[1] != 'U' && text[1] != 'u' {
		return integerOf(text, text[1:], 8)
	}
	return integerOf(text, text, 10)
}

func floatBits(text string, width int) (v value, problem string) {
	digits := text[2:]
	if len(digits) != width/4 {
		return v, fmt.Sprintf("%s: a %d-bit float has %d hexadecimal digits, not %d", text, width, width/4, len(digits))
	}
	bits, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || strings.Contains(digits, "_") {
		return v, fmt.Sprintf("%s: not a hexadecimal number", text)
	}
	return value{bits: bits, width: width}, ""
}

func decimalFloat(text string) (v value, problem string) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && math.IsInf(f, 0) {
		return v, text + ": too large for a 64-bit float"
	}
	if err != nil || strings.ContainsAny(text, "_xXpPnN") {
		return v, text + ": malformed number"
	}
	return double(f), ""
}

var baseNames = map[int]string{2: "a binary", 8: "an octal", 10: "a decimal", 16: "a hexadecimal"}

func integerOf(text, digits string, base int) (v value, problem string) {
	trimmed := strings.TrimRight(digits, "Uu")
	if len(digits)-len(trimmed) > 1 || strings.Contains(trimmed, "_") {
		return v, text + ": malformed number"
	}
	bits, err := strconv.ParseUint(trimmed, base, 64)
	if err != nil {
		if ne, ok := err.(*strconv.NumError); ok && ne.Err == strconv.ErrRange {
			return v, text + ": does not fit 64 bits"
		}
		return v, text + ": not " + baseNames[base] + " number"
	}
	return value{bits: bits, unsigned: len(trimmed) != len(digits) || bits > math.MaxInt64}, ""
}

// unary applies -, +, ! or ~; ok is false if floats do not have the operation.
func unary(op kind, v value) (_ value, ok bool) {
	switch op {
	case '-':
		if v.width != 0 {
			v.bits ^= 1 << (v.width - 1)
			return v, true
		}
		v.bits = -v.bits
	case '!':
		return truth(!v.isTrue()), true
	case '~':
		if v.width != 0 {
			return v, false
		}
		v.bits = ^v.bits
	}
	return v, true
}

// binary applies an operator to two constants. If that is not possible, problem says
// why.
func binary(op kind, a, b value) (v value, problem string) {
	switch op {
	case tokAnd:
		return truth(a.isTrue() && b.isTrue()), ""
	case tokOr:
		return truth(a.isTrue() || b.isTrue()), ""
	}
	if a.width != 0 || b.width != 0 {
		return binaryFloat(op, a.float(), b.float())
	}
	switch op {
	case tokShl, tokShr:
		return shift(op, a, b.bits), ""
	case '<', '>', tokLE, tokGE, tokEQ, tokNE:
		return compareIntegers(op, a, b), ""
	}
	return arithmetic(op, a, b)
}

func binaryFloat(op kind, a, b float64) (v value, problem string) {
	switch op {
	case '+':
		return double(a + b), ""
	case '-':
		return double(a - b), ""
	case '*':
		return double(a * b), ""
	case '/':
		return double(a / b), ""
	case '<':
		return truth(a < b), ""
	case '>':
		return truth(a > b), ""
	case tokLE:
		return truth(a <= b), ""
	case tokGE:
		return truth(a >= b), ""
	case tokEQ:
		return truth(a == b), ""
	case tokNE:
		return truth(a != b), ""
	}
	return v, "this operator takes integers, not floats"
}

func shift(op kind, a value, count uint64) value {
	switch {
	case op == tokShl:
		a.bits <<= count
	case a.unsigned:
		a.bits >>= count
	default:
		a.bits = uint64(int64(a.bits) >> count)
	}
	return a
}

func compareIntegers(op kind, a, b value) value {
	less := int64(a.bits) < int64(b.bits)
	if a.unsigned || b.unsigned {
		less = a.bits < b.bits
	}
	equal := a.bits == b.bits
	switch op {
	case '<':
		return truth(less)
	case '>':
		return truth(!less && !equal)
	case tokLE:
		return truth(less || equal)
	case tokGE:
		return truth(!less)
	case tokEQ:
		return truth(equal)
	}
	return truth(!equal)
}

func arithmetic(op kind, a, b value) (v value, problem string) {
	v.unsigned = a.unsigned || b.unsigned
	switch op {
	case '+':
		v.bits = a.bits + b.bits
	case '-':
		v.bits = a.bits - b.bits
	case '*':
		v.bits = a.bits * b.bits
	case '&':
		v.bits = a.bits & b.bits
	case '|':
		v.bits = a.bits | b.bits
	case '^':
		v.bits = a.bits ^ b.bits
	default:
		return divide(op, a, b, v.unsigned)
	}
	return v, ""
}

func divide(op kind, a, b value, unsigned bool) (v value, problem string) {
	v.unsigned = unsigned
	switch {
	case b.bits == 0:
		return v, "division by zero in a constant expression"
	case op == '/' && unsigned:
		v.bits = a.bits / b.bits
	case op == '/':
		v.bits = uint64(int64(a.bits) / int64(b.bits))
	case unsigned:
		v.bits = a.bits % b.bits
	default:
		v.bits = uint64(int64(a.bits) % int64(b.bits))
	}
	return v, ""
}

// text returns the value for messages.
func (v value) text() string {
	switch {
	case v.width != 0:
		return strconv.FormatFloat(v.float(), 'g', -1, 64)
	case v.unsigned:
		return strconv.FormatUint(v.bits, 10)
	}
	return strconv.FormatInt(int64(v.bits), 10)
}

func itoa(n int) string { return strconv.Itoa(n) }
