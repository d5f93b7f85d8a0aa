package softgpu

import (
	"math"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
)

// changed returns the time of f in us on an H200, and on an H200 with a changed
// profile.
func changed(t *testing.T, change func(*profile.Profile), f func(r *rig) float64) (as, other float64) {
	t.Helper()
	var us [2]float64
	for i := range us {
		p := named(t, "h200")
		if i == 1 {
			change(p)
		}
		us[i] = f(newRig(t, Options{Profile: p}))
	}
	return us[0], us[1]
}

// nearly fails if got differs from want by more than rounding.
func nearly(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.02 {
		t.Errorf("%s: %.2f us, want %.2f", what, got, want)
	}
}

// Later writes of the host push earlier writes out of its caches.
func TestWritesThatFollow(t *testing.T) {
	r := newRig(t, Options{})
	const n, more = 256 << 10, 1 << 20
	dev := r.alloc(n)
	host, _ := r.pinned(n)
	other, _ := r.pinned(more)
	copyIn := func() float64 {
		return r.took(func() { r.ok(r.MemcpyHtoDAsync(r.ctx, dev, host, n, 0)); r.sync(0) })
	}
	clean, fresh := copyIn(), &r.prof.Link.Fresh
	r.ok(r.HostAccess(host, n, true))
	r.ok(r.HostAccess(other, more, true))
	want := clean + (fresh.Ns(more+n)-fresh.Ns(more))/1e3
	nearly(t, "written before other memory", copyIn(), want)
	if want >= clean+fresh.Ns(n)/1e3 {
		t.Errorf("the profile has no caches: %+v", fresh)
	}
}

// A copy to memory that the host has just written also waits for its caches.
func TestCopyToFreshlyWrittenMemory(t *testing.T) {
	r := newRig(t, Options{})
	const n = 256 << 10
	dev := r.alloc(n)
	host, _ := r.pinned(n)
	copyOut := func() float64 {
		return r.took(func() { r.ok(r.MemcpyDtoHAsync(r.ctx, host, dev, n, 0)); r.sync(0) })
	}
	clean := copyOut()
	r.ok(r.HostAccess(host, n, true))
	nearly(t, "just written", copyOut(), clean+r.prof.Link.Fresh.Ns(n)/1e3)
	nearly(t, "the second copy", copyOut(), clean)
}

// Small copies start no closer together than the device allows, in one stream
// or in two, in one direction or in both.
func TestCopiesAreSpaced(t *testing.T) {
	const n, space = 4096, 50
	for variant := range 4 {
		two, sameWay := variant&1 != 0, variant&2 != 0
		as, spaced := changed(t, func(p *profile.Profile) { p.Queue.Copy.Value = space * 1e3 }, func(r *rig) float64 {
			in, out, third := r.alloc(n), r.alloc(n), r.alloc(n)
			from, _ := r.pinned(n)
			to, _ := r.pinned(n)
			s := [2]cu.Stream{r.stream(cu.StreamNonBlocking)}
			if s[1] = s[0]; two {
				s[1] = r.stream(cu.StreamNonBlocking)
			}
			return r.took(func() {
				r.ok(r.MemcpyHtoDAsync(r.ctx, in, from, n, s[0]))
				if sameWay {
					r.ok(r.MemcpyHtoDAsync(r.ctx, out, to, n, s[1]))
					r.ok(r.MemcpyHtoDAsync(r.ctx, third, to, n, s[0]))
				} else {
					r.ok(r.MemcpyDtoHAsync(r.ctx, to, out, n, s[1]))
				}
				r.sync(s[0])
				r.sync(s[1])
			})
		})
		want := 1.0 * space
		if sameWay {
			want = 2 * space
		}
		if as > 20 || spaced < want || spaced > want+20 {
			t.Errorf("two streams %v, one direction %v: %.1f us, and %.1f where a copy begins every %d us", two, sameWay, as, spaced, space)
		}
	}
}

// A pageable copy out of a busy stream takes longer than out of an idle one.
func TestPageableCopyBehindWork(t *testing.T) {
	const n, extra = 256 << 10, 500
	for _, busy := range []bool{false, true} {
		as, other := changed(t, func(p *profile.Profile) {
			p.Copy.PageableBusy = profile.Line(p.Copy.PageableBusy.Ns(n)+extra*1e3, 1e15, "guess")
		}, func(r *rig) float64 {
			dev := r.alloc(n)
			page := make([]byte, n)
			return r.took(func() {
				if busy {
					r.ok(r.MemsetD8Async(r.ctx, dev, 1, n, 0))
				}
				r.ok(r.MemcpyDtoH(r.ctx, ptr(page), dev, n))
			})
		})
		want := as
		if busy {
			want += extra
		}
		nearly(t, "a pageable copy", other, want)
	}
}

