package softgpu

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// contentsOf returns what n bytes of device memory hold.
func (r *rig) contentsOf(p cu.DevicePtr, n int) []byte {
	r.t.Helper()
	out := make([]byte, n)
	r.ok(r.MemcpyDtoH(r.ctx, ptr(out), p, uintptr(n)))
	return out
}

// newMemory returns the contents of new memory of each kind, in two sizes.
func (r *rig) newMemory() map[string][]byte {
	r.t.Helper()
	out := map[string][]byte{}
	for name, n := range map[string]int{"small": 1000, "large": 3 << 20} {
		out["device "+name] = r.contentsOf(r.alloc(uintptr(n)), n)
		s := r.stream(0)
		p, err := r.MemAllocAsync(r.ctx, uintptr(n), s)
		r.ok(err)
		r.sync(s)
		out["pool "+name] = r.contentsOf(p, n)
		_, host := r.newPinned(uintptr(n))
		out["page-locked "+name] = bytes.Clone(host)
		own := make([]byte, n)
		r.FreshHost(ptr(own), uintptr(n))
		out["made by package ferry "+name] = own
	}
	return out
}

// isLazy reports whether b holds the pattern of Lazy, from an even offset on.
func isLazy(b []byte) bool {
	for i, x := range b {
		if x != byte(uint64(lazyPattern)>>(i%8*8)) {
			return false
		}
	}
	return true
}

// TestNewContents: new memory is zero under Eager and a fixed pattern under Lazy. Under Random
// the seed decides.
func TestNewContents(t *testing.T) {
	t.Setenv(ScheduleVariable, "")
	for name, b := range newRig(t, Options{}).newMemory() {
		if len(bytes.Trim(b, "\x00")) > 0 {
			t.Errorf("eager, %s: it is not zero", name)
		}
	}
	for name, b := range newRig(t, Options{Schedule: Lazy}).newMemory() {
		if !isLazy(b) {
			t.Errorf("lazy, %s: it has %x", name, b[:16])
		}
	}
	one, again, other := newRig(t, Options{Schedule: Random, Seed: 5}).newMemory(), newRig(t, Options{Schedule: Random, Seed: 5}).newMemory(), newRig(t, Options{Schedule: Random, Seed: 6}).newMemory()
	for name, b := range one {
		if zeros := bytes.Count(b, []byte{0}); zeros > len(b)/64 || !bytes.Equal(b, again[name]) || bytes.Equal(b, other[name]) {
			t.Errorf("random, %s: %d of %d bytes are 0; equal with the same seed %v, with another one %v", name, zeros, len(b), bytes.Equal(b, again[name]), bytes.Equal(b, other[name]))
		}
	}
}

// TestLazyPatternIsNaN: the pattern of Lazy is a NaN in every format.
func TestLazyPatternIsNaN(t *testing.T) {
	b := binary.LittleEndian.AppendUint64(nil, lazyPattern)
	for off := 0; off < 8; off += 2 { // as half and bfloat16: all exponent bits, and a fraction
		if h := binary.LittleEndian.Uint16(b[off:]); h&0x7c00 != 0x7c00 || h&0x3ff == 0 || h&0x7f80 != 0x7f80 || h&0x7f == 0 {
			t.Errorf("%#x is no NaN of 16 bits", h)
		}
	}
	if f := math.Float32frombits(binary.LittleEndian.Uint32(b)); f == f {
		t.Error("it is no NaN of 32 bits")
	}
	if f := math.Float64frombits(lazyPattern); f == f {
		t.Error("it is no NaN of 64 bits")
	}
	for _, x := range b {
		if x&0x7f != 0x7f {
			t.Errorf("%#x is no NaN of 8 bits", x)
		}
	}
}

