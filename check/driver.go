package check

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/vclock"
)

// Driver is a [cu.Driver] that watches the calls of another one. It passes on each call
// unchanged. Of its own it asks for the attributes of host memory that it does not know
// (cuPointerGetAttributes). It is safe for concurrent use if that driver is.
// If Wrap did not make it, or the wrapped driver is nil, Init returns an error, and the other
// calls may panic.
type Driver struct {
	inner   cu.Driver
	o       Options
	sites   *callsite.Finder
	inHost  hostFuncs
	serial  atomic.Uint64 // operations so far
	perCall bool          // launches return when the kernel is done
	lost    atomic.Bool

	unwritten atomic.Bool // there are findings to write
	writing   sync.Mutex  // held while findings are written; before mu

	mu       sync.Mutex
	orders   orders
	memories memories
	pageable memory
	graphs   map[cu.Graph]*content
	execs    map[cu.GraphExec]*executable
	contexts map[cu.Context]*contextUse
	launches uint64
	stale    []stalePointer
	held     []*memory // registered memory of operations that may be in flight
	sources  []source  // of copies that may be in flight
	suspects []suspect
	exact    bool // the accesses of kernels are watched
	found    findings
	given    []GaveUp // not counted yet
	limits   checks.Limits
}

// Unwrap returns the wrapped driver.
func (d *Driver) Unwrap() cu.Driver {
	if d == nil {
		return nil
	}
	return d.inner
}

// errNoDriver is the error of Init if there is no driver to pass it on to.
var errNoDriver = fmt.Errorf("cuInit: %w: the driver was not made by Wrap, or of no driver", cu.ErrorNotInitialized)

// noStream is the stream of a call without one.
const noStream = ^cu.Stream(0)

// call is a driver call in progress.
type call struct {
	d    *Driver
	name string
	ctx  cu.Context
	site int

	lane     *lane    // of an operation to queue
	accesses []access // of it
	after    waiting
	reach    vclock.Clock // what the host knows when the call has succeeded
	pending  []Finding
	signals  bool        // the operation writes memory that the host can read while it runs
	shows    bool        // the host can know from that memory that the operation is done
	forValue bool        // the operation waits for a value
	early    bool        // returns before its bytes have arrived
	joins    []*lane     // default streams that the operation is ordered with, too
	ordinary []ordinary  // memory that a captured copy uses
	exec     *executable // that the call launches
	freeing  *memory
	event    *event     // that the call destroys
	source   cu.HostPtr // of a copy from page-locked memory; nil if it is not watched
	sum      uint64     // of its bytes
}

// waiting is what a call that queues an operation waits for.
type waiting uint8

const (
	waitsForNothing waiting = iota
	waitsForEarlier         // the work before it in its stream
	waitsForItself
)

// begin starts a call.
func (d *Driver) begin(name string, ctx cu.Context, stream cu.Stream, bytes uintptr) call {
	c := call{d: d, name: name, ctx: ctx, site: d.sites.Find(3, nil)}
	if d.inHost.any() && d.inHost.is() && !callsite.ByLibrary() { // Ferry's own calls expect to be refused
		d.hostCall(&c)
	}
	return c
}

