package runner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parseValue parses one value of type t and returns its bits.
func parseValue(t Type, s string) (uint64, error) {
	bits, err := parseBits(t, s)
	switch {
	case err == nil:
		return bits, nil
	case s == "":
		return 0, errors.New("is empty")
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%q is out of range for %s (%s)", s, t, rangeOf(t))
	case t.class() == float && isHexPattern(s):
		return 0, fmt.Errorf("%q is not a number of type %s; a bit pattern is written b%d=%s", s, t, 8*t.Size(), s)
	case t.class() == float:
		return 0, fmt.Errorf("%q is not a number of type %s", s, t)
	}
	return 0, fmt.Errorf("%q is not an integer of type %s (decimal, 0x.., 0o.. or 0b..)", s, t)
}

func parseBits(t Type, s string) (uint64, error) {
	if strings.Contains(s, "_") {
		return 0, strconv.ErrSyntax
	}
	width := 8 * t.Size()
	switch t {
	case F16:
		h, err := halfLayout.parse(s)
		return uint64(h), err
	case BF16:
		h, err := brainLayout.parse(s)
		return uint64(h), err
	case F32:
		v, err := strconv.ParseFloat(s, 32)
		return uint64(math.Float32bits(float32(v))), err
	case F64:
		v, err := strconv.ParseFloat(s, 64)
		return math.Float64bits(v), err
	}
	base, digits := baseOf(s)
	if t.class() == signed {
		v, err := strconv.ParseInt(digits, base, width)
		return uint64(v) & mask(t), err
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), base, width)
	if err != nil && strings.HasPrefix(digits, "-") {
		if _, minus := strconv.ParseUint(digits[1:], base, 64); minus == nil || errors.Is(minus, strconv.ErrRange) {
			return 0, strconv.ErrRange
		}
	}
	return v, err
}

// baseOf returns the base that the prefix of s means, and the digits without the prefix.
// Numbers padded with zeros are decimal.
func baseOf(s string) (base int, digits string) {
	rest := strings.TrimLeft(s, "+-")
	sign := s[:len(s)-len(rest)]
	if len(sign) > 1 || len(rest) < 2 || rest[0] != '0' {
		return 10, s
	}
	switch rest[1] {
	case 'x', 'X':
		base = 16
	case 'o', 'O':
		base = 8
	case 'b', 'B':
		base = 2
	default:
		return 10, s
	}
	if strings.ContainsAny(rest[2:], "+-") {
		return 10, s
	}
	return base, sign + rest[2:]
}

func isHexPattern(s string) bool {
	_, err := strconv.ParseUint(s, 0, 64)
	return err == nil && len(s) > 1 && s[0] == '0'
}

func mask(t Type) uint64 { return math.MaxUint64 >> (64 - 8*t.Size()) }

func rangeOf(t Type) string {
	switch t.class() {
	case signed:
		high := int64(mask(t) >> 1)
		return fmt.Sprintf("%d to %d", -high-1, high)
	case float:
		largest := map[Type]string{F16: "65504", BF16: "3.3895314e+38", F32: "3.4028235e+38", F64: "1.7976931348623157e+308"}
		return "finite values reach " + largest[t] + "; inf and nan are accepted"
	}
	return fmt.Sprintf("0 to %d", mask(t))
}

// PutElement stores the bits of element i.
func PutElement(data []byte, t Type, i int, bits uint64) {
	switch t.Size() {
	case 1:
		data[i] = byte(bits)
	case 2:
		binary.LittleEndian.PutUint16(data[2*i:], uint16(bits))
	case 4:
		binary.LittleEndian.PutUint32(data[4*i:], uint32(bits))
	default:
		binary.LittleEndian.PutUint64(data[8*i:], bits)
	}
}

// Element returns the bits of element i.
func Element(data []byte, t Type, i int) uint64 {
	switch t.Size() {
	case 1:
		return uint64(data[i])
	case 2:
		return uint64(binary.LittleEndian.Uint16(data[2*i:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return binary.LittleEndian.Uint64(data[8*i:])
}

// Float returns the value of the bits of a float, exactly. It returns 0 for other types.
func (t Type) Float(bits uint64) float64 {
	switch t {
	case F16:
		return halfLayout.widen(uint16(bits))
	case BF16:
		return brainLayout.widen(uint16(bits))
	case F32:
		return float64(math.Float32frombits(uint32(bits)))
	case F64:
		return math.Float64frombits(bits)
	}
	return 0
}

// FromFloat returns the bits of v as a float of this type, rounded to nearest, ties to
// even. It returns 0 for other types.
func (t Type) FromFloat(v float64) uint64 {
	switch t {
	case F16:
		return uint64(halfLayout.narrow(v))
	case BF16:
		return uint64(brainLayout.narrow(v))
	case F32:
		return uint64(math.Float32bits(float32(v)))
	case F64:
		return math.Float64bits(v)
	}
	return 0
}
