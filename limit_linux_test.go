package ferry_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// fullDriver has no page-locked memory to give.
type fullDriver struct{ *fakeDriver }

func (fullDriver) MemHostAlloc(cu.Context, uintptr, cu.MemHostAllocFlags) (cu.HostPtr, error) {
	return nil, cu.ErrorOutOfMemory
}

// TestLockedMemoryLimit: the limit of locked memory is named where it is in the
// way, and only there.
func TestLockedMemoryLimit(t *testing.T) {
	const memlock = 8
	var before syscall.Rlimit
	check(t, syscall.Getrlimit(memlock, &before))
	limit := before
	limit.Cur = 64 << 10
	if err := syscall.Setrlimit(memlock, &limit); err != nil {
		t.Skip("the limit of locked memory cannot be lowered: ", err)
	}
	defer func() { check(t, syscall.Setrlimit(memlock, &before)) }()
	g := openFake(t, fullDriver{newFake()})
	_, err := ferry.AllocHost[byte](g, 1<<20, nil)
	wantError(t, err, cu.ErrorOutOfMemory, "allocate 1.0 MiB of page-locked memory", "limit of locked memory is 64.0 KiB (ulimit -l)")
	_, err = ferry.AllocHost[byte](g, 1<<10, nil)
	wantError(t, err, cu.ErrorOutOfMemory, "of host memory are available")
	if strings.Contains(err.Error(), "ulimit") {
		t.Errorf("%v: the limit is not in the way", err)
	}
}

// TestRegisterFile copies from a file that is mapped for reading.
func TestRegisterFile(t *testing.T) {
	g := openTest(t)
	if n, err := g.Attribute(cu.DeviceAttributeReadOnlyHostRegisterSupported); err != nil || n == 0 {
		t.Skip("the device cannot register read-only memory")
	}
	path := filepath.Join(t.TempDir(), "data")
	want := make([]byte, 1<<16)
	random(want)
	check(t, os.WriteFile(path, want, 0o600))
	file := must(os.Open(path))(t)
	defer closeAll(t, file)
	memory := must(syscall.Mmap(int(file.Fd()), 0, len(want), syscall.PROT_READ, syscall.MAP_PRIVATE))(t)
	defer func() { check(t, syscall.Munmap(memory)) }()
	s := must(g.NewStream(nil))(t)
	r := must(ferry.Register(g, memory, &ferry.RegisterOptions{ReadOnly: true}))(t)
	d := must(ferry.Alloc[byte](g, len(want)))(t)
	check(t, ferry.Copy(s, d, r))
	got := make([]byte, len(want))
	check(t, ferry.Copy(s, ferry.Plain(got), d))
	if string(got) != string(want) {
		t.Error("the bytes differ")
	}
	closeAll(t, r, d, s)
}
