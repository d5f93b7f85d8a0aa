package dl

import (
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// words returns n words of C's memory.
func words(address uintptr, n int) []uintptr {
	return unsafe.Slice(*(**uintptr)(unsafe.Pointer(&address)), n)
}

// TestFrame: C finds in a frame what was put there.
func TestFrame(t *testing.T) {
	var f Frame
	defer f.Release()
	all := []string{"a", "", strings.Repeat("x", 4096), strings.Repeat("y", 4097)}
	for i, at := range words(f.Texts(all), len(all)) {
		if got := String(at); got != all[i][:min(len(all[i]), 4096)] {
			t.Errorf("text %d has %d bytes, want %d", i, len(got), len(all[i]))
		}
	}
	handle, array := uintptr(7), []uintptr{1, 2, 3}
	if got := words(f.Word(&handle), 1)[0]; got != 7 {
		t.Errorf("a word is %d, want 7", got)
	}
	if got := words(Array(&f, array), 3); !slices.Equal(got, array) {
		t.Errorf("got %v, want %v", got, array)
	}
	if f.Bytes(nil) != 0 || f.Texts(nil) != 0 || String(0) != "" {
		t.Error("what is empty has an address, or NULL has a text")
	}
}
