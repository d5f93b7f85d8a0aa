package runner

import (
	"encoding/json"
	"math"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		typ              Type
		bits             uint64
		json, text, bare string
	}{
		{U8, 255, "255", "255", "0xff"},
		{U64, math.MaxUint64, "18446744073709551615", "18446744073709551615", "0xffffffffffffffff"},
		{S8, 0x80, "-128", "-128", "0x80"},
		{S64, 1 << 63, "-9223372036854775808", "-9223372036854775808", "0x8000000000000000"},
		{B16, 0x3c00, "15360", "0x3c00", "0x3c00"},
		{F16, 0x3c00, "1", "1", "0x3c00"},
		{F16, 0x2e66, "0.099975586", "0.099975586", "0x2e66"},
		{F16, 0x0001, "5.9604645e-08", "5.9604645e-08", "0x0001"},
		{F16, 0x7bff, "65504", "65504", "0x7bff"},
		{BF16, 0x7f7f, "3.3895314e+38", "3.3895314e+38", "0x7f7f"},
		{BF16, 0x7fc0, `"NaN"`, "NaN", "0x7fc0"},
		{F32, 0x3dcccccd, "0.1", "0.1", "0x3dcccccd"},
		{F32, 0x80000000, "-0", "-0", "0x80000000"},
		{F32, 0x49742400, "1000000", "1000000", "0x49742400"},
		{F32, 0x00000001, "1e-45", "1e-45", "0x00000001"},
		{F32, 0x7f800000, `"Inf"`, "Inf", "0x7f800000"},
		{F32, 0xff800000, `"-Inf"`, "-Inf", "0xff800000"},
		{F64, 0x3fb999999999999a, "0.1", "0.1", "0x3fb999999999999a"},
		{F64, 0x7fefffffffffffff, "1.7976931348623157e+308", "1.7976931348623157e+308", "0x7fefffffffffffff"},
	} {
		if got := string(appendJSON(nil, c.typ, c.bits)); got != c.json || !json.Valid([]byte(got)) {
			t.Errorf("%v %#x in JSON: got %s, want %s", c.typ, c.bits, got, c.json)
		}
		if got := string(appendText(nil, c.typ, c.bits)); got != c.text {
			t.Errorf("%v %#x: got %s, want %s", c.typ, c.bits, got, c.text)
		}
		if got := string(appendBits(nil, c.typ, c.bits)); got != c.bare {
			t.Errorf("%v %#x as bits: got %s, want %s", c.typ, c.bits, got, c.bare)
		}
	}
}
