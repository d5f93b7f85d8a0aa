package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Memory is a run of elements of type T that [Copy], [Fill] and [Stream.Launch] take: a
// [Device], [Host] or [Managed] buffer, a range of one, or a [PageableSlice] of
// ordinary Go memory. No other types implement it.
type Memory[T any] interface {
	// Len is the number of elements.
	Len() int
	// Size is the size in bytes.
	Size() int

	where(*T) *span
}

// spanOf is the memory behind an interface, nil for a nil one.
func spanOf[T any](m Memory[T]) *span {
	if m == nil {
		return nil
	}
	return m.where(nil)
}

// kind is where memory lives and who made it.
type kind uint8

const (
	pageableMemory   kind = iota // ordinary Go memory
	deviceMemory                 // cuMemAlloc
	hostMemory                   // cuMemHostAlloc, or page-locked by Ferry
	registeredMemory             // cuMemHostRegister
	managedMemory                // cuMemAllocManaged
)

func (k kind) String() string {
	return [...]string{"pageable", "device", "page-locked", "registered", "managed"}[k]
}

// onHost reports that copies use the host's address of the memory.
func (k kind) onHost() bool {
	return k == pageableMemory || k == hostMemory || k == registeredMemory
}

// allocation is memory that the driver made or registered. Buffers and their ranges
// refer to it. It knows what is in flight on any of them.
type allocation struct {
	// What every operation reads comes first, in one line of the cache.
	g        *GPU
	kind     kind
	oneGPU   bool // page-locked for one device's context only
	readOnly bool // registered for the device to read
	inflight.Tracker

	number     int64  // to tell buffers apart
	name       string // of the elements; of a variable its own
	count      int
	bytes      uintptr
	host       cu.HostPtr
	dev        cu.DevicePtr
	boundaries []uintptr // where one registration borders on the next, in bytes from host
	leak       runtime.Cleanup

	free  func(*allocation) error // the driver's part of Close
	close func(generation uint32) error
	owner hostmap.Owner // of the host addresses

	module   *inflight.Tracker          // of a variable: its module's, whose kernels use it without being given it
	pooled   any                        // the *pooledBuffer that this is part of; nil if it is none
	entries  []*hostmap.Entry           // of registered memory
	attached atomic.Pointer[attachment] // of managed memory; nil for cu.MemAttachGlobal

	_ [7]uint64 // whole lines of the cache: the allocator then begins it at one
}

// newAllocation describes count elements of T, not yet allocated. It enters the GPU:
// leave it if the allocation fails.
func newAllocation[T any](g *GPU, k kind, count int) (*allocation, error) {
	verb := "allocate"
	if k == registeredMemory {
		verb = "register"
	}
	e, err := elementOf[T]()
	if err != nil {
		return nil, fmt.Errorf("%s %v memory: %w", verb, k, err)
	}
	bytes, err := e.bytes(count)
	if err != nil {
		return nil, fmt.Errorf("%s %v memory: %w", verb, k, err)
	}
	if err := g.enter(fmt.Sprintf("%s %s of %v memory", verb, refusal.Size(bytes), k)); err != nil {
		return nil, err
	}
	g.deferred.run()
	a := &allocation{g: g, kind: k, count: count, name: e.name, bytes: bytes, number: g.bufferCount.Add(1), free: freeMemory}
	a.Init()
	a.close = a.closeNow
	return a, nil
}

// start finishes the making of an allocation.
func (a *allocation) start() {
	a.list()
	a.leak = watchLeak(a, a.String)
}

// list adds the host addresses that the driver made to what Ferry knows by address.
func (a *allocation) list() {
	if a.host == nil || a.bytes == 0 || a.kind == registeredMemory {
		return
	}
	a.own()
	a.g.shared.hosts.Add(&a.owner)
}

// own makes the allocation the owner of its host addresses.
func (a *allocation) own() {
	a.owner.Host, a.owner.Of, a.owner.Kind = a.host, a, a.kind.String()
	a.owner.Start = uint64(deviceAddress(a.host))
	a.owner.End = a.owner.Start + uint64(a.bytes)
}

// unlist undoes list, before the addresses can be other memory's.
func (a *allocation) unlist() {
	if a.owner.Of != nil && a.kind != registeredMemory {
		a.g.shared.hosts.Remove(&a.owner)
	}
}

func (a *allocation) String() string {
	switch {
	case a.module != nil:
		return fmt.Sprintf("%v variable %s (%s) on %s", a.kind, a.name, refusal.Size(a.bytes), a.g.label)
	case a.pooled != nil:
		return fmt.Sprintf("%v buffer %d of a pool (up to %s) on %s", a.kind, a.number, refusal.Size(a.bytes), a.g.label)
	}
	return fmt.Sprintf("%v buffer %d (%d %s, %s) on %s", a.kind, a.number, a.count, a.name, refusal.Size(a.bytes), a.g.label)
}

