package softgpu

import (
	"bytes"
	"os"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// mappings returns how many mappings the process has.
func mappings(t *testing.T) int {
	t.Helper()
	all, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return bytes.Count(all, []byte{'\n'})
}

// TestManyAllocations: under lazy, allocations beyond the bound of mappings make no more of them
// and are zero. Memory that is freed gives its mappings back.
func TestManyAllocations(t *testing.T) {
	r := newRig(t, Options{Schedule: Lazy, Profile: named(t, "h200")})
	const n, more = 2 << 20, 1000
	if r.regionOf(r.alloc(n)).backing.patterns == 0 {
		t.Skip("memory is filled at once")
	}
	live := patternMappings.Load()
	var all []cu.DevicePtr
	allocate := func() *backing {
		p, err := r.MemAlloc(r.ctx, n)
		r.ok(err)
		all = append(all, p)
		return r.regionOf(p).backing
	}
	for allocate().patterns > 0 {
		if len(all) > mostMappings {
			t.Fatalf("%d allocations have mappings of their own, want at most %d", len(all), mostMappings)
		}
	}
	before := mappings(t)
	for range more {
		allocate()
	}
	if got := mappings(t) - before; got > more/2 {
		t.Errorf("%d more allocations make %d mappings", more, got)
	}
	if b := r.contentsOf(all[len(all)-1], n); len(bytes.Trim(b, "\x00")) > 0 {
		t.Errorf("the last allocation has %x, want zeros", b[:8])
	}
	for _, p := range all {
		r.ok(r.MemFree(r.ctx, p))
	}
	if got := patternMappings.Load(); got > live {
		t.Errorf("%d mappings are counted after all frees, want at most %d", got, live)
	}
	if b := r.contentsOf(r.alloc(n), n); !isLazy(b) {
		t.Errorf("a later allocation has %x", b[:8])
	}
}

// TestSmallMemoryIsNotMapped: small page-locked memory has the pattern without a mapping.
func TestSmallMemoryIsNotMapped(t *testing.T) {
	r := newRig(t, Options{Schedule: Lazy})
	before := patternMappings.Load()
	for range 10 {
		if _, b := r.newPinned(4096); !isLazy(b) {
			t.Errorf("it has %x", b[:8])
		}
	}
	if got := patternMappings.Load(); got > before {
		t.Errorf("10 pages of page-locked memory take %d mappings", got-before)
	}
}
