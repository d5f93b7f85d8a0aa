package check_test

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/check"
)

// TestPageLocked: findings call memory of AllocHost page-locked, whichever driver call locked it,
// and memory of Register registered.
func TestPageLocked(t *testing.T) {
	alloc := func(n int, o *ferry.HostOptions) func(*ferry.GPU) *ferry.Host[byte] {
		return func(g *ferry.GPU) *ferry.Host[byte] { return got(ferry.AllocHost[byte](g, n, o)) }
	}
	register := func(g *ferry.GPU) *ferry.Host[byte] { return got(ferry.Register(g, make([]byte, 4<<20), nil)) }
	within := func(g *ferry.GPU) (h *ferry.Host[byte]) {
		o := &ferry.HostOptions{Progress: func(int, int) { h = register(g) }}
		whole := got(ferry.AllocHost[byte](g, 4<<20, o))
		t.Cleanup(func() { _ = whole.Close() })
		return h
	}
	for _, c := range []struct {
		name         string
		make         func(*ferry.GPU) *ferry.Host[byte]
		memory, mend string
	}{
		{"small", alloc(4<<10, nil), "page-locked memory", ""},
		{"large", alloc(4<<20, nil), "page-locked memory", "close the buffer"},
		{"mapped", alloc(4<<20, &ferry.HostOptions{Mapped: true}), "page-locked memory", "close the buffer"},
		{"registered", register, "registered memory", "free it by cuMemHostUnregister"},
		{"registered in Progress", within, "registered memory", "free it by cuMemHostUnregister"},
	} {
		d := check.Wrap(software("eager"), check.Options{})
		g := got(ferry.OpenDriver(d, 0))
		h := c.make(g)
		if err := d.MemFree(g.CUContext(), address(h.Slice())); err == nil {
			t.Fatal("cuMemFree of host memory succeeds")
		}
		if all := d.Findings(); len(all) != 1 || !strings.HasPrefix(all[0].Memory, c.memory+" 1 (") || !strings.Contains(all[0].Mend, c.mend) {
			t.Errorf("%s: found\n%v\nwant %q, %q", c.name, all, c.memory, c.mend)
		}
		ok(h.Close())
	}
}