// TestZeroContents: managed memory and variables of modules without a value are zero under
// every schedule, as on hardware.
func TestZeroContents(t *testing.T) {
	const text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 16 .b8 small[999];\n.visible .global .align 16 .b8 large[3000000];\n"
	every(t, func(t *testing.T, r *rig) {
		m, err := r.ModuleLoadData(r.ctx, []byte(text))
		r.ok(err)
		for _, name := range []string{"small", "large"} {
			p, n, err := r.ModuleGetGlobal(r.ctx, m, name)
			r.ok(err)
			if b := r.contentsOf(p, int(n)); len(bytes.Trim(b, "\x00")) > 0 {
				t.Errorf("variable %s is not zero", name)
			}
		}
		for _, n := range []int{1000, 3 << 20} {
			p, err := r.MemAllocManaged(r.ctx, uintptr(n), cu.MemAttachGlobal)
			r.ok(err)
			if b := r.contentsOf(p, n); len(bytes.Trim(b, "\x00")) > 0 {
				t.Errorf("%d bytes of managed memory are not zero", n)
			}
		}
	})
}

// TestUsedMemoryShows: memory of a pool that is freed and allocated again shows what it held.
func TestUsedMemoryShows(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		s := r.stream(0)
		for range 2 {
			p, err := r.MemAllocAsync(r.ctx, 4096, s)
			r.ok(err)
			r.ok(r.MemsetD8Async(r.ctx, p, 9, 4096, s))
			r.ok(r.MemFreeAsync(r.ctx, p, s))
		}
		p, err := r.MemAllocAsync(r.ctx, 4096, s)
		r.ok(err)
		r.sync(s)
		if b := r.contentsOf(p, 4096); len(bytes.Trim(b, "\x09")) > 0 {
			t.Errorf("it holds %x", b[:8])
		}
	})
}

// TestContentsTakeNoMemory: an allocation as large as a GPU takes no memory of this computer
// under any schedule, has the pattern at both ends, and takes what is written.
func TestContentsTakeNoMemory(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		if !r.fillsLazily() {
			t.Skip("this system fills memory at once")
		}
		free, _, err := r.MemGetInfo(r.ctx)
		r.ok(err)
		n := uint64(free) - 1<<30
		p := r.alloc(uintptr(n))
		region := r.regionOf(p)
		if got := region.resident(region.data[:1<<30]); got != 0 {
			t.Errorf("new memory takes %d bytes", got)
		}
		for _, at := range []uint64{0, patternBytes - 8, n/2/8*8 + 8, n - 4096} {
			got, want := r.contentsOf(p+cu.DevicePtr(at), 8), make([]byte, 8)
			if r.contents != nil {
				want = r.contents.pattern(int(at%patternBytes)/patternStep*patternStep, (int(at%patternBytes)/patternStep+1)*patternStep)[at%patternStep:][:8]
			}
			if !bytes.Equal(got, want) {
				t.Errorf("at %d: got %x, want %x", at, got, want)
			}
		}
		r.ok(r.MemsetD8(r.ctx, p+1<<20, 3, 1<<20))
		r.ok(r.CtxSynchronize(r.ctx))
		if got := region.resident(region.data[1<<20 : 2<<20]); got != 1<<20 {
			t.Errorf("1 MiB that was written takes %d bytes", got)
		}
		if got := region.resident(region.data[16<<20 : 17<<20]); got != 0 {
			t.Errorf("memory that nothing has touched takes %d bytes", got)
		}
		if r.contents != nil { // another allocation does not see what was written to this one
			if b := r.contentsOf(r.alloc(4<<20)+1<<20, 1<<20); len(bytes.Trim(b, "\x03")) == 0 {
				t.Error("the pattern was written")
			}
		}
	})
}

// fillsLazily reports whether memory takes its pattern when it is touched.
func (r *rig) fillsLazily() bool {
	r.t.Helper()
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") && !raceBuild {
		return true
	}
	return reservesLazily && (r.contents == nil || r.regionOf(r.alloc(65<<20)).backing.patterns > 0)
}
