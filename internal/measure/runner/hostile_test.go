package runner

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// TestHostileArguments parses arguments that are made to cost much.
func TestHostileArguments(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a hundred inputs of 1 MB")
	}
	repeat := func(head, each, tail string) string {
		return head + strings.Repeat(each, hostile.Bytes/len(each)) + tail
	}
	for name, text := range map[string]string{
		"letters":         repeat("", "a", ""),
		"colons":          repeat("", ":", "="),
		"equal signs":     repeat("", "=", ""),
		"values":          repeat("in:f64=1", ",1", ""),
		"empty values":    repeat("in:f64=", ",", ""),
		"a long integer":  repeat("u64=", "9", ""),
		"a long float":    repeat("f64=0.", "3", ""),
		"a huge exponent": repeat("f64=1e", "9", ""),
		"long hex":        repeat("u64=0x", "f", ""),
		"a long half":     repeat("f16=0.", "3", ""),
		"a long count":    repeat("in:f32=[", "9", "]"),
		"a long product":  repeat("in:f32=[1", "*1", "]"),
		"a huge count":    "in:f32=iota[9223372036854775807]",
		"long limits":     repeat("in:f32=random[9]:0.", "3", "..1"),
		"fields":          repeat("struct=u8:1", ",u8:1", ""),
		"typeless fields": repeat("struct=u8:1", ",1", ""),
		"a file":          repeat("in:f32=@", "x", ""),
		"brackets":        repeat("in:f32=", "[", ""),
		"zeros":           repeat("", "\x00", ""),
		"sizes":           repeat("in:f32=random[", "N*", "N]"),
	} {
		hostile.Check(t, name, func() {
			text, _ := Expand(text, 100)
			if a, err := ParseArg(text); err == nil && a.from != fromFile {
				_, _ = a.Size()
				if a.Direction == Scalar {
					_ = a.Value()
				}
			} else if err != nil && len(err.Error()) > 8*hostile.Bytes { // it has the text, quoted
				t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
			}
			_, _ = ParseShape(text)
			_, _ = ParseMemory(text)
			_, err := FindKernel([]string{"k", "_Z1kv", text}, "x"+text)
			if err == nil {
				t.Errorf("%s: found", name)
			}
		})
	}
}

// FuzzShape parses shapes. What is accepted is written and parsed to the same.
func FuzzShape(f *testing.F) {
	for _, seed := range []string{"1", "256,2", "65535,65535,64", " 4, 5", "0", "1,2,3,4", "-1", "4294967296"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shape, err := ParseShape(text)
		if err != nil {
			return
		}
		if back, err := ParseShape(ShapeText(shape)); err != nil || back != shape || shape.X*shape.Y*shape.Z == 0 && min(shape.X, shape.Y, shape.Z) == 0 {
			t.Errorf("%q: %v came back as %v, %v", text, shape, back, err)
		}
	})
}