// With one round of threads, reads over the link and writes do not overlap.
// With several rounds, writes overlap with the reads of the next round.
func TestReadsAndWritesOverlapInRounds(t *testing.T) {
	onlyFast(t)
	const n = 4 << 20
	took := func(blocks uint32) float64 {
		p := named(t, "h200")
		p.Link.Duplex.Value = 0
		r := newRig(t, Options{Profile: p})
		in, _ := r.pinned(n)
		out, _ := r.pinned(n)
		return r.took(func() {
			r.ok(r.LaunchKernel(r.ctx, r.shipped("copy"), cu.Dim3{X: blocks, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0,
				params64(uint64(uintptr(out)), uint64(uintptr(in)), n)))
			r.sync(0)
		})
	}
	once, often := took(n/16/256), took(n/16/256/16)
	if once < 1.6*often || once > 2*often {
		t.Errorf("in one round %.1f us, in sixteen %.1f", once, often)
	}
}

// The first faults wake the driver. More than firstFaults need one more batch.
func TestFirstFaults(t *testing.T) {
	onlyFast(t)
	const wake, batch = 1000, 3000
	for pages, want := range map[uint64]float64{firstFaults: wake + batch, firstFaults + 1: wake + 2*batch} {
		as, other := changed(t, func(p *profile.Profile) {
			p.Managed.DeviceService.Wake.Value += wake * 1e3
			p.Managed.DeviceService.Batch.Value += batch * 1e3
		}, func(r *rig) float64 {
			m, err := r.MemAllocManaged(r.ctx, uintptr(pages)*4096, cu.MemAttachGlobal)
			r.ok(err)
			r.ok(r.HostAccess(*(*unsafe.Pointer)(unsafe.Pointer(&m)), uintptr(pages)*4096, true))
			return r.took(func() {
				r.ok(r.LaunchKernel(r.ctx, r.shipped("increment"), cu.Dim3{X: 64, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, params64(uint64(m), pages*1024)))
				r.sync(0)
			})
		})
		nearly(t, "more", other-as, want)
	}
}

// A copy to the device waits behind the writes of a kernel to the host, and a kernel's reads
// behind a copy to the host. A copy in each direction at once does not.
func TestReadsWaitBehindWrites(t *testing.T) {
	sample.SkipRace(t)
	const n = 4 << 20
	type side func(r *rig) (submit func())
	kernel := func(toHost bool) side {
		return func(r *rig) func() {
			host, _ := r.pinned(n)
			from, to := cu.DevicePtr(addressOf(host)), r.alloc(n)
			if toHost {
				from, to = to, from
			}
			f, s := r.shipped("copy"), r.stream(cu.StreamNonBlocking)
			return func() { r.ok(r.run(f, 1024, 256, s, to, from, cu.DevicePtr(n))) }
		}
	}
	copying := func(toHost bool) side {
		return func(r *rig) func() {
			host, _ := r.pinned(n)
			dev, s := r.alloc(n), r.stream(cu.StreamNonBlocking)
			if toHost {
				return func() { r.ok(r.MemcpyDtoHAsync(r.ctx, host, dev, n, s)) }
			}
			return func() { r.ok(r.MemcpyHtoDAsync(r.ctx, dev, host, n, s)) }
		}
	}
	for name, c := range map[string]struct {
		one, two side
		larger   bool
	}{
		"kernel writes, copy in": {kernel(true), copying(false), true},
		"kernel reads, copy out": {kernel(false), copying(true), true},
		"copy out, copy in":      {copying(true), copying(false), false},
	} {
		full, half := changed(t, func(p *profile.Profile) {
			p.Link.KernelWrites.Value, p.Link.KernelReads.Value = p.Link.Duplex.Value, p.Link.Duplex.Value
		}, func(r *rig) float64 {
			one, two := c.one(r), c.two(r)
			return r.took(func() { one(); two(); r.ok(r.CtxSynchronize(r.ctx)) })
		})
		if (full > half+5) != c.larger {
			t.Errorf("%s: %.1f us with the H200's costs of reads beside writes, %.1f us without; want more: %v", name, full, half, c.larger)
		}
	}
}

// A page that the CPU holds too, by advice, costs more when a kernel writes it.
func TestCollapse(t *testing.T) {
	const n = 1 << 20
	as, other := changed(t, func(p *profile.Profile) { p.Managed.DeviceService.Collapse.Value = 0 }, func(r *rig) float64 {
		p, err := r.MemAllocManaged(r.ctx, n, cu.MemAttachGlobal)
		r.ok(err)
		r.ok(r.MemAdvise(r.ctx, p, n, cu.MemAdviseSetReadMostly, 0))
		r.ok(r.HostAccess(hostPointer(uint64(p)), n, true))
		s := r.stream(cu.StreamNonBlocking)
		return r.took(func() { r.ok(r.run(r.shipped("fill"), 256, 256, s, p, uint32(3), cu.DevicePtr(n/4))); r.sync(s) })
	})
	nearly(t, "the CPU's copies of 256 pages", as-other, 256*named(t, "h200").Managed.DeviceService.Collapse.Value/1e3)
}
