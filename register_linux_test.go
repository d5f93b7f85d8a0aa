package ferry_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestRegisterFile registers and copies a file that is mapped for reading.
func TestRegisterFile(t *testing.T) {
	g := openTest(t)
	if n, err := g.Attribute(cu.DeviceAttributeReadOnlyHostRegisterSupported); err != nil || n == 0 {
		t.Skip("the device cannot register read-only memory")
	}
	path := filepath.Join(t.TempDir(), "data")
	want := make([]byte, 1<<16)
	fillRandom(want)
	check(t, os.WriteFile(path, want, 0o600))
	file := must(os.Open(path))(t)
	defer closeAll(t, file)
	memory := must(syscall.Mmap(int(file.Fd()), 0, len(want), syscall.PROT_READ, syscall.MAP_PRIVATE))(t)
	defer func() { check(t, syscall.Munmap(memory)) }()
	s := must(ferry.NewStream(g, nil))(t)
	r := must(ferry.Register(g, memory, &ferry.RegisterOptions{ReadOnly: true}))(t)
	d := must(ferry.Alloc[byte](g, len(want)))(t)
	check(t, ferry.Copy(s, d, r))
	got := make([]byte, len(want))
	check(t, ferry.Copy(s, ferry.Pageable(got), d))
	if string(got) != string(want) {
		t.Error("the bytes differ")
	}
	closeAll(t, r, d, s)
}
