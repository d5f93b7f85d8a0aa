package linkimage

import (
	"bytes"
	"reflect"
	"testing"
)

// TestImage writes and reads images, and cuts and lengthens them.
func TestImage(t *testing.T) {
	for _, want := range []*Image{
		{},
		{Plain: true, MaxRegisters: 300},
		{MaxRegisters: 1, Inputs: []Input{{"a", []byte("text")}, {"", bytes.Repeat([]byte("long "), 100)}}},
	} {
		b := want.Encode()
		got, ok := Decode(b)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %t, want %v", b, got, ok, want)
		}
		if _, ok := Decode(append(bytes.Clone(b), 0)); ok {
			t.Errorf("%q with a byte more was read", b)
		}
		for n := range b {
			if got, ok := Decode(b[:n]); ok {
				t.Errorf("%q: its first %d bytes were read: %v", b, n, got)
			}
		}
	}
	for _, other := range []string{"", "\x00ferry linked PTX ", "\x00ferry linked PTX 2\n\x00\x00", ".version 7.0\n"} {
		if Is([]byte(other)) {
			t.Errorf("%q is taken for an image", other)
		}
	}
}
