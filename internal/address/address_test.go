package address

import (
	"bytes"
	"testing"
)

// TestConversions: each conversion and its inverse give the same memory.
func TestConversions(t *testing.T) {
	s := []uint32{1, 2, 3, 4}
	p := Of(s)
	if got := Slice[uint32](Add(p, 2*SizeOf[uint32]()), 2); len(got) != 2 || &got[0] != &s[2] {
		t.Errorf("the last two elements: %v, want those of %v", got, s)
	}
	if got := Of(Slice[uint32](Host(Device(p)), 4)); got != p {
		t.Errorf("a host address became %v, was %v", got, p)
	}
	if Device(Add(p, 3)) != Device(p)+3 {
		t.Error("Add does not count bytes")
	}
	v := uint32(0x04030201)
	if got := BytesOf(&v); len(got) != 4 || &got[0] != &Bytes(Of(got), 4)[0] || !bytes.Equal(got, Bytes(Of([]uint32{v}), 4)) {
		t.Errorf("the bytes of a value: % x", got)
	}
}

// TestNoMemory: nil stays nil, slices are never nil, and elements without a size need no
// memory.
func TestNoMemory(t *testing.T) {
	if Add(nil, 8) != nil {
		t.Error("an address after nil")
	}
	for _, s := range [][]int{Slice[int](nil, 3), Slice[int](Of([]int{1}), 0)} {
		if s == nil || len(s) != 0 {
			t.Errorf("no memory is %#v, want an empty slice", s)
		}
	}
	if got := Slice[struct{}](nil, 5); len(got) != 5 {
		t.Errorf("%d elements without a size, want 5", len(got))
	}
}

// TestAlignedBytes: the memory begins at a multiple, and has the bytes that were asked for.
func TestAlignedBytes(t *testing.T) {
	for _, n := range []int64{0, 1, 4095, 4096, 1 << 16} {
		got := AlignedBytes(n, 4096)
		if int64(len(got)) != n || n > 0 && Device(Of(got))%4096 != 0 {
			t.Errorf("%d bytes at %#x, want %d at a multiple of 4096", len(got), Device(Of(got)), n)
		}
	}
}
