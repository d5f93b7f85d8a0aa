package softgpu

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/profile"
)

// shipped returns a kernel of package kernels.
func (r *rig) shipped(name string) cu.Function {
	r.t.Helper()
	m, err := r.ModuleLoadData(r.ctx, []byte(kernels.PTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, name)
	r.ok(err)
	return f
}

func params64(words ...uint64) []byte {
	var b []any
	for _, w := range words {
		b = append(b, cu.DevicePtr(w))
	}
	return params(b...)
}

// onlyFast skips a test of times that is slow under the race detector.
func onlyFast(t *testing.T) {
	if raceBuild {
		t.Skip("virtual times do not depend on the race detector")
	}
}

// took returns the virtual time of f in microseconds.
func (r *rig) took(f func()) float64 {
	began := r.Now()
	f()
	return float64(r.Now()-began) / 1e3
}

// within fails if got differs from want by more than the fraction part.
func within(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if got < want*(1-part) || got > want*(1+part) {
		t.Errorf("%s: %.1f us predicted, %.1f measured", what, got, want)
	} else {
		t.Logf("%s: %.1f us predicted, %.1f measured", what, got, want)
	}
}

// The measured figures come from shared data of the machine of profile h200.
func TestCopyTimes(t *testing.T) {
	r := newRig(t, Options{})
	const most = 256 << 20
	dev := r.alloc(most)
	pin, _ := r.pinned(most)
	page := ptr(make([]byte, most))
	s := r.stream(cu.StreamNonBlocking)
	for _, c := range []struct {
		name     string
		host     cu.HostPtr
		n        uintptr
		in, out  float64
		tolerate float64
	}{
		{"pinned 4 KiB", pin, 4 << 10, 7.41, 6.67, 0.2},
		{"pinned 64 KiB", pin, 64 << 10, 9.49, 7.79, 0.2},
		{"pinned 1 MiB", pin, 1 << 20, 27.4, 26.4, 0.05},
		{"pinned 256 MiB", pin, 256 << 20, 4846, 4869, 0.02},
		// Measured with cold caches. The profile was fitted to copies in a
		// loop.
		{"pageable 64 KiB", page, 64 << 10, 25.5, 14.8, 0.4},
	} {
		within(t, c.name+" in", r.took(func() { r.ok(r.MemcpyHtoDAsync(r.ctx, dev, c.host, c.n, s)); r.sync(s) }), c.in, c.tolerate)
		within(t, c.name+" out", r.took(func() { r.ok(r.MemcpyDtoHAsync(r.ctx, c.host, dev, c.n, s)); r.sync(s) }), c.out, c.tolerate)
	}
}

func TestBothDirectionsShareTheLink(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	r := newRig(t, Options{})
	const n = 64 << 20
	a, b := r.alloc(n), r.alloc(n)
	p, _ := r.pinned(n)
	q, _ := r.pinned(n)
	s1, s2 := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
	us := r.took(func() {
		r.ok(r.MemcpyHtoDAsync(r.ctx, a, p, n, s1))
		r.ok(r.MemcpyDtoHAsync(r.ctx, q, b, n, s2))
		r.sync(s1)
		r.sync(s2)
	})
	within(t, "64 MiB each way at once", us, 1485, 0.08) // the median over machines of docs/results/grid-h200-*.json, which have 1.3 to 1.7 ms
}

// vectorAdd times a vector addition of n elements whose inputs were just
// written.
func vectorAdd(r *rig, n uintptr) (pinned, zero, kernel float64) {
	f := r.shipped("vector_add")
	var dev [3]cu.DevicePtr
	var host [3]cu.HostPtr
	for i := range dev {
		dev[i] = r.alloc(4 * n)
		host[i], _ = r.pinned(4 * n)
	}
	write := func() {
		for _, p := range host {
			r.ok(r.HostAccess(p, 4*n, true))
		}
	}
	blocks := min(uint32((n/4+255)/256), 8*132)
	launch := func(a, b, c uint64) {
		r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: blocks, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, params64(a, b, c, uint64(n))))
	}
	onDevice := func() { launch(uint64(dev[0]), uint64(dev[1]), uint64(dev[2])) }
	write()
	pinned = r.took(func() {
		r.ok(r.MemcpyHtoDAsync(r.ctx, dev[0], host[0], 4*n, 0))
		r.ok(r.MemcpyHtoDAsync(r.ctx, dev[1], host[1], 4*n, 0))
		onDevice()
		r.ok(r.MemcpyDtoHAsync(r.ctx, host[2], dev[2], 4*n, 0))
		r.sync(0)
	})
	write()
	zero = r.took(func() {
		launch(uint64(uintptr(host[0])), uint64(uintptr(host[1])), uint64(uintptr(host[2])))
		r.sync(0)
	})
	r.ok(r.MemcpyHtoDAsync(r.ctx, dev[0], host[0], 4*n, 0)) // memory that was just copied in is read more slowly
	r.ok(r.MemcpyHtoDAsync(r.ctx, dev[1], host[1], 4*n, 0))
	r.sync(0)
	kernel = r.took(func() { onDevice(); r.sync(0) })
	return pinned, zero, kernel
}

