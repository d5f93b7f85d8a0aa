package staging

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/softgpu"
)

// TestMappedFileShrinks: pages of a file that was cut off are an error at their offset, in
// both directions. They do not end the process.
func TestMappedFileShrinks(t *testing.T) {
	const size, left = 64 << 10, 20 << 10
	r := newRig(t, small, size, softgpu.Eager)
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	r.check(err)
	defer f.Close()
	want := random(size)
	_, err = f.Write(want)
	r.check(err)
	m, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	r.check(err)
	defer syscall.Munmap(m)
	_, err = r.ring.In(background, r.job(size), Memory(m))
	r.check(err)
	r.same("mapped", r.onDevice(size), want)
	r.check(f.Truncate(left))
	r.poison()
	n, err := r.ring.In(background, r.job(size), Memory(m))
	if n != left || err == nil || !strings.Contains(err.Error(), "byte 20480: cannot read address") {
		t.Errorf("in: %d bytes, %v", n, err)
	}
	r.same("what is left", r.onDevice(left), want[:left])
	n, err = r.ring.Out(background, r.job(size), Memory(m))
	if n != left || err == nil || !strings.Contains(err.Error(), "byte 20480: cannot write address") {
		t.Errorf("out: %d bytes, %v", n, err)
	}
}
