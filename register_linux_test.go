package ferry_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestRegisterFile registers and copies a file that is mapped for reading.
func TestRegisterFile(t *testing.T) {
	g := openTest(t)
	if !canRegisterReadOnly(g) {
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

// TestRegisterWithoutAccess: the advice for memory that may be neither read nor written is
// not ReadOnly, which fails as well, and it helps.
func TestRegisterWithoutAccess(t *testing.T) {
	g := openTest(t)
	const page = 1 << 16
	memory := must(syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	defer func() { check(t, syscall.Munmap(memory)) }()
	barred := memory[page : 2*page]
	check(t, syscall.Mprotect(barred, syscall.PROT_NONE))
	for _, part := range [][]byte{barred, memory, memory[page-1 : page+1]} {
		for _, o := range []*ferry.RegisterOptions{nil, {ReadOnly: true}} {
			if o != nil && !canRegisterReadOnly(g) {
				continue
			}
			_, err := ferry.Register(g, part, o)
			wantError(t, err, cu.ErrorInvalidValue, "PROT_NONE", "mprotect")
			if err != nil && strings.Contains(err.Error(), "ReadOnly") {
				t.Errorf("it advises what fails as well: %v", err)
			}
		}
	}
	check(t, syscall.Mprotect(memory, syscall.PROT_READ|syscall.PROT_WRITE))
	closeAll(t, must(ferry.Register(g, memory, nil))(t))
	check(t, syscall.Mprotect(memory, syscall.PROT_READ))
	_, err := ferry.Register(g, memory, nil)
	wantError(t, err, cu.ErrorInvalidValue, "ReadOnly")
	if canRegisterReadOnly(g) {
		closeAll(t, must(ferry.Register(g, memory, &ferry.RegisterOptions{ReadOnly: true}))(t))
	}
}

func canRegisterReadOnly(g *ferry.GPU) bool {
	n, err := g.Attribute(cu.DeviceAttributeReadOnlyHostRegisterSupported)
	return err == nil && n != 0
}

// TestRegisteredMemoryGoes: a copy whose registered memory was unmapped, or whose file was
// truncated, is told by name and code. Wait tells it, or Download of what should have been
// written. The GPU stays usable.
func TestRegisteredMemoryGoes(t *testing.T) {
	const n = 64 << 10
	for _, way := range []string{"unmapped", "truncated"} {
		path := filepath.Join(t.TempDir(), "data")
		check(t, os.WriteFile(path, make([]byte, n), 0o600))
		file := must(os.Open(path))(t)
		g := must(ferry.Open("soft:h200"))(t)
		s, d := must(ferry.NewStream(g, nil))(t), must(ferry.Alloc[byte](g, n))(t)
		b := must(syscall.Mmap(int(file.Fd()), 0, n, syscall.PROT_READ, syscall.MAP_SHARED))(t)
		r := must(ferry.Register(g, b, &ferry.RegisterOptions{ReadOnly: true}))(t)
		if way == "unmapped" {
			check(t, syscall.Mprotect(b, syscall.PROT_NONE)) // so that nothing else gets the addresses
		} else {
			check(t, os.Truncate(path, 0))
		}
		told := func(err error) {
			t.Helper()
			failed, ok := errors.AsType[*cu.OperationError](err)
			if !ok || failed.Operation != "copy 65536 bytes host to device" || !errors.Is(err, cu.ErrorInvalidValue) || strings.Contains(err.Error(), "kernel") {
				t.Errorf("%s: got %v", way, err)
			}
		}
		check(t, ferry.Copy(s, d, r))
		told(s.Wait(t.Context()))
		check(t, s.Wait(t.Context()))
		check(t, ferry.Copy(s, d, r))
		_, err := ferry.Download(d)
		told(errors.Join(err, s.Wait(t.Context())))
		check(t, ferry.Fill(s, d, 7))
		if got := must(ferry.Download(d))(t); got[0] != 7 || got[n-1] != 7 {
			t.Errorf("%s: after the error a fill wrote %d", way, got[0])
		}
		closeAll(t, r, s, d, g, file)
	}
}