// TestVectorAddTimes compares predictions with the times that "ferry compare"
// measured on an H200. Kernels alone take 9.6 to 13 us there, depending on the
// day.
func TestVectorAddTimes(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	onlyFast(t)
	text, err := os.ReadFile("../docs/results/compare-h200.json")
	if err != nil {
		t.Fatal(err)
	}
	var measured struct {
		Rows []struct {
			Elements uintptr `json:"elements"`
			Pinned   float64 `json:"pinned_ns"`
			ZeroCopy float64 `json:"zero_copy_ns"`
			Kernel   float64 `json:"kernel_ns"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(text, &measured); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{})
	for _, m := range measured.Rows {
		pinned, zero, kernel := vectorAdd(r, m.Elements)
		within(t, fmt.Sprintf("%d floats pinned", m.Elements), pinned, m.Pinned/1e3, 0.3)
		within(t, fmt.Sprintf("%d floats zero-copy", m.Elements), zero, m.ZeroCopy/1e3, 0.3)
		within(t, fmt.Sprintf("%d floats kernel", m.Elements), kernel, m.Kernel/1e3, 0.35)
	}
}

// The first read of memory that the host has just written is slower.
func TestFreshlyWrittenMemory(t *testing.T) {
	r := newRig(t, Options{})
	const n = 512 << 10
	dev := r.alloc(n)
	host, _ := r.pinned(n)
	copyIn := func() float64 {
		return r.took(func() { r.ok(r.MemcpyHtoDAsync(r.ctx, dev, host, n, 0)); r.sync(0) })
	}
	clean := copyIn()
	r.ok(r.HostAccess(host, n, false))
	if read := copyIn(); read != clean {
		t.Errorf("after a read: %.1f us, want %.1f", read, clean)
	}
	r.ok(r.HostAccess(host, n, true))
	want := clean + r.prof.Link.Fresh.Ns(n)/1e3
	if fresh := copyIn(); fresh < want-0.01 || fresh > want+0.01 {
		t.Errorf("after a write: %.2f us, want %.2f", fresh, want)
	}
	if again := copyIn(); again != clean {
		t.Errorf("the second copy: %.1f us, want %.1f", again, clean)
	}

	f := r.shipped("copy") // a kernel that reads it over the link
	zeroCopy := func() float64 {
		return r.took(func() {
			r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 64, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, params64(uint64(dev), uint64(uintptr(host)), n)))
			r.sync(0)
		})
	}
	clean = zeroCopy()
	r.ok(r.HostAccess(host, n, true))
	want = clean + r.prof.Link.Fresh.Ns(n)/1e3
	if fresh := zeroCopy(); fresh < want-0.01 || fresh > want+0.01 {
		t.Errorf("a kernel after a write: %.2f us, want %.2f", fresh, want)
	}
	if again := zeroCopy(); again < clean-0.01 || again > clean+0.01 {
		t.Errorf("the second kernel: %.2f us, want %.2f", again, clean)
	}
}

// A switch to another engine takes longer than going on with the same one.
func TestEngineSwitchTime(t *testing.T) {
	const extra = 50e3
	var us [2]float64
	for i := range us {
		p, err := profile.Named("h200")
		if err != nil {
			t.Fatal(err)
		}
		p.Queue.Switch.Value += float64(i) * extra
		r := newRig(t, Options{Profile: p})
		dev := r.alloc(4096)
		host, _ := r.pinned(4096)
		f := r.shipped("increment")
		us[i] = r.took(func() { // two copies, a kernel, a copy: two switches
			r.ok(r.MemcpyHtoDAsync(r.ctx, dev, host, 4096, 0))
			r.ok(r.MemcpyHtoDAsync(r.ctx, dev, host, 4096, 0))
			r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, 0, params64(uint64(dev), 1024)))
			r.ok(r.MemcpyDtoHAsync(r.ctx, host, dev, 4096, 0))
			r.sync(0)
		})
	}
	// The first switch may overlap with the time that the host needs to queue.
	if more := us[1] - us[0]; more < extra/1e3 || more > 2*extra/1e3+0.01 {
		t.Errorf("with 50 us more for a switch: %.1f us, was %.1f", us[1], us[0])
	}
}

func TestTimesAreTheSameOnEveryRun(t *testing.T) {
	onlyFast(t)
	run := func(s Schedule, prof string) []time.Duration {
		r := newRig(t, Options{Schedule: s, Seed: 3, Profile: named(t, prof)})
		var at []time.Duration
		mark := func() { at = append(at, r.Now()) }
		const n = 1 << 18
		f := r.shipped("increment")
		var streams []cu.Stream
		var dev []cu.DevicePtr
		var host []cu.HostPtr
		for range 3 {
			streams = append(streams, r.stream(0))
			dev = append(dev, r.alloc(n))
			p, _ := r.pinned(n)
			host = append(host, p)
		}
		e1, e2 := r.event(), r.event()
		for round := range 3 {
			for i, s := range streams {
				if i == 0 {
					r.ok(r.EventRecord(r.ctx, e1, s))
				}
				r.ok(r.MemcpyHtoDAsync(r.ctx, dev[i], host[i], n, s))
				r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: uint32(16 << round), Y: 1, Z: 1}, cu.Dim3{X: 128, Y: 1, Z: 1}, 0, s, params64(uint64(dev[i]), n/4)))
				r.ok(r.MemcpyDtoHAsync(r.ctx, host[i], dev[i], n, s))
				mark()
			}
			r.ok(r.EventRecord(r.ctx, e2, streams[2]))
			for r.StreamQuery(r.ctx, streams[1]) != nil {
			}
			mark()
			r.ok(r.CtxSynchronize(r.ctx))
			mark()
			ms, err := r.EventElapsedTime(r.ctx, e1, e2)
			r.ok(err)
			at = append(at, time.Duration(ms*1e6))
		}
		return at
	}
	for _, prof := range []string{"h200", "fermi-c2050"} {
		for _, s := range []Schedule{Eager, Lazy, Random} {
			want := run(s, prof)
			for range 5 {
				if got := run(s, prof); !slices.Equal(got, want) {
					t.Fatalf("%s, %v:\n%v\n%v", prof, s, want, got)
				}
			}
		}
	}
}

// issue queues copy in, kernel, copy out on two streams, depth or breadth
// first, and returns the time in microseconds.
func issue(t *testing.T, opts Options, depth bool) float64 {
	r := newRig(t, opts)
	const n = 4 << 20
	f := r.shipped("increment")
	var s [2]cu.Stream
	var dev [2]cu.DevicePtr
	var host [2]cu.HostPtr
	for i := range 2 {
		s[i], dev[i] = r.stream(cu.StreamNonBlocking), r.alloc(n)
		host[i], _ = r.pinned(n)
	}
	steps := []func(i int){
		func(i int) { r.ok(r.MemcpyHtoDAsync(r.ctx, dev[i], host[i], n, s[i])) },
		func(i int) {
			for range 6 {
				r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 64, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, s[i], params64(uint64(dev[i]), n/4)))
			}
		},
		func(i int) { r.ok(r.MemcpyDtoHAsync(r.ctx, host[i], dev[i], n, s[i])) },
	}
	return r.took(func() {
		if depth {
			for i := range 2 {
				for _, step := range steps {
					step(i)
				}
			}
		} else {
			for _, step := range steps {
				step(0)
				step(1)
			}
		}
		r.sync(s[0])
		r.sync(s[1])
	})
}

func TestIssueOrderMattersOnOldHardware(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	onlyFast(t)
	withEngines := func(name string, n int) Options {
		p := *named(t, name)
		attrs := p.Attributes
		p.Attributes = map[string]profile.Number{}
		for k, v := range attrs {
			p.Attributes[k] = v
		}
		v := p.Attributes["ASYNC_ENGINE_COUNT"]
		v.Value = float64(n)
		p.Attributes["ASYNC_ENGINE_COUNT"] = v
		return Options{Profile: &p}
	}
	depth1 := issue(t, withEngines("fermi-c2050", 1), true)
	breadth1 := issue(t, withEngines("fermi-c2050", 1), false)
	depth0 := issue(t, withEngines("fermi-c2050", 0), true)
	depth2 := issue(t, withEngines("fermi-c2050", 2), true)
	breadth2 := issue(t, withEngines("fermi-c2050", 2), false)
	t.Logf("fermi: no engine %.0f, one engine depth %.0f breadth %.0f, two engines depth %.0f breadth %.0f us", depth0, depth1, breadth1, depth2, breadth2)
	if breadth1 >= depth1*0.95 {
		t.Errorf("one engine: breadth first %.0f us is not faster than depth first %.0f us", breadth1, depth1)
	}
	if depth1 > depth0*1.02 || depth1 < depth0*0.9 {
		t.Errorf("one engine, depth first: %.0f us, want no overlap as with none, %.0f us", depth1, depth0)
	}
	if depth2 >= depth1*0.95 {
		t.Errorf("two engines, depth first: %.0f us, with one %.0f us", depth2, depth1)
	}
	newer := issue(t, withEngines("h200", 1), true)
	none := issue(t, withEngines("h200", 0), true)
	if newer >= none {
		t.Errorf("a newer device overlaps depth first: %.1f us, want less than %.1f us", newer, none)
	}
}

func TestEventTimes(t *testing.T) {
	r := newRig(t, Options{})
	const n = 64 << 20
	dev := r.alloc(n)
	hp, _ := r.pinned(n)
	s := r.stream(0)
	a, b := r.event(), r.event()
	r.ok(r.EventRecord(r.ctx, a, s))
	r.ok(r.MemcpyHtoDAsync(r.ctx, dev, hp, n, s))
	r.ok(r.EventRecord(r.ctx, b, s))
	_, err := r.EventElapsedTime(r.ctx, a, b)
	r.want(cu.ErrorNotReady, err)
	r.sync(s)
	ms, err := r.EventElapsedTime(r.ctx, a, b)
	r.ok(err)
	within(t, "64 MiB between events", float64(ms)*1e3, n/55.4e9*1e6, 0.02)
	quiet, err := r.EventCreate(r.ctx, cu.EventDisableTiming)
	r.ok(err)
	r.ok(r.EventRecord(r.ctx, quiet, s))
	_, err = r.EventElapsedTime(r.ctx, a, quiet)
	r.want(cu.ErrorInvalidHandle, err)
	_, err = r.EventElapsedTime(r.ctx, a, r.event())
	r.want(cu.ErrorInvalidHandle, err)
}

func TestPriorityGoesFirst(t *testing.T) {
	onlyFast(t)
	r := newRig(t, Options{})
	f := r.shipped("increment")
	const n = 1 << 22 // long enough to outlast the launches
	dev := uint64(r.alloc(4 * n))
	low, err := r.StreamCreateWithPriority(r.ctx, cu.StreamNonBlocking, 0)
	r.ok(err)
	high, err := r.StreamCreateWithPriority(r.ctx, cu.StreamNonBlocking, -5)
	r.ok(err)
	e := map[cu.Stream]cu.Event{low: r.event(), high: r.event()}
	start := r.event()
	r.ok(r.EventRecord(r.ctx, start, low))
	for _, s := range []cu.Stream{low, high} {
		for range 6 {
			r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 2048, Y: 1, Z: 1}, cu.Dim3{X: 1024, Y: 1, Z: 1}, 0, s, params64(dev, n)))
		}
	}
	for s, e := range e {
		r.ok(r.EventRecord(r.ctx, e, s))
	}
	r.ok(r.CtxSynchronize(r.ctx))
	ends := map[cu.Stream]float32{}
	for s, e := range e {
		ends[s], err = r.EventElapsedTime(r.ctx, start, e)
		r.ok(err)
	}
	t.Logf("low %.1f us, high %.1f us", ends[low]*1e3, ends[high]*1e3)
	if ends[high] > ends[low]*0.9 {
		t.Errorf("the high stream ended at %v ms, the low one at %v ms", ends[high], ends[low])
	}
}

func TestManagedTimes(t *testing.T) {
	onlyFast(t)
	r := newRig(t, Options{})
	const n = 64 << 20
	m, err := r.MemAllocManaged(r.ctx, n, cu.MemAttachGlobal)
	r.ok(err)
	p := *(*unsafe.Pointer)(unsafe.Pointer(&m))
	f := r.shipped("increment")
	kernel := func() float64 {
		return r.took(func() {
			r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 1024, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, params64(uint64(m), n/4)))
			r.sync(0)
		})
	}
	touch := func() float64 { return r.took(func() { r.HostAccess(p, n, true) }) }
	touch()
	// Medians of 50 samples on one machine (docs/results/grid-h200-c1.json and
	// -c2.json). Machines differ by 40 %.
	within(t, "first touch by a kernel", kernel(), 9240, 0.2)
	if again := kernel(); again > 100 {
		t.Errorf("resident: %.1f us", again)
	}
	within(t, "touch back by the CPU", touch(), 12261, 0.2)
	if again := touch(); again != 0 {
		t.Errorf("a second touch cost %.1f us", again)
	}
	within(t, "prefetch", r.took(func() { r.ok(r.MemPrefetchAsync(r.ctx, m, n, 0, 0)); r.sync(0) }), 1958, 0.25)
	if again := kernel(); again > 100 {
		t.Errorf("after a prefetch: %.1f us", again)
	}
}

func TestQueuesDoNotGrowForever(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	r := newRig(t, Options{})
	dev := r.alloc(64)
	for range 5 * maxBacklog {
		r.ok(r.MemsetD8Async(r.ctx, dev, 1, 1, 0))
	}
	r.mu.Lock()
	n := r.unretired
	r.mu.Unlock()
	// A fill takes longer than its call, so some ops wait. Ops that are past
	// must be dropped.
	if most := 5 * maxBacklog * 3 / 4; n > most {
		t.Errorf("%d of %d operations are kept", n, 5*maxBacklog)
	}
	r.ok(r.CtxSynchronize(r.ctx))
	if r.unretired != 0 || len(r.sim.running) != 0 || len(r.sim.pending) != 0 {
		t.Errorf("left: %d unretired, %d running, %d pending", r.unretired, len(r.sim.running), len(r.sim.pending))
	}
}
