package ferry

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// Memory is a run of elements of type T that [Copy], [Fill] and [Stream.Launch]
// take: a [Device], [Host] or [Managed] buffer, a range of one, or a [Slice] of
// ordinary Go memory. No other types implement it.
type Memory[T any] interface {
	// Len is the number of elements.
	Len() int
	// Bytes is the size in bytes.
	Bytes() int

	where(*T) *region
}

// region is a buffer or a range of one.
type region struct {
	a      *allocation // nil for plain memory
	age    uint32      // the generation of the allocation that this is of
	part   bool        // made by Range
	settle bool        // plain, but page-locked: the hardware may use it after a call returned; a is nil
	into   way         // the way of a copy to it, where that may be one call of the driver
	outOf  way         // the same of a copy from it
	host   cu.HostPtr  // nil for device memory
	dev    cu.DevicePtr
	n      int
	bytes  uintptr
	bad    error // why a range is none
}

// whole is the region of all of an allocation.
func (a *allocation) whole() region {
	into, outOf := a.ways()
	return region{a: a, into: into, outOf: outOf, host: a.host, dev: a.dev, n: a.count, bytes: a.bytes}
}

func (r *region) len() int {
	if r == nil {
		return 0
	}
	return r.n
}

func (r *region) size() int {
	if r == nil {
		return 0
	}
	return int(r.bytes)
}

func (r *region) pointer() cu.DevicePtr {
	if r == nil {
		return 0
	}
	return r.dev
}

func (r *region) String() string {
	switch {
	case r == nil:
		return "no buffer"
	case r.a == nil:
		return fmt.Sprintf("a plain slice (%d elements, %s)", r.n, sizeText(r.bytes))
	case r.part:
		return fmt.Sprintf("%s of %v", sizeText(r.bytes), r.a)
	}
	return r.a.String()
}

// kind is where the memory lives.
func (r *region) kind() kind {
	if r.a == nil {
		return plainMemory
	}
	return r.a.kind
}

// isOf says that the region is of a buffer of a GPU that nothing stands between, as
// an allocation in stream order or the turns of managed memory.
func (r *region) isOf(g *GPU) bool {
	return r.a != nil && r.a.g == g && r.a.direct
}

// sub is elements i to j. A bad range is a region whose every use is an error.
func (r *region) sub(i, j int) region {
	switch {
	case r == nil:
		return region{bad: refuse("range [%d:%d] of no buffer (nil)", i, j)}
	case r.bad != nil:
		return *r
	case i < 0 || j < i || j > r.n:
		return region{a: r.a, age: r.age, part: true, bad: refuse("range [%d:%d] of %v: it has elements 0 to %d", i, j, r, r.n)}
	}
	out := *r
	out.part, out.n = true, j-i
	if r.n > 0 {
		size := r.bytes / uintptr(r.n)
		out.bytes = size * uintptr(j-i)
		out.host = addressAt(r.host, size*uintptr(i))
		if r.dev != 0 {
			out.dev += cu.DevicePtr(size * uintptr(i))
		}
	}
	return out
}

// check refuses what is no memory.
func (r *region) check() error {
	if r == nil {
		return refuse("no buffer given (nil)")
	}
	return r.bad
}

// enter starts a use outside of streams; leave ends it.
func (r *region) enter() error {
	if err := r.check(); err != nil {
		return err
	}
	if r.a != nil && !r.a.life.enterOf(r.age) {
		return r.a.errClosed()
	}
	return nil
}

func (r *region) leave() {
	if r.a != nil {
		r.a.leave()
	}
}

// begin starts an operation of q; end ends it, with its number or 0. Plain memory
// has no lane.
func (r *region) begin(q *queue, a access) (*lane, error) {
	if err := r.check(); err != nil || r.a == nil {
		return nil, err
	}
	l := r.a.beginOf(q, a, r.age)
	if l == nil {
		return nil, r.a.errClosed()
	}
	if err := r.a.ordered(q); err != nil {
		r.a.end(l, a, 0)
		return nil, fmt.Errorf("%v: %w", r, err)
	}
	return l, nil
}

func (r *region) end(l *lane, a access, seq uint64) {
	if l != nil {
		r.a.end(l, a, seq)
	}
}

// ready waits until the host may access the memory.
func (r *region) ready(ctx context.Context, a access) error {
	if err := r.enter(); err != nil {
		return fmt.Errorf("host access: %w", err)
	}
	defer r.leave()
	if r.a == nil {
		return nil
	}
	err := r.a.wait(ctx, a)
	if err == nil && r.a.overlapped.Load() {
		err = r.readyElsewhere(ctx, a)
	}
	if err == nil && r.a.module != nil { // its kernels need not be given it
		err = r.a.module.wait(ctx, writes)
	}
	if err == nil && r.a.kind == managedMemory && !r.a.g.caps.concurrentManaged {
		err = r.a.takeTurn(func(q *queue) error { return q.settle(ctx) })
	}
	if err != nil {
		return fmt.Errorf("host access to %v: %w", r, err)
	}
	if e := r.a.g.emulated; e != nil && r.host != nil && r.bytes > 0 {
		if err := e.HostAccess(r.host, r.bytes, a == writes); err != nil {
			return fmt.Errorf("host access to %v: %w", r, err)
		}
	}
	return nil
}

// readyElsewhere waits for what is in flight on the same bytes by way of other
// registered buffers.
func (r *region) readyElsewhere(ctx context.Context, a access) error {
	for _, b := range r.a.g.shared.sharing(r) {
		if err := b.wait(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// close frees the allocation; of a range it does nothing.
func (r *region) close() error {
	if r == nil || r.a == nil || r.part || r.a.module != nil {
		return nil
	}
	if r.a.block != nil {
		return r.a.giveBack(r.age)
	}
	return r.a.close()
}

// reach checks that operations on g can use the memory.
func (r *region) reach(g *GPU) error {
	if r.a == nil || r.a.g == g || r.bytes == 0 {
		return nil
	}
	home := r.a.g
	switch {
	case !sameDriver(home.driver, g.driver):
		return refuse("%v belongs to another driver than %s: copy it through a plain slice", r.String(), g.label)
	case home.device == g.device && home.ctx == g.ctx:
		return nil
	case r.a.only:
		return refuse("%v is page-locked for %s alone, not for %s: allocate it without NotPortable", r.String(), home.label, g.label)
	}
	return nil
}

// addressOn is the region's address in kernels of a GPU that can use it: mapped
// host memory may have one of its own on each.
func (r *region) addressOn(g *GPU) (cu.DevicePtr, error) {
	if r.a == nil || r.a.g == g || r.a.g.ctx == g.ctx || r.bytes == 0 || !r.kind().onHost() || r.dev == deviceAddress(r.host) {
		return r.dev, nil
	}
	p, err := r.a.addressOn(g)
	if err != nil {
		return 0, fmt.Errorf("the address of %v on %s: %w", r.String(), g.label, err)
	}
	return p + (r.dev - r.a.dev), nil
}

// sameDriver compares drivers, of which some types cannot be.
func sameDriver(a, b cu.Driver) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}