// errClosed is the error for a use after Close.
func (a *allocation) errClosed() error { return fmt.Errorf("%v: %w", a, ErrClosed) }

// fail leaves the GPU and says what could not be allocated and why.
func (a *allocation) fail(what string, err error, hint string) error {
	a.g.leave()
	if hint != "" {
		hint = ": " + hint
	}
	return fmt.Errorf("%s %s of %v memory on %s: %w%s", what, refusal.Size(a.bytes), a.kind, a.g.label, err, hint)
}

// room is the hint for a request that was too large: how much memory the device has.
func (a *allocation) room(err error) string {
	if !errors.Is(err, cu.ErrorOutOfMemory) {
		return ""
	}
	free, total, err := a.g.driver.MemGetInfo(a.g.ctx)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf("%s of %s are free", refusal.Size(free), refusal.Size(total))
	if a.bytes > total {
		return text + ": the request is larger than the device"
	}
	return text + ": close buffers, or work in parts"
}

// closeNow waits for the hardware and frees. Within a host function, where neither is
// allowed, that is deferred; what a graph will use is left to the graph.
func (a *allocation) closeNow(generation uint32) error {
	if !a.CloseIn(generation) {
		return nil
	}
	a.leak.Stop()
	return a.g.deferred.do(a.drain)
}

// drain waits for the calls that use the closed allocation, and goes on with dispose
// when no graph owns it.
func (a *allocation) drain() error {
	if !a.Drained() {
		if err := a.g.mayWait(); err != nil {
			return err
		}
		a.Drain()
	}
	return a.AfterOwners(func() error { return a.g.deferred.do(a.dispose) })
}

// dispose waits for what is in flight, frees, and leaves the GPU.
func (a *allocation) dispose() error {
	a.unlist()
	if a.BornOn() != nil {
		if freed, err := a.freeInOrder(); freed || inHostFunction(err) {
			return err
		}
	}
	err := a.Wait(context.Background(), inflight.Write)
	if inHostFunction(err) || err != nil && !sticky(err) {
		return fmt.Errorf("close %v: it may be in use and is not freed: %w", a, err)
	}
	if a.bytes > 0 {
		if freeErr := a.free(a); freeErr != nil {
			if inHostFunction(freeErr) {
				return freeErr
			}
			err = freeErr
		}
	}
	a.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", a, err)
	}
	return nil
}

// freeMemory frees device and managed memory.
func freeMemory(a *allocation) error {
	if a.BornOn() != nil {
		return a.g.driver.MemFreeAsync(a.g.ctx, a.dev, 0)
	}
	return a.g.driver.MemFree(a.g.ctx, a.dev)
}

// freeInOrder frees memory in the order of a stream that uses it, after the other
// streams that do: only that stream waits. It is false, and nothing is freed, where
// there is no such stream.
func (a *allocation) freeInOrder() (freed bool, err error) {
	if a.bytes == 0 {
		return false, nil
	}
	st := stateOfStream(a.BornOn())
	var busy []*streamState
	for s := range a.Pending(inflight.Write) {
		busy = append(busy, stateOfStream(s))
	}
	if len(busy) > 0 && !slices.Contains(busy, st) {
		st = busy[0]
	}
	var op inflight.Op
	if !st.g.sameContext(a.g) || st.g.released.Load() || !op.Begin(&st.Stream) {
		return false, nil
	}
	defer op.End()
	for _, other := range busy {
		if other == st {
			continue
		}
		if ok, err := st.followStream(other); !ok {
			return false, err
		}
	}
	if err := st.g.driver.MemFreeAsync(st.g.ctx, a.dev, st.handle); err != nil {
		return false, err
	}
	op.Queued()
	a.g.leave()
	return true, nil
}

// waitForAllocation lets a stream wait, once, for memory that was allocated in the
// order of another stream.
func waitForAllocation(t *inflight.Tracker, st *streamState) error {
	first := t.MustFollow(&st.Stream)
	if first == nil {
		return nil
	}
	home := stateOfStream(first)
	ok, err := st.followStream(home)
	if err == nil && !ok { // home is closed
		err = home.Wait(context.Background())
	}
	if err != nil {
		return fmt.Errorf("wait for its allocation on %v: %w", home, err)
	}
	t.Follows(&st.Stream)
	return nil
}

