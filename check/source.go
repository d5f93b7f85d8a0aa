package check

import (
	"hash/maphash"
	"runtime/debug"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
)

// source is the source of a copy from page-locked memory that the program queued itself: what
// its bytes were then. They must be the same when the host learns that the copy is done.
type source struct {
	b   access
	sum uint64
	at  uint64 // the host address, as a number: the check does not keep the memory alive
}

// mostSources bounds the sources that are watched at once.
const mostSources = 256

var sumSeed = maphash.MakeSeed()

// foreign asks the driver about host memory that the check does not know: another library may
// have page-locked it. Then a copy of it is in flight when its call has returned. It also finds
// that memory which was foreign is not page-locked any more.
func (c *call) foreign(ctx cu.Context, p cu.HostPtr, bytes uintptr) {
	if p == nil || bytes == 0 {
		return
	}
	at := addressOf(p)
	c.d.mu.Lock()
	m, _ := c.d.memories.find(at)
	c.d.mu.Unlock()
	if m != nil && !m.foreign {
		return
	}
	about, err := c.d.inner.PointerGetAttributes(ctx, cu.DevicePtr(at))
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	x := &c.d.memories
	if now, _ := x.find(at); now != m {
		return // another goroutine has found out
	}
	known := err == nil && about.MemoryType == cu.MemoryTypeHost && about.RangeSize > 0
	if m != nil && known && m.base == uint64(about.RangeStart) && m.end-m.base == uint64(about.RangeSize) {
		return
	}
	if m != nil {
		x.drop(m)
	}
	if known && uint64(about.RangeStart) <= at && at < uint64(about.RangeStart)+uint64(about.RangeSize) {
		x.add(&memory{base: uint64(about.RangeStart), end: uint64(about.RangeStart) + uint64(about.RangeSize), kind: pinned, ctx: ctx, foreign: true, call: "another library"})
	}
}

// drop forgets foreign memory that another library has freed unseen.
func (x *memories) drop(m *memory) {
	m.dead, m.accesses = true, nil
	rest := x.all[:0]
	for _, r := range x.all {
		if r.m != m {
			rest = append(rest, r)
		}
	}
	clear(x.all[len(rest):])
	x.all = rest
}

// watchSource remembers the bytes of the source of a copy that the program has queued itself.
// Package ferry waits for its own copies before it hands the memory to the program. What the bytes
// will be is not known while a host function or earlier work may still write them.
func (c *call) watchSource(p cu.HostPtr, bytes uintptr) {
	if p == nil || bytes == 0 || callsite.ByLibrary() || c.d.inHost.queued.Load() > 0 {
		return
	}
	c.d.mu.Lock()
	m, at := c.d.memories.find(addressOf(p))
	yes := m != nil && (m.hold != nil || !onHeap(p)) && (m.kind == pinned || m.kind == registered) && addressOf(p)+uint64(bytes) <= m.end && c.lane != nil && c.lane.capture == nil && !c.d.mayBeWritten(m, flat(at, uint64(bytes)))
	c.d.mu.Unlock()
	if yes {
		if sum, readable := sumOf(p, bytes); readable {
			c.source, c.sum = p, sum
		}
	}
}

// mayBeWritten reports whether work that the host does not know to be done may write bytes of memory.
// The caller holds mu.
func (d *Driver) mayBeWritten(m *memory, x box) bool {
	return slices.ContainsFunc(m.accesses, func(a access) bool {
		return a.mode != reads && a.x.hits(&x) && d.orders.host.At(a.op.slot) < a.op.n
	})
}

// sumOf returns the checksum of host memory, if all of it can be read. The program may have
// unmapped some of it, or truncated its file.
func sumOf(p cu.HostPtr, bytes uintptr) (sum uint64, readable bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			if _, fault := v.(interface{ Addr() uintptr }); !fault {
				panic(v)
			}
			sum, readable = 0, false
		}
	}()
	return maphash.Bytes(sumSeed, bytesAt(p, bytes)), true
}

// keepSource keeps the source of a copy whose operation is in its stream. The caller holds mu.
func (d *Driver) keepSource(c *call) {
	for i := range c.accesses {
		a := &c.accesses[i]
		if c.source == nil || a.mode != reads || !a.m.kind.onHost() || a.op == nil {
			continue
		}
		if len(d.sources) >= mostSources {
			d.gaveUp(gaveUpSources, 1)
			return
		}
		d.sources = append(d.sources, source{*a, c.sum, addressOf(c.source)})
		return
	}
}

// compareSources compares the selected sources with their earlier checksums, and drops them.
// The host has not known until now that their copies are done. The caller holds mu.
func (d *Driver) compareSources(c *call, which func(*access) bool) {
	rest := d.sources[:0]
	for i := range d.sources {
		s := &d.sources[i]
		o := s.b.op
		switch {
		case s.b.m.dead, d.lost.Load(), d.orders.host.At(o.slot) >= o.n, d.orders.maybe.At(o.slot) >= o.n:
		case which(&s.b):
			if s.changed() {
				d.sourceChanged(c, &s.b)
			}
		default:
			rest = append(rest, *s)
		}
	}
	clear(d.sources[len(rest):])
	d.sources = rest
}

// changed reports whether the bytes are not those of the copy's call. Memory that cannot be read
// any more has not changed.
func (s *source) changed() bool {
	if s.b.m.hold.collected() {
		return false
	}
	sum, readable := sumOf(pointerTo(s.at), uintptr(s.b.x.width))
	return readable && sum != s.sum
}

// sourceChanged reports a source that the host has changed in flight.
func (d *Driver) sourceChanged(c *call, b *access) {
	f := Finding{Kind: HostInFlight, First: d.side(b), What: "the host has changed page-locked memory before the copy that reads it has ended",
		Second: &Side{Call: c.name, Place: d.place(c.site), site: c.site}}
	d.about(&f, b.m)
	f.Missing = "the host had not waited for " + b.op.lane.name + " when it changed the memory; " + c.name + " is the first call that tells it"
	f.Mend = "change the memory behind " + f.Second.Place
	d.report(f)
}
