package staging

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/cu"
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
	if n != left || !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "byte 20480: cannot read address") {
		t.Errorf("in: %d bytes, %v", n, err)
	}
	r.same("what is left", r.onDevice(left), want[:left])
	n, err = r.ring.Out(background, r.job(size), Memory(m))
	if n != left || !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "byte 20480: cannot write address") {
		t.Errorf("out: %d bytes, %v", n, err)
	}
}

// TestListUnreadable: an error of memory that cannot be read or written has the offset of the
// part. The parts before it are copied.
func TestListUnreadable(t *testing.T) {
	const size, part, shift = 16 << 10, 50, 200 // by which parts have other offsets in blocks than in pages
	r := newRig(t, small, size+shift, softgpu.Eager)
	m, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	r.check(err)
	defer syscall.Munmap(m)
	copy(m, random(size))
	x := new(scattered)
	for i := int64(0); i+part <= size; i += part {
		x.Add(m[i:i+part], r.device+cu.DevicePtr(shift+i))
	}
	_, err = r.ring.In(background, r.jobOf(x, true, nil), &x.List)
	r.check(err)
	want := r.onDevice(size + shift)
	r.check(syscall.Mprotect(m[8<<10:12<<10], syscall.PROT_NONE))
	const bad = (8 << 10) / part // the part that crosses the border
	for name, f := range map[string]func() (int64, error){
		"read":  func() (int64, error) { return r.ring.In(background, r.jobOf(x, true, nil), &x.List) },
		"write": func() (int64, error) { return r.ring.Out(background, r.jobOf(x, false, nil), &x.List) },
	} {
		r.poison()
		if name == "write" {
			r.check(errors.Join(r.d.MemcpyHtoD(r.ctx, r.device, cu.HostPtr(&want[0]), size+shift), r.d.CtxSynchronize(r.ctx)))
			clear(m[:8<<10])
		}
		n, err := f()
		var located *OffsetError
		if i, _ := x.Find(n); i != bad || !errors.As(err, &located) || located.Offset != n || !strings.Contains(err.Error(), "cannot "+name+" address") {
			t.Errorf("%s: %d bytes, part %d, want part %d: %v", name, n, i, bad, err)
		}
		r.same(name+": on the device", r.onDevice(shift + bad*part)[shift:], want[shift:shift+bad*part])
		r.same(name+": the memory", m[:bad*part], want[shift:shift+bad*part])
	}
	r.stillWorks()
}
