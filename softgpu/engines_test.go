package softgpu

import (
	"math"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// between returns the device's time of f in s, in microseconds.
func (r *rig) between(s cu.Stream, f func()) float64 {
	a, b := r.event(), r.event()
	r.ok(r.EventRecord(r.ctx, a, s))
	f()
	r.ok(r.EventRecord(r.ctx, b, s))
	r.sync(s)
	ms, err := r.EventElapsedTime(r.ctx, a, b)
	r.ok(err)
	return float64(ms) * 1e3
}

// rows copies height rows of width bytes. The pitch on the host is gap times the
// width.
func (r *rig) rows(s cu.Stream, host cu.HostPtr, dev cu.DevicePtr, width, height, gap uintptr, out bool) {
	p := &cu.Memcpy2D{WidthInBytes: width, Height: height, SrcMemoryType: cu.MemoryTypeHost, SrcHost: host, SrcPitch: gap * width,
		DstMemoryType: cu.MemoryTypeDevice, DstDevice: dev, DstPitch: width}
	if out {
		p = &cu.Memcpy2D{WidthInBytes: width, Height: height, DstMemoryType: cu.MemoryTypeHost, DstHost: host, DstPitch: gap * width,
			SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: dev, SrcPitch: width}
	}
	r.ok(r.Memcpy2DAsync(r.ctx, p, s))
}

// Copies of rows take as long as measured on an H200, whatever the length of a
// row. Rows without gaps are one long row.
func TestCopiesOfRows(t *testing.T) {
	r := newRig(t, Options{})
	const n = 2 << 20
	dev := r.alloc(n)
	host, _ := r.pinned(n)
	s := r.stream(cu.StreamNonBlocking)
	for _, c := range []struct {
		width uintptr
		us    float64
	}{{16, 23.5}, {256, 23.3}, {4096, 23.3}, {65536, 23.1}} {
		width, want := c.width, c.us
		height := min(1<<20/width, 16384)
		within(t, size(uint64(width))+" a row", r.between(s, func() { r.rows(s, host, dev, width, height, 2, true) }), want, 0.03)
		flat := r.between(s, func() { r.ok(r.MemcpyDtoHAsync(r.ctx, host, dev, width*height, s)) })
		if dense := r.between(s, func() { r.rows(s, host, dev, width, height, 1, true) }); math.Abs(dense-flat) > 0.6 { // events have a resolution of 0.5 us
			t.Errorf("%d rows of %d bytes without gaps take %v us, in one row %v", height, width, dense, flat)
		}
	}
	short := r.between(s, func() { r.rows(s, host, dev, 16, 16384, 2, false) })
	long := r.between(s, func() { r.rows(s, host, dev, 64, 16384, 2, false) })
	if math.Abs(short-long) > 0.5 {
		t.Errorf("16384 rows in of 16 bytes take %v us, of 64 bytes %v", short, long)
	}
}

// A host function and a wait for another stream's event take the time of the
// profile.
func TestHostFunctionAndEventTimes(t *testing.T) {
	p := *named(t, "h200")
	p.Queue.HostFunction = profile.Number{Value: 50e3, Source: "guess"}
	p.Queue.Event = profile.Number{Value: 20e3, Source: "guess"}
	p.Queue.HostWake = profile.Number{Value: 70e3, Source: "guess"}
	was := named(t, "h200").Queue
	us := func(prof *profile.Profile, f func(r *rig, s cu.Stream)) float64 {
		r := newRig(t, Options{Profile: prof})
		s := r.stream(cu.StreamNonBlocking)
		return r.took(func() { f(r, s); r.sync(s) })
	}
	host := func(r *rig, s cu.Stream) {
		for range 4 {
			r.ok(r.LaunchHostFunc(r.ctx, s, func() {}))
		}
	}
	between := func(r *rig, s cu.Stream) {
		p := r.alloc(64)
		for range 4 {
			r.ok(r.LaunchHostFunc(r.ctx, s, func() {}))
			r.ok(r.MemsetD8Async(r.ctx, p, 1, 64, s))
		}
	}
	for name, of := range map[string]func(r *rig, s cu.Stream){
		"another stream's event": func(r *rig, s cu.Stream) {
			e, first := r.event(), r.stream(cu.StreamNonBlocking)
			r.ok(r.MemsetD8Async(r.ctx, r.alloc(64), 1, 64, first))
			r.ok(r.EventRecord(r.ctx, e, first))
			r.ok(r.StreamWaitEvent(r.ctx, s, e, 0))
		},
		"its own event": func(r *rig, s cu.Stream) {
			e := r.event()
			r.ok(r.EventRecord(r.ctx, e, s))
			r.ok(r.StreamWaitEvent(r.ctx, s, e, 0))
		},
	} {
		want := 0.0
		if name == "another stream's event" {
			want = 20 - was.Event.Value/1e3
		}
		if got := us(&p, of) - us(named(t, "h200"), of); math.Abs(got-want) > 0.01 {
			t.Errorf("a wait for %s: event_ns of 20 us costs %v us more, want %v", name, got, want)
		}
	}
	if got := us(&p, host) - us(named(t, "h200"), host); math.Abs(got-(4*50+70-(4*was.HostFunction.Value+was.HostWake.Value)/1e3)) > 0.01 {
		t.Errorf("four host functions of 50 us in a row, before which the thread wakes for 70 us, take %v us more", got)
	}
	if got := us(&p, between) - us(named(t, "h200"), between); math.Abs(got-(4*(50+70)-4*(was.HostFunction.Value+was.HostWake.Value)/1e3)) > 0.01 {
		t.Errorf("four host functions between fills, where the thread wakes each time, take %v us more", got)
	}
}

// An event after a kernel has a later time than the kernel's end, one after a
// copy has not.
func TestTimesOfMarks(t *testing.T) {
	p := *named(t, "h200")
	p.Queue.Record.Value += 30e3
	took := func(prof *profile.Profile, f func(r *rig, s cu.Stream)) (between, waited float64) {
		r := newRig(t, Options{Profile: prof})
		s := r.stream(cu.StreamNonBlocking)
		waited = r.took(func() { between = r.between(s, func() { f(r, s) }) })
		return between, waited
	}
	for name, c := range map[string]struct {
		f    func(r *rig, s cu.Stream)
		want float64
	}{
		"fill": {func(r *rig, s cu.Stream) { r.ok(r.MemsetD8Async(r.ctx, r.alloc(64), 1, 64, s)) }, 30},
		"copy": {func(r *rig, s cu.Stream) {
			host, _ := r.pinned(64)
			r.ok(r.MemcpyHtoDAsync(r.ctx, r.alloc(64), host, 64, s))
		}, 0},
	} {
		got, waited := took(&p, c.f)
		was, waitedBefore := took(named(t, "h200"), c.f)
		if math.Abs(got-was-c.want) > 0.1 || math.Abs(waited-waitedBefore) > 0.1 {
			t.Errorf("%s: kernel_record_ns 30 us larger: %.2f us more between two events, want %v; %.2f us more until the host knows", name, got-was, c.want, waited-waitedBefore)
		}
	}
}

// A kernel that reads a part of managed memory, or managed memory that stays on
// the host, takes as long as measured on an H200.
func TestManagedInPart(t *testing.T) {
	onlyFast(t)
	for _, c := range []struct {
		name     string
		n, reads uintptr
		onHost   bool
		want     float64
	}{
		{"the first 64th of 4 MiB", 4 << 20, 64 << 10, false, 178},
		{"the first 64th of 64 MiB", 64 << 20, 1 << 20, false, 441},
		{"64 KiB of 64 KiB", 64 << 10, 64 << 10, false, 100},
		{"4 MiB that stay on the host", 4 << 20, 4 << 20, true, 134},
	} {
		r := newRig(t, Options{})
		m, err := r.MemAllocManaged(r.ctx, c.n, cu.MemAttachGlobal)
		r.ok(err)
		if c.onHost {
			r.ok(r.MemAdvise(r.ctx, m, c.n, cu.MemAdviseSetPreferredLocation, cu.CPUDevice))
		}
		s, out := r.stream(cu.StreamNonBlocking), r.alloc(c.reads)
		f := r.shipped("copy")
		var us float64
		for range 2 { // the first run maps the memory
			r.ok(r.HostAccess(hostPointer(uint64(m)), c.n, true))
			us = r.took(func() { r.ok(r.run(f, 528, 256, s, out, m, cu.DevicePtr(c.reads))); r.sync(s) })
		}
		within(t, c.name, us, c.want, 0.2)
	}
}
