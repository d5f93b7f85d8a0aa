package api

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestCopyPartsDirect reads a file that is opened with O_DIRECT, whose end is no whole block, to the
// device and to host memory.
func TestCopyPartsDirect(t *testing.T) {
	const size = 5<<20 + 777
	g := must(ferry.OpenDriver(&gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	want := make([]byte, size)
	fillRandom(want)
	path := filepath.Join(t.TempDir(), "direct")
	check(t, os.WriteFile(path, want, 0o600))
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if errors.Is(err, syscall.EINVAL) {
		t.Skipf("the file system of %s has no O_DIRECT", path)
	}
	check(t, err)
	if _, err := f.ReadAt(make([]byte, 10), 3); err == nil {
		t.Logf("the file system of %s reads unaligned bytes, too: this test shows less here", path)
	}
	device, host := must(ferry.Alloc[byte](g, size-9))(t), must(ferry.AllocHost[byte](g, 5000, nil))(t)
	parts := []ferry.ReadPart{{Src: f, Off: size - 5000, Dst: host}}
	for at, n := 0, 100; at < size-9; at, n = at+n, n*3+1 {
		parts = append(parts, ferry.ReadPart{Src: f, Off: int64(9 + at), Dst: device.Range(at, min(at+n, size-9))})
	}
	must(ferry.CopyParts(t.Context(), s, parts, nil))(t)
	wantBytes(t, must(ferry.Download(device))(t), want[9:])
	if !bytes.Equal(host.Slice(), want[size-5000:]) {
		t.Error("the bytes of host memory differ")
	}
	closeAll(t, f, device, host, s, g)
}