// addressOn is the address of mapped host memory in kernels of a GPU.
func (a *allocation) addressOn(g *GPU) (cu.DevicePtr, error) {
	host, off := a.host, uint64(0)
	if len(a.entries) > 0 { // the first may begin before the buffer
		host = a.entries[0].Host
		off = a.owner.Start - a.entries[0].Start
	}
	p, err := g.driver.MemHostGetDevicePointer(g.ctx, host, 0)
	return p + cu.DevicePtr(off), err
}

// span is a buffer or a range of one, or pageable memory.
type span struct {
	a          *allocation // nil for pageable memory
	generation uint32      // of the allocation
	part       bool        // made by Range
	untracked  bool        // pageable by its owner, but page-locked: the hardware may use it after a call has returned
	dstOf      direction   // the copies to this memory that are one call of the driver
	srcOf      direction   // the same of copies from it
	host       cu.HostPtr  // nil for device memory
	dev        cu.DevicePtr
	n          int
	bytes      uintptr
	bad        error // why a range does not exist
}

// direction is that of a copy between page-locked and device memory.
type direction uint8

const (
	hostToDevice direction = 1 << iota
	deviceToHost
)

// whole is the span of all of an allocation.
func (a *allocation) whole() span {
	r := span{a: a, host: a.host, dev: a.dev, n: a.count, bytes: a.bytes}
	switch {
	case a.kind == deviceMemory && a.BornOn() == nil:
		r.dstOf, r.srcOf = hostToDevice, deviceToHost
	case a.kind != hostMemory && a.kind != registeredMemory || len(a.boundaries) > 0:
	case a.readOnly:
		r.srcOf = hostToDevice
	default:
		r.dstOf, r.srcOf = deviceToHost, hostToDevice
	}
	return r
}

func (r *span) len() int {
	if r == nil {
		return 0
	}
	return r.n
}

func (r *span) size() int {
	if r == nil {
		return 0
	}
	return int(r.bytes)
}

func (r *span) pointer() cu.DevicePtr {
	if r == nil {
		return 0
	}
	return r.dev
}

func (r *span) String() string {
	switch {
	case r == nil:
		return "no buffer"
	case r.a == nil:
		return fmt.Sprintf("a pageable slice (%d elements, %s)", r.n, refusal.Size(r.bytes))
	case r.part:
		return fmt.Sprintf("%s of %v", refusal.Size(r.bytes), r.a)
	}
	return r.a.String()
}

// kind is where the memory lives.
func (r *span) kind() kind {
	if r.a == nil {
		return pageableMemory
	}
	return r.a.kind
}

// isPageable reports that a span is a pageable slice, which may yet lie in a buffer.
func (r *span) isPageable() bool { return r != nil && r.a == nil && r.bad == nil && r.bytes > 0 }

// sub is elements i to j. A bad range is a span whose every use is an error.
func (r *span) sub(i, j int) span {
	switch {
	case r == nil:
		return span{bad: refusal.Invalid("range [%d:%d] of no buffer (nil)", i, j)}
	case r.bad != nil:
		return *r
	case i < 0 || j < i || j > r.n:
		return span{a: r.a, generation: r.generation, part: true, bad: refusal.Invalid("range [%d:%d] of %v: it has elements 0 to %d", i, j, r, r.n)}
	}
	size := uintptr(0)
	if r.n > 0 {
		size = r.bytes / uintptr(r.n)
	}
	out := r.cut(size*uintptr(i), size*uintptr(j-i))
	out.part, out.n = true, j-i
	return out
}

// cut is n bytes of a span from byte off on. It counts bytes as elements, unless it is
// all of the span.
func (r *span) cut(off, n uintptr) span {
	out := *r
	out.part = out.part || n != r.bytes
	if r.bytes != n {
		out.n = int(n)
	}
	out.bytes = n
	out.host = addressAt(r.host, off)
	if r.dev != 0 {
		out.dev += cu.DevicePtr(off)
	}
	return out
}

// check refuses what is no memory.
func (r *span) check() error {
	if r == nil {
		return refusal.Invalid("no buffer given (nil)")
	}
	return r.bad
}

// acquire counts an operation as a user of the memory. Pageable memory has no users.
func (r *span) acquire(op *inflight.Op, st *streamState, a inflight.Access) error {
	if err := r.check(); err != nil || r.a == nil {
		return err
	}
	if !op.Acquire(&r.a.Tracker, a, r.generation) {
		return r.a.errClosed()
	}
	if r.a.BornOn() == nil {
		return nil
	}
	if err := waitForAllocation(&r.a.Tracker, st); err != nil {
		return fmt.Errorf("%v: %w", r, err)
	}
	return nil
}