// end ends a call and returns err.
func (c *call) end(err error) error {
	d := c.d
	if isFailure(err) {
		c.refused()
		d.noteFault(err)
		return err
	}
	if err != nil || c.lane == nil && c.reach == nil && len(c.pending) == 0 {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range c.pending {
		d.report(f)
	}
	if c.lane != nil {
		d.queue(c)
	}
	if c.reach != nil && c.lane == nil && c.freeing == nil {
		d.missing(c)
	}
	d.learns(c, c.reach)
	return nil
}

// panicked is called at the end of each call, also when the driver panics.
func (c *call) panicked() { c.d.write() }

// refused is for a call that the driver has refused. It reports the freed memory that the call used.
func (c *call) refused() {
	d := c.d
	for i := range c.accesses {
		a := &c.accesses[i]
		d.mu.Lock()
		if a.m.dead && a.op == nil && c.freeing == nil {
			a.op = &operation{call: c.name, site: c.site, lane: c.lane}
			d.usedAfterFree(a)
		}
		d.mu.Unlock()
	}
	for _, f := range c.pending {
		if f.Kind == OutOfRange && !callsite.ByLibrary() { // Ferry's own calls can do without
			d.mu.Lock()
			d.report(f)
			d.mu.Unlock()
		}
	}
}

// isFailure reports whether err is an error, and not the answer "not ready".
func isFailure(err error) bool { return err != nil && !errors.Is(err, cu.ErrorNotReady) }

// noteFault notes that a call has failed, if the context is lost.
func (d *Driver) noteFault(err error) {
	code, ok := errors.AsType[cu.Result](err)
	if !ok || !code.Sticky() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if code == cu.ErrorIllegalAddress && !d.lost.Load() {
		d.faulted()
	}
	d.lost.Store(true) // nothing is in flight any more
}

// queue adds the operation of a call to its stream, and reports what conflicts with it. The
// caller holds mu.
func (d *Driver) queue(c *call) {
	l, o := c.lane, &d.orders
	if l.capture != nil {
		d.capture(c)
		return
	}
	if l.blocking {
		l.after = o.reach(l)
	}
	for _, x := range c.joins {
		l.after = l.after.Join(o.reach(x))
	}
	if c.exec != nil {
		l.after = l.after.Join(c.exec.after)
	}
	if c.after == waitsForEarlier {
		d.learns(c, l.after)
	}
	op := &operation{call: c.name, site: c.site, lane: l, slot: l.slot, n: o.next(l), serial: d.serial.Add(1), early: c.early}
	if c.forValue {
		o.waitsForValue(l, op.n)
	}
	op.value = c.forValue || o.behindValue(l)
	if c.signals {
		o.maybe = o.maybe.Join(l.after)
	}
	if c.shows || c.signals && c.exec != nil { // the nodes of a graph are one operation
		o.maybe = o.maybe.With(vclock.Point{Chain: l.slot, N: op.n})
	}
	for i := range c.accesses {
		a := &c.accesses[i]
		if a.op == nil {
			a.op = op
		} else { // a node of a graph
			a.op = &operation{call: a.op.call, site: c.site, lane: l, slot: op.slot, n: op.n, serial: op.serial, graph: true, value: op.value}
		}
		if a.m.dead && a.mode != frees {
			d.usedAfterFree(a)
			continue
		}
		if a.mode != reads && len(d.sources) > 0 { // the device may write the memory from now on
			d.compareSources(c, func(b *access) bool { return b.m == a.m })
		}
		d.meet(a)
		if a.mode == frees {
			a.m.accesses = nil
		}
	}
	d.keepSource(c)
	o.done(l, op.n)
	if c.exec != nil {
		c.exec.after = l.after
	}
	for _, x := range c.joins {
		x.after = x.after.Join(l.after)
	}
	if c.after == waitsForItself {
		d.learns(c, l.after)
	}
}

// learns notes that the host knows the operations of a clock to be done, because the call has
// returned. The caller holds mu.
func (d *Driver) learns(c *call, k vclock.Clock) {
	d.compareSources(c, func(b *access) bool { return k.At(b.op.slot) >= b.op.n })
	d.orders.knows(k)
}

// meet compares an access with those of its memory, and adds it. The caller holds mu.
func (d *Driver) meet(a *access) {
	o, l := &d.orders, a.op.lane
	a.m.trackWritten(a, d, d.launches)
	if a.m.hold != nil && !a.m.held {
		a.m.held, d.held = true, append(d.held, a.m)
	}
	forgotten := a.meet(&a.m.accesses,
		func(b *operation) bool { return l.after.At(b.slot) >= b.n },
		func(b *operation) bool { return o.host.At(b.slot) >= b.n },
		func(b *access) {
			switch {
			case a.mode != frees && (a.op.value || b.op.value) && a.op.slot != b.op.slot:
				d.gaveUp(gaveUpValues, 1)
			case o.maybe.At(b.op.slot) < b.op.n:
				d.conflict(b, a)
			}
		})
	if forgotten > 0 {
		d.gaveUp(gaveUpAccesses, forgotten)
	}
}

// inFlight returns the first use of memory that the host does not know to be done and that
// conflicts with a use by the host, among the operations up to a number. The caller holds
// mu.
func (d *Driver) inFlight(m *memory, x box, how mode, serial uint64) *access {
	if d.lost.Load() {
		return nil
	}
	for i := range m.accesses {
		b := &m.accesses[i]
		if b.op.serial <= serial && d.orders.host.At(b.op.slot) < b.op.n && d.orders.maybe.At(b.op.slot) < b.op.n && how.conflicts(b.mode) && x.hits(&b.x) {
			return b
		}
	}
	return nil
}

// kernelInFlight returns the first kernel that got the address of a byte of a box and that the
// host does not know to be done, as inFlight does for copies. A caller that may write the bytes
// must wait for each kernel that may use them. Package ferry does, for kernels that it knows.
func (d *Driver) kernelInFlight(m *memory, x box, serial uint64) *access {
	if d.lost.Load() {
		return nil
	}
	for i := range m.accesses {
		b := &m.accesses[i]
		if b.mode == uses && b.getsIn(&x) && b.op.serial <= serial && d.orders.host.At(b.op.slot) < b.op.n && d.orders.maybe.At(b.op.slot) < b.op.n {
			return b
		}
	}
	return nil
}

// Issued returns the number of operations so far, for WatchHost.
func (d *Driver) Issued() uint64 {
	if d == nil {
		return 0
	}
	return d.serial.Load()
}

// WatchHost notes that the host is about to read or write bytes at p, after package ferry has
// waited for the operations on them. issued is the number of operations before that wait. Later
// operations are of other goroutines. Package ferry calls WatchHost for Slice and ReadSlice.
func (d *Driver) WatchHost(p cu.HostPtr, bytes uintptr, write bool, issued uint64) {
	if bytes == 0 || d == nil || d.inner == nil {
		return
	}
	c := call{d: d, name: "the host", site: d.sites.Find(2, nil)}
	defer d.write()
	d.mu.Lock()
	defer d.mu.Unlock()
	m, at := d.memories.find(addressOf(p))
	if m == nil {
		return
	}
	how := reads
	if write {
		how = writes
	}
	x := flat(at, uint64(bytes))
	b := d.inFlight(m, x, how, issued)
	if b == nil && write {
		b = d.kernelInFlight(m, x, issued)
	}
	if b != nil {
		d.hostConflict(&c, b, x, how)
	}
	if m.kind == pinned && cu.MemHostAllocFlags(m.flags)&cu.MemHostAllocWriteCombined != 0 && !write {
		d.writeCombined(&c, m)
	}
}

// WatchType notes that a kernel gets a buffer, such as a *ferry.Device[float64], for a
// parameter that is a pointer to want, such as float*, whose elements have another size.
// Package ferry calls it for the first launch with each type.
func (d *Driver) WatchType(kernel string, param int, want, buffer string) {
	if d == nil || d.inner == nil {
		return
	}
	site := d.sites.Find(2, nil)
	defer d.write()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.report(Finding{Kind: ArgumentType, Second: &Side{Call: "launch of " + kernel, Place: d.place(site), site: site},
		What: fmt.Sprintf("parameter %d is a %s, and gets a %s", param, want, buffer), Mend: "pass a buffer whose elements are those of the kernel"})
}
