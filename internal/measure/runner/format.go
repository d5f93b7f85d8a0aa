package runner

import (
	"math"
	"strconv"
)

// appendJSON writes a value as JSON: numbers as numbers, NaN and the infinities
// as the strings "NaN", "Inf" and "-Inf".
func appendJSON(dst []byte, t Type, bits uint64) []byte {
	if word := nonFinite(t, bits); word != "" {
		return append(append(append(dst, '"'), word...), '"')
	}
	return appendNumber(dst, t, bits)
}

// appendText writes a value for the text output. Bit patterns are hexadecimal.
func appendText(dst []byte, t Type, bits uint64) []byte {
	if t.class() == pattern {
		return appendBits(dst, t, bits)
	}
	if word := nonFinite(t, bits); word != "" {
		return append(dst, word...)
	}
	return appendNumber(dst, t, bits)
}

// appendBits writes the bit pattern with all its digits, as in 0x3c00.
func appendBits(dst []byte, t Type, bits uint64) []byte {
	dst = append(dst, '0', 'x')
	for shift := 8*t.Size() - 4; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[bits>>shift&15])
	}
	return dst
}

// appendNumber writes a finite value with enough digits to parse it to the same bits.
// The 16-bit formats get the digits of the f32 with the same value, so that the text is
// also exact when it is parsed as f32.
func appendNumber(dst []byte, t Type, bits uint64) []byte {
	switch t {
	case F16:
		return appendShort(dst, halfLayout.widen(uint16(bits)), 32)
	case BF16:
		return appendShort(dst, brainLayout.widen(uint16(bits)), 32)
	case F32:
		return appendShort(dst, float64(math.Float32frombits(uint32(bits))), 32)
	case F64:
		return appendShort(dst, math.Float64frombits(bits), 64)
	}
	if t.class() == signed {
		unused := 64 - 8*t.Size()
		return strconv.AppendInt(dst, int64(bits<<unused)>>unused, 10)
	}
	return strconv.AppendUint(dst, bits, 10)
}

// appendShort writes the fewest digits that parse to the same value, with an exponent
// only for very small and very large values.
func appendShort(dst []byte, v float64, width int) []byte {
	format := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, width)
}

// nonFinite returns the word for a NaN or an infinity, or "" for finite values.
func nonFinite(t Type, bits uint64) string {
	v := t.Float(bits)
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return ""
}

// Text returns a value as "ferry run" shows it.
func (t Type) Text(bits uint64) string { return string(appendText(nil, t, bits)) }

// BitText returns the bit pattern of a value with all its digits, as in 0x3c00.
func (t Type) BitText(bits uint64) string { return string(appendBits(nil, t, bits)) }
