package check

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// Unsafe: the test takes the address of a mapping that it has made.

// TestChanged: the source of a copy counts as changed if its bytes differ. It does not if a part
// of it cannot be read any more: pages without access, or a file that was truncated.
func TestChanged(t *testing.T) {
	page := os.Getpagesize()
	file, err := os.CreateTemp(t.TempDir(), "source")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(int64(3 * page)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		do   func(p []byte) error
		want bool
	}{
		{"as before", func([]byte) error { return nil }, false},
		{"written", func(p []byte) error { p[page]++; return nil }, true},
		{"a hole", func(p []byte) error { return syscall.Mprotect(p[page:2*page], syscall.PROT_NONE) }, false},
		{"truncated", func([]byte) error { return file.Truncate(0) }, false},
	} {
		p, err := syscall.Mmap(int(file.Fd()), 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			t.Skip(err)
		}
		s := source{at: addressOf(unsafe.Pointer(unsafe.SliceData(p))), b: access{m: &memory{}, x: box{width: uint64(len(p))}}}
		var readable bool
		if s.sum, readable = sumOf(pointerTo(s.at), uintptr(len(p))); !readable {
			t.Fatal("it cannot be read")
		}
		if err := c.do(p); err != nil {
			t.Skip(err)
		}
		if got := s.changed(); got != c.want {
			t.Errorf("%s: changed is %v", c.name, got)
		}
		syscall.Munmap(p)
	}
}