// enter counts a use outside of streams. leave ends it.
func (r *span) enter() error {
	if err := r.check(); err != nil {
		return err
	}
	if r.a != nil && !r.a.EnterIn(r.generation) {
		return r.a.errClosed()
	}
	return nil
}

func (r *span) leave() {
	if r.a != nil {
		r.a.Leave()
	}
}

// waitHost waits until the host may access the memory.
func (r *span) waitHost(ctx context.Context, a inflight.Access) error {
	if err := r.enter(); err != nil {
		return fmt.Errorf("host access: %w", err)
	}
	defer r.leave()
	if r.a == nil {
		return nil
	}
	err := r.waitInFlight(ctx, a)
	if err == nil && r.a.module != nil {
		err = r.a.module.Wait(ctx, inflight.Write)
	}
	if err == nil && r.a.kind == managedMemory && !r.a.g.caps.concurrentManaged {
		err = r.a.waitTurn(ctx)
	}
	if e := r.a.g.emulated; err == nil && e != nil && r.host != nil && r.bytes > 0 {
		err = e.HostAccess(r.host, r.bytes, a == inflight.Write)
	}
	if err != nil {
		return fmt.Errorf("host access to %v: %w", r, err)
	}
	return nil
}

// waitInFlight waits for operations in flight that conflict with an access, also
// those on the same bytes by way of other registered buffers.
func (r *span) waitInFlight(ctx context.Context, a inflight.Access) error {
	if err := r.a.Wait(ctx, a); err != nil || !r.a.owner.Shared.Load() {
		return err
	}
	start := r.address()
	for _, o := range r.a.g.shared.hosts.Sharing(&r.a.owner, start, start+uint64(r.bytes)) {
		if err := o.Of.(*allocation).Wait(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// close closes the allocation. For a range or a variable it does nothing.
func (r *span) close() error {
	if r == nil || r.a == nil || r.part || r.a.module != nil {
		return nil
	}
	return r.a.close(r.generation)
}

// address is where the span is, to compare it with others of the same kind.
func (r *span) address() uint64 {
	if r.host != nil {
		return uint64(deviceAddress(r.host))
	}
	return uint64(r.dev)
}

// reachableFrom refuses memory that operations of a GPU cannot use.
func (r *span) reachableFrom(g *GPU) error {
	if r.a == nil || r.a.g == g || r.bytes == 0 {
		return nil
	}
	home := r.a.g
	switch {
	case !sameDriver(home.driver, g.driver):
		return refusal.Invalid("%v belongs to another driver than %s: copy it through a pageable slice", r.String(), g.label)
	case home.device == g.device && home.ctx == g.ctx:
		return nil
	case r.a.oneGPU:
		return refusal.Invalid("%v is page-locked for %s alone, not for %s: allocate it without NotPortable", r.String(), home.label, g.label)
	}
	return nil
}

// addressOn is the span's address in kernels of a GPU that can use it. Mapped host
// memory may have another one on each.
func (r *span) addressOn(g *GPU) (cu.DevicePtr, error) {
	if r.a == nil || r.a.g.sameContext(g) || r.bytes == 0 || !r.kind().onHost() || r.dev == deviceAddress(r.host) {
		return r.dev, nil
	}
	p, err := r.a.addressOn(g)
	if err != nil {
		return 0, fmt.Errorf("the address of %v on %s: %w", r.String(), g.label, err)
	}
	return p + (r.dev - r.a.dev), nil
}

// unmapped refuses host memory that kernels cannot address.
func (r *span) unmapped() error {
	return refusal.Invalid("%v has no address on the device: make it with Mapped", r.String())
}

// crossesBoundary reports that a span may consist of several registrations.
func (r *span) crossesBoundary() bool { return r.a != nil && len(r.a.boundaries) > 0 }

// toBoundary is how many bytes of a span, from byte off on, are one registration's.
func (r *span) toBoundary(off uintptr) uintptr {
	n := r.bytes - off
	if !r.crossesBoundary() {
		return n
	}
	at := uintptr(r.address()-r.a.owner.Start) + off
	for _, b := range r.a.boundaries {
		if b > at {
			return min(n, b-at)
		}
	}
	return n
}

// hostSlice is the elements of a span when the host may access them.
func hostSlice[T any](ctx context.Context, r *span, a inflight.Access) ([]T, error) {
	if err := r.waitHost(ctx, a); err != nil {
		return nil, err
	}
	return sliceAt[T](r.host, r.n), nil
}

// mustSlice is hostSlice without an end. It panics with the error.
func mustSlice[T any](r *span, a inflight.Access) []T {
	s, err := hostSlice[T](context.Background(), r, a)
	if err != nil {
		panic(err)
	}
	return s
}
