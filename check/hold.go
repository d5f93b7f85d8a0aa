package check

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/ferrygpu/ferry/cu"
)

// hold watches memory of the program that the driver may use after a call. It finds out whether
// the memory still exists, and does not keep it alive.
type hold struct {
	from, end uint64
	onHeap    bool // memory of Go
	start     weak.Pointer[byte]

	freed atomic.Bool // Go has freed the memory: its finalizer has run, too
	tells runtime.Cleanup
}

// newHold returns a hold of memory that is there.
func newHold(p cu.HostPtr, bytes uintptr) *hold {
	h := &hold{from: addressOf(p), end: addressOf(p) + uint64(bytes), onHeap: onHeap(p)}
	if h.onHeap {
		h.start = weak.Make(firstByte(p))
	}
	return h
}

// follow asks Go to set freed when it has freed the memory. stop ends that.
func (h *hold) follow(p cu.HostPtr) {
	if h.onHeap {
		h.tells = runtime.AddCleanup(firstByte(p), func(h *hold) { h.freed.Store(true) }, h)
	}
}

func (h *hold) stop() {
	if h != nil {
		h.tells.Stop()
	}
}

// onHeap reports whether p points into Go's heap. A Pinner keeps only such pointers, and
// nothing else tells: package weak ends the program for memory that is not Go's. If a later
// version of Go hides what a Pinner keeps, no memory is on the heap.
func onHeap(p cu.HostPtr) bool { return pinnerTells() && pinnerKeeps(p) }

// pinnerTells reports whether a Pinner keeps an object of the heap, and no variable.
var pinnerTells = sync.OnceValue(func() bool {
	return pinnerKeeps(new([64]byte)) && !pinnerKeeps(&notOnHeap)
})

var notOnHeap [64]byte

func pinnerKeeps(p any) (yes bool) {
	defer func() { _ = recover() }() // an arena of Go refuses to be pinned
	var pin runtime.Pinner
	pin.Pin(p)
	defer pin.Unpin()
	return pointersIn(&pin) == 1
}

// pointersIn returns how many pointers a Pinner of Go 1.26 keeps, and 0 for another layout.
func pointersIn(pin any) (n int) {
	defer func() { _ = recover() }() // package reflect panics where the layout is another one
	return reflect.ValueOf(pin).Elem().Field(0).Elem().FieldByName("refs").Len()
}

// collected reports whether the program cannot reach the memory any more. A finalizer can
// still bring it back.
func (h *hold) collected() bool { return h != nil && h.onHeap && h.start.Value() == nil }

// unmapped reports whether the first or the last page is not mapped any more. It asks the
// operating system.
func (h *hold) unmapped() bool { return h != nil && !h.onHeap && (!mapped(h.from) || !mapped(h.end-1)) }

// suspect is a finding of registered memory that was seen to be collected. It is reported
// when Go has freed the memory, and forgotten if a finalizer has ended the registration before.
type suspect struct {
	f Finding
	m *memory
}

// mostSuspects bounds the suspects that are remembered.
const mostSuspects = 64

// suspect remembers a finding. The caller holds mu.
func (d *Driver) suspect(f Finding, m *memory) {
	if len(d.suspects) < mostSuspects {
		d.suspects = append(d.suspects, suspect{f, m})
		return
	}
	d.gaveUp(gaveUpSuspects, 1)
}

// convict reports the suspects whose memory Go has freed, and those of a context that ends
// while their memory is registered; 0 for none. The caller holds mu.
func (d *Driver) convict(ends cu.Context) {
	rest := d.suspects[:0]
	for _, s := range d.suspects {
		switch {
		case s.m.dead: // unregistered
		case s.m.hold.freed.Load() || s.m.ctx == ends:
			d.report(s.f)
		default:
			rest = append(rest, s)
		}
	}
	clear(d.suspects[len(rest):])
	d.suspects = rest
}

// missing looks for registered memory that an operation in flight uses, and that no longer
// exists. A call that waits calls missing after its wait: until then the host did not know that
// the operation was done, so the memory had to exist. The caller holds mu.
func (d *Driver) missing(c *call) {
	rest := d.held[:0]
	for _, m := range d.held {
		b := d.inFlight(m, flat(m.base, m.end-m.base), frees, ^uint64(0))
		switch {
		case m.dead || b == nil:
			m.held = false
		case c.reach.At(b.op.slot) < b.op.n: // it may still run
			rest = append(rest, m)
		case m.hold.collected():
			m.held = false
			d.suspect(d.gone(Collected, "memory that an operation uses was garbage collected", c, b), m)
		case m.hold.unmapped():
			m.held = false
			d.report(d.gone(Unmapped, "memory that an operation uses was unmapped", c, b))
		default:
			rest = append(rest, m)
		}
	}
	clear(d.held[len(rest):])
	d.held = rest
	d.convict(0)
}

// gone describes an operation in flight whose memory is not there any more.
func (d *Driver) gone(kind, what string, c *call, b *access) Finding {
	f := Finding{Kind: kind, What: what, First: d.side(b), Second: &Side{Call: c.name, Place: d.place(c.site), site: c.site, Access: "waits"}, Mend: mendGone[kind]}
	d.about(&f, b.m)
	f.Missing = "the host has not waited for " + b.op.lane.name + " while it had the memory"
	return f
}

// mendGone has the mends of memory that is not there any more.
var mendGone = map[string]string{
	Collected: "keep the slice until the driver has ended with it, by runtime.KeepAlive or runtime.Pinner, and unregister it; ferry.Register does that",
	Unmapped:  "wait for the operation, unregister the memory, and unmap it then",
}

// usedGone notes that the call uses a registration whose memory was collected: the address
// can be another object's. The caller holds mu.
func (c *call) usedGone(m *memory, at uint64, how mode) {
	if !m.hold.collected() {
		return
	}
	f := Finding{Kind: Collected, What: "an operation uses a registration whose memory was garbage collected", Mend: mendGone[Collected],
		Second: &Side{Call: c.name, Place: c.d.place(c.site), site: c.site, Stream: c.lane.name, Access: how.String(), Offset: at - m.base}}
	c.d.about(&f, m)
	c.d.suspect(f, m)
}

// ordinary is ordinary memory that a node of a graph uses at each launch.
type ordinary struct {
	h    *hold
	call string
	site int
	how  mode
}

// keeps says that a captured copy uses host memory at p when the graph is launched.
func (c *call) keeps(p cu.HostPtr, bytes uintptr, how mode) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if p == nil || bytes == 0 || c.lane == nil || c.lane.capture == nil {
		return
	}
	if m, _ := c.d.memories.find(addressOf(p)); m != nil {
		return
	}
	if h := newHold(p, bytes); h.onHeap {
		c.ordinary = append(c.ordinary, ordinary{h, c.name, c.site, how})
	}
}

// launches looks for ordinary memory of a graph that was collected before this launch. The
// caller holds mu.
func (c *call) launches(k *content) {
	for _, o := range k.ordinary {
		if o.h.collected() {
			c.pending = append(c.pending, Finding{Kind: Collected, What: "a graph uses ordinary memory that was garbage collected", Memory: pageable.String(),
				First:  &Side{Call: o.call + " of a graph", Place: c.d.place(o.site), site: o.site, Access: o.how.String(), Bytes: o.h.end - o.h.from},
				Second: &Side{Call: c.name, Place: c.d.place(c.site), site: c.site, Stream: c.lane.name},
				Mend:   "keep the slice while the graph can be launched, by runtime.KeepAlive or runtime.Pinner"})
		}
	}
}
