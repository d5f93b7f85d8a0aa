package dlpack

import (
	"testing"
	"unsafe"
)

// LayoutOf returns where the fields of a tensor are, and its size, in the order of testdata/peer.c.
func LayoutOf() []uintptr {
	var m managed
	t := unsafe.Offsetof(m.tensor)
	return []uintptr{
		unsafe.Offsetof(m.major), unsafe.Offsetof(m.minor), unsafe.Offsetof(m.context), unsafe.Offsetof(m.deleter), unsafe.Offsetof(m.flags),
		t + unsafe.Offsetof(m.tensor.data), t + unsafe.Offsetof(m.tensor.deviceType), t + unsafe.Offsetof(m.tensor.deviceID), t + unsafe.Offsetof(m.tensor.ndim),
		t + unsafe.Offsetof(m.tensor.typ), t + unsafe.Offsetof(m.tensor.shape), t + unsafe.Offsetof(m.tensor.strides), t + unsafe.Offsetof(m.tensor.byteOffset),
		unsafe.Sizeof(m),
	}
}

// TestSizes: the layout is that of dlpack.h on machines with 64 bits.
func TestSizes(t *testing.T) {
	want := []uintptr{0, 4, 8, 16, 24, 32, 40, 44, 48, 52, 56, 64, 72, 80}
	for i, got := range LayoutOf() {
		if got != want[i] {
			t.Errorf("field %d is at %d, want %d", i, got, want[i])
		}
	}
}

// Held returns how many exported tensors are not deleted.
func Held() int {
	exports.mu.Lock()
	defer exports.mu.Unlock()
	return len(exports.all)
}
