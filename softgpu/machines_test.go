package softgpu

import (
	"maps"
	"math"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// with returns p with another value of an attribute.
func with(p *profile.Profile, attribute string, value float64) *profile.Profile {
	q := *p
	q.Attributes = maps.Clone(p.Attributes)
	q.Attributes[attribute] = profile.Number{Value: value, Source: p.Attributes[attribute].Source}
	return &q
}

func TestMachine(t *testing.T) {
	p := with(named(t, "h200"), "ASYNC_ENGINE_COUNT", 1)
	r := newRig(t, Options{Profile: p})
	if r.Machine() != p {
		t.Error("Machine is another profile")
	}
}

// machines returns the profiles for which cond is true. It fails if there is
// none.
func machines(t *testing.T, cond func(*profile.Profile) bool) (out []*profile.Profile) {
	for _, name := range profile.Names() {
		if p := named(t, name); cond(p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		t.Fatal("no profile meets the condition")
	}
	return out
}

// If host and device have one memory, a kernel gains nothing from a copy to
// device memory.
func TestIntegratedZeroCopyIsLocal(t *testing.T) {
	onlyFast(t)
	for _, p := range machines(t, func(*profile.Profile) bool { return true }) {
		r := newRig(t, Options{Profile: p})
		const n = 2 << 20
		host, err := r.MemHostAlloc(r.ctx, n, 0)
		r.ok(err)
		if !r.uva {
			continue
		}
		own, other := r.alloc(n), r.alloc(n)
		time := func(from cu.DevicePtr) float64 {
			return r.took(func() {
				r.ok(r.run(r.shipped("copy"), 1024, 256, 0, own, from, cu.DevicePtr(n)))
				r.sync(0)
			})
		}
		far := time(cu.DevicePtr(addressOf(host))) / time(other)
		coherent := p.Has(cu.DeviceAttributePageableMemoryAccess) // its link is nearly as fast as this
		if integrated := p.Has(cu.DeviceAttributeIntegrated); integrated && (far > 2 || far < 0.8) || !integrated && !coherent && far < 2 {
			t.Errorf("%s: a kernel that reads host memory takes %.1f times as long as one that reads the device's; integrated: %v", p.Name, far, integrated)
		}
	}
}

// Reads of page-locked memory cost the host time, and more if its caches exclude
// it. Write-combined memory is cached on virtual machines only.
func TestHostReads(t *testing.T) {
	const n = 1 << 20
	for name, slower := range map[string][2]float64{"h200": {1, 1}, "rtx-4090": {1, 122.9}, "fermi-c2050": {1, 33.9}, "jetson-tx2": {11, 11}, "orin": {1, 31}, "gb10": {1, 71}, "tesla-c870": {1, 21.2}} {
		r := newRig(t, Options{Profile: named(t, name)})
		cached := r.prof.Host.CachedRead.Ns(n)
		for i, flags := range []cu.MemHostAllocFlags{0, cu.MemHostAllocWriteCombined} {
			p, err := r.MemHostAlloc(r.ctx, n, flags)
			r.ok(err)
			before := r.Now()
			r.ok(r.HostAccess(p, n, false))
			if got := float64(r.Now()-before) / cached; cached < 1000 || math.Abs(got-slower[i]) > 0.01*slower[i] {
				t.Errorf("%s, flags %#x: reading 1 MiB cost %v, %.2f times as much as of cached memory, want %v", name, uint32(flags), r.Now()-before, got, slower[i])
			}
			before = r.Now()
			r.ok(r.HostAccess(p, n, true))
			if got, want := float64(r.Now()-before), r.prof.Host.CachedWrite.Ns(n); math.Abs(got-want) > 1 || (want > 0) == (name == "h200") {
				t.Errorf("%s, flags %#x: writing cost %v ns, want %v", name, uint32(flags), got, want)
			}
		}
	}
}

// The host's use of page-locked memory costs time at the first call after an operation that may have
// used the memory, whatever the schedule.
func TestHostReadsOnce(t *testing.T) {
	const n = 1 << 20
	for _, schedule := range []Schedule{Eager, Lazy, Random} {
		r := newRig(t, Options{Profile: named(t, "gb10"), Schedule: schedule}) // whose writes cost time, too
		a, _ := r.pinned(n)
		b, _ := r.pinned(n)
		dev := r.alloc(n)
		k := r.shipped("fill")
		whole := r.prof.Host.CachedRead.Ns(n)
		takes := func(what string, want float64, p cu.HostPtr, n uintptr, write bool) {
			t.Helper()
			before := r.Now()
			r.ok(r.HostAccess(p, n, write))
			if got := float64(r.Now() - before); math.Abs(got-want) > 1 {
				t.Errorf("%v: %s took %.0f ns, want %.0f", schedule, what, got, want)
			}
		}
		half, second := r.prof.Host.CachedRead.Ns(n/2), hostPointer(uint64(uintptr(a))+n/2)
		takes("the first read of a half", half, a, n/2, false)
		takes("the second read of the half", 0, a, n/2, false)
		takes("the read of the other half", half, second, n/2, false)
		takes("the read of both", 0, a, n, false)
		takes("the first write", r.prof.Host.CachedWrite.Ns(n), a, n, true)
		takes("the second write", 0, a, n, true)
		for what, queue := range map[string]func() error{
			"a copy from it": func() error { return r.MemcpyHtoDAsync(r.ctx, dev, a, n, 0) },
			"a copy to it":   func() error { return r.MemcpyDtoHAsync(r.ctx, a, dev, n, 0) },
			"a fill of it":   func() error { return r.MemsetD8Async(r.ctx, cu.DevicePtr(uintptr(a)), 1, n, 0) },
			"a kernel": func() error {
				one := cu.Dim3{X: 1, Y: 1, Z: 1}
				return r.LaunchKernel(r.ctx, k, one, one, 0, 0, params64(uint64(dev), 0, 0))
			},
		} {
			r.ok(queue())
			r.sync(0)
			takes("a read after "+what, whole, a, n, false)
			takes("the second read after "+what, 0, a, n, false)
		}
		r.ok(r.MemcpyHtoDAsync(r.ctx, dev, b, n, 0))
		r.sync(0)
		takes("a read after a copy of other memory", 0, a, n, false)
	}
}

// Devices of each machine have peer access if the profile says so.
func TestPeerAccessAsTheMachineHas(t *testing.T) {
	for _, p := range machines(t, func(*profile.Profile) bool { return true }) {
		r := newRig(t, Options{Profile: p, Devices: 2})
		can, err := r.DeviceCanAccessPeer(0, 1)
		r.ok(err)
		second, err := r.DevicePrimaryCtxRetain(1)
		r.ok(err)
		err = r.CtxEnablePeerAccess(r.ctx, second, 0)
		if has := p.Link.PeerAccess.Value != 0 && r.uva; (can == 1) != has || (err == nil) != has {
			t.Errorf("%s: can access: %d, enabling: %v; the machine has it: %v", p.Name, can, err, has)
		}
		if err != nil {
			r.want(cu.ErrorPeerAccessUnsupported, err)
		}
	}
}

// With ASYNC_ENGINE_COUNT 0 copies and kernels do not overlap. With 1 a copy
// overlaps with a kernel. With 2 and more, copies in both directions also
// overlap.
func TestEngineCounts(t *testing.T) {
	onlyFast(t)
	for count := range 4 {
		r := newRig(t, Options{Profile: with(named(t, "h200"), "ASYNC_ENGINE_COUNT", float64(count))})
		const n = 16 << 20
		a, b, data := r.alloc(n), r.alloc(n), r.alloc(n)
		p, _ := r.pinned(n)
		q, _ := r.pinned(n)
		var s [3]cu.Stream
		for i := range s {
			s[i] = r.stream(cu.StreamNonBlocking)
		}
		f := r.shipped("vector_add")
		in := func() { r.ok(r.MemcpyHtoDAsync(r.ctx, a, p, n, s[0])) }
		out := func() { r.ok(r.MemcpyDtoHAsync(r.ctx, q, b, n, s[1])) }
		kernel := func() {
			few := cu.Dim3{X: 1, Y: 1, Z: 1}
			r.ok(r.LaunchKernel(r.ctx, f, few, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, s[2], params64(uint64(data), uint64(data), uint64(data), n/16)))
		}
		// ratio is the time of both at once, divided by the time of one after
		// the other.
		ratio := func(x, y func()) float64 {
			sync := func() { r.ok(r.CtxSynchronize(r.ctx)) }
			apart := r.took(func() { x(); sync(); y(); sync() })
			return r.took(func() { x(); y(); sync() }) / apart
		}
		for _, c := range []struct {
			name     string
			ratio    float64
			overlaps bool
		}{
			{"copy in, kernel", ratio(in, kernel), count > 0},
			{"kernel, copy out", ratio(kernel, out), count > 0},
			{"copy in, copy out", ratio(in, out), count > 1},
		} {
			if overlaps := c.ratio < 0.9; overlaps != c.overlaps {
				t.Errorf("%d engines: %s take %.2f of their time one by one, overlap should be %v", count, c.name, c.ratio, c.overlaps)
			}
		}
	}
}

// A GB300 refuses large write-combined memory, with the code that a GB200 returns. Other memory is not
// bounded by that.
func TestWriteCombinedBound(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "gb300")})
	most := uintptr(r.prof.Host.WriteCombined.Value)
	_, err := r.MemHostAlloc(r.ctx, most, cu.MemHostAllocWriteCombined)
	r.ok(err)
	_, err = r.MemHostAlloc(r.ctx, most+1, cu.MemHostAllocWriteCombined)
	r.want(cu.ErrorInvalidValue, err)
	_, err = r.MemHostAlloc(r.ctx, most+1, 0)
	r.ok(err)
}
