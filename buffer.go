package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/unordered"
	"github.com/ferrygpu/ferry/internal/virtual"
)

// Memory is a run of elements of type T that [Copy], [Fill] and [Stream.Launch] take: a
// [Device], [Host] or [Managed] buffer, a range of a buffer, a [PageableSlice] of ordinary Go
// memory, or a [MemoryView] of one of these. No other types implement it.
type Memory[T any] interface {
	// Len returns the number of elements.
	Len() int
	// Size returns the size in bytes.
	Size() int

	asSpan(*T) *span
}

// spanOf returns the span of a Memory. It returns nil for nil.
func spanOf[T any](m Memory[T]) *span {
	if m == nil {
		return nil
	}
	return m.asSpan(nil)
}

// kind is where memory is and which call made it.
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

// onHost reports whether copies use the host address of the memory.
func (k kind) onHost() bool {
	return k == pageableMemory || k == hostMemory || k == registeredMemory
}

// allocation is memory that the driver made or registered. Buffers and their ranges refer
// to it, and it tracks the operations in flight on all of them.
type allocation struct {
	// Every operation reads the fields up to the start of the Tracker. They share one
	// cache line.
	g        *GPU
	kind     kind
	oneGPU   bool        // page-locked for the context of one device only
	readOnly atomic.Bool // the device may only read it, or the library says so
	inflight.Tracker

	number     int64  // identifies the buffer in messages
	name       string // of the element type, or of a variable
	count      int
	bytes      uintptr
	host       cu.HostPtr
	dev        cu.DevicePtr
	boundaries []uintptr // between registrations, in bytes from host
	leak       runtime.Cleanup

	free  func(*allocation) error       // frees the memory
	close func(generation uint32) error // implements Close
	owner hostmap.Owner                 // of the host addresses

	module   *inflight.Tracker          // module of a variable: its kernels use the variable without an argument
	pooled   any                        // the *pooledBuffer that contains this; nil if there is none
	entries  []*hostmap.Entry           // of registered memory
	attached atomic.Pointer[attachment] // of managed memory; nil means cu.MemAttachGlobal
	retry    closing.Retry              // the next Close disposes: the wait or the free of the last one failed
	rows     *pitchedRows               // of AllocPitched; nil for other memory
	wrap     *wrapping                  // of memory that another library made; nil for other memory
	virtual  *virtual.Memory            // of AllocVirtual and Import; nil for other memory
	placed   account.Buffer             // of device and managed memory: see RecordPlaces

	_ [5]uint64 // pads to whole cache lines, so that the allocator aligns it to them
}

// wrapping is what an allocation has if another library made its memory.
type wrapping struct {
	release  func() error // nil if the caller keeps the memory
	released bool         // release was called, or there is none
	in       *hostmap.Map // which has the addresses
	pool     bool         // it is device memory of a pool, whose access the driver knows
}

// newAllocation describes count elements of T that are not allocated yet. It enters the
// GPU. The caller must leave the GPU if the allocation fails.
func newAllocation[T any](g *GPU, k kind, count int) (*allocation, error) {
	verb := "allocate"
	if k == registeredMemory {
		verb = "register"
	}
	return describeMemory[T](verb, g, k, count)
}

// describeMemory is newAllocation with the verb of its errors.
func describeMemory[T any](verb string, g *GPU, k kind, count int) (*allocation, error) {
	e, err := kernelargs.ElementOf[T]()
	if err != nil {
		return nil, fmt.Errorf("%s %v memory: %w", verb, k, err)
	}
	bytes, err := e.Bytes(count)
	if err != nil {
		return nil, fmt.Errorf("%s %v memory: %w", verb, k, err)
	}
	if err := g.enter(fmt.Sprintf("%s %s of %v memory", verb, refusal.Size(bytes), k)); err != nil {
		return nil, err
	}
	a := &allocation{g: g, kind: k, count: count, name: e.Name, bytes: bytes, number: g.bufferCount.Add(1), free: freeMemory}
	a.Init()
	a.close = a.closeNow
	return a, nil
}

// start completes an allocation whose memory exists.
func (a *allocation) start() {
	a.list()
	if a.bytes > 0 && !a.kind.onHost() && a.wrap == nil && a.virtual == nil {
		a.placed.Made(&a.g.account.Places, a.kind.String(), int(a.bytes))
	}
	a.leak = leak.Watch(a, a.String)
}

// list adds the host addresses of memory that the driver made to the host map. Registered
// and wrapped memory is in the host map already.
func (a *allocation) list() {
	if a.host == nil || a.bytes == 0 || a.kind == registeredMemory || a.wrap != nil {
		return
	}
	a.own()
	a.g.hosts.Add(&a.owner)
}

// own fills in the owner of the allocation's addresses: those of the host, if it has any.
func (a *allocation) own() {
	a.owner.Host, a.owner.Of, a.owner.Kind = a.host, a, a.kindText()
	if a.owner.Start = uint64(a.dev); a.host != nil {
		a.owner.Start = uint64(address.Device(a.host))
	}
	a.owner.End = a.owner.Start + uint64(a.bytes)
}

// unlist removes from the host map what list added. It must be called before the driver
// can give the addresses to other memory.
func (a *allocation) unlist() {
	if a.owner.Of != nil && a.kind != registeredMemory && a.wrap == nil {
		a.g.hosts.Remove(&a.owner)
	}
}

func (a *allocation) String() string {
	switch {
	case a.module != nil:
		return fmt.Sprintf("%v variable %s (%s) on %s", a.kind, a.name, refusal.Size(a.bytes), a.g.label)
	case a.virtual != nil && !a.virtual.Shares():
		return fmt.Sprintf("virtual %v buffer %d (up to %d %s, %s) on %s", a.kind, a.number, a.count, a.name, refusal.Size(a.bytes), a.g.label)
	case a.pooled != nil:
		return fmt.Sprintf("%v buffer %d of a pool (up to %s) on %s", a.kind, a.number, refusal.Size(a.bytes), a.g.label)
	}
	return fmt.Sprintf("%s buffer %d (%d %s, %s) on %s", a.kindText(), a.number, a.count, a.name, refusal.Size(a.bytes), a.g.label)
}

// kindText returns the kind of memory for messages.
func (a *allocation) kindText() string {
	if a.wrap != nil {
		return "wrapped " + a.kind.String()
	}
	return a.kind.String()
}

// errClosed returns the error of a use after Close.
func (a *allocation) errClosed() error { return fmt.Errorf("%v: %w", a, ErrClosed) }

// fail leaves the GPU, and returns an error that says what could not be allocated and why.
func (a *allocation) fail(what string, err error, hint string) error {
	a.g.leave()
	if hint != "" {
		hint = ": " + hint
	}
	return fmt.Errorf("%s %s of %v memory on %s: %w%s", what, refusal.Size(a.bytes), a.kind, a.g.label, refusal.Cause(err), hint)
}

// memoryHint says how much memory the device has, if a request for bytes was too large.
func (a *allocation) memoryHint(bytes uintptr, err error) string {
	if !errors.Is(err, cu.ErrorOutOfMemory) {
		return ""
	}
	free, total, err := a.g.driver.MemGetInfo(a.g.ctx)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf("%s of %s are free", refusal.Size(free), refusal.Size(total))
	if bytes > total {
		return text + ": the request is larger than the device"
	}
	return text + ": close buffers, or process the data in parts"
}

// closeNow waits for the hardware and frees the memory. In a host function, where neither
// is allowed, it defers that. If graphs own the memory, the last of them frees it.
func (a *allocation) closeNow(generation uint32) error {
	if !a.CloseIn(generation) {
		if a.Lent() {
			return a.errLent(inflight.ErrLent)
		}
		return a.retry.Close(a.dispose)
	}
	a.leak.Stop()
	return closing.AfterHostFunction(a.drain)
}

// errLent explains inflight.ErrLent, and returns other errors as they are.
func (a *allocation) errLent(err error) error {
	if err == inflight.ErrLent { //nolint:errorlint // it is not wrapped
		err = refusal.New(cu.ErrorNotReady, "close %v: a CopyFrom, CopyTo, CopyParts or External that has not returned uses it, and frees it when it returns", a)
	}
	return err
}

// drain waits for the calls that use the closed allocation. It continues with dispose
// once no graph owns the allocation, and no reader or writer.
func (a *allocation) drain() error {
	if err := a.TryDrain(a.g.mayWait); err != nil {
		return err
	}
	return a.errLent(a.AfterOwners(func() error { return closing.AfterHostFunction(a.dispose) }))
}

// dispose waits for the operations in flight, frees the memory and leaves the GPU.
func (a *allocation) dispose() error {
	a.unlist()
	err := a.release()
	if !closing.InHostFunction(err) {
		a.dropBirth()
	}
	return err
}

// release is dispose without what the host map and the driver's events have of the memory.
func (a *allocation) release() error {
	var first error
	if a.BornOn() != nil {
		freed, err := a.freeInOrder()
		if freed || closing.InHostFunction(err) {
			return err
		}
		first = err
	}
	defer stopTimer(sayIfBusy(a.g, a, &a.Tracker))
	err := a.Wait(context.Background(), inflight.Write)
	if closing.InHostFunction(err) {
		return err
	}
	if err != nil && !refusal.Sticky(err) {
		a.retry.Failed()
		return fmt.Errorf("close %v: the hardware may be using it, so it is not freed until it is closed again: %w", a, err)
	}
	if a.bytes > 0 || a.wrap != nil {
		if freeErr := a.free(a); freeErr != nil {
			if closing.InHostFunction(freeErr) {
				return freeErr
			}
			if err == nil && a.stays(freeErr) {
				a.retry.Failed()
				return fmt.Errorf("close %v: the driver did not free it, and does when it is closed again: %w", a, refusal.Join(first, freeErr))
			}
			err = refusal.Join(first, err, freeErr)
		}
	}
	a.placed.Resize(0)
	a.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", a, err)
	}
	return nil
}

// stays reports whether the memory is there after a call to free it returned an error: the context
// is not lost, and the driver knows a part of the memory. Memory of a driver's pool goes with the
// pool, and a variable with its module.
func (a *allocation) stays(err error) bool {
	if refusal.Sticky(err) || a.BornOn() != nil || a.module != nil {
		return false
	}
	if a.wrap != nil {
		return !a.wrap.released
	}
	start := a.dev
	if a.host != nil {
		start = address.Device(a.host)
	}
	known := func(off uintptr) bool { return a.g.driverKnows(start + cu.DevicePtr(off)) }
	return known(0) || slices.ContainsFunc(a.boundaries, known)
}

// span is a part of memory with its allocation: a whole buffer, a range of a buffer, or
// pageable memory.
type span struct {
	a          *allocation // nil for pageable memory
	generation uint32      // of the allocation
	part       bool        // not the whole buffer
	untracked  bool        // page-locked without an open buffer: copies are asynchronous, and no tracker knows them
	plain      bool        // copies to and from this memory take one call of the driver, and need no other: see copyPlain
	host       cu.HostPtr  // nil for device memory
	dev        cu.DevicePtr
	n          int // elements
	bytes      uintptr
	bad        error // why the range is not valid
}

// whole returns the span of the whole allocation.
func (a *allocation) whole() span {
	r := span{a: a, host: a.host, dev: a.dev, n: a.count, bytes: a.bytes}
	switch a.kind {
	case deviceMemory:
		r.plain = a.BornOn() == nil
	case hostMemory, registeredMemory:
		r.plain = len(a.boundaries) == 0
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

// gpu returns the GPU of the allocation, nil if there is none.
func (r *span) gpu() *GPU {
	if r == nil || r.a == nil {
		return nil
	}
	return r.a.g
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
	case r.a == nil && r.n == 0:
		return "no memory (an empty slice, or a Host without Alloc)"
	case r.a == nil:
		return fmt.Sprintf("a pageable slice (%d elements, %s)", r.n, refusal.Size(r.bytes))
	case r.part:
		return fmt.Sprintf("%s of %v", refusal.Size(r.bytes), r.a)
	}
	return r.a.String()
}

// kind returns where the memory is.
func (r *span) kind() kind {
	if r.a == nil {
		return pageableMemory
	}
	return r.a.kind
}

// isPageable reports whether a span was made by Pageable. Its memory may still belong to
// a buffer: see runAt.
func (r *span) isPageable() bool { return r != nil && r.a == nil && r.bad == nil && r.bytes > 0 }

// sub returns elements i to j-1. If the range is not valid, every use of the result is an
// error.
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

// cut returns n bytes of a span, from byte off. The elements of the result are bytes,
// unless it is the whole span.
func (r *span) cut(off, n uintptr) span {
	out := *r
	out.part = out.part || n != r.bytes
	if r.bytes != n {
		out.n = int(n)
	}
	out.bytes = n
	out.host = address.Add(r.host, off)
	if r.dev != 0 {
		out.dev += cu.DevicePtr(off)
	}
	return out
}

// check returns an error for a nil span and for a range that is not valid.
func (r *span) check() error {
	if r == nil {
		return refusal.Invalid("no buffer given (nil)")
	}
	return r.bad
}

// acquire counts an operation as a user of the memory. Pageable memory counts no users.
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

// enter counts a use outside of streams. It fails when the buffer is closed. leave ends
// the use.
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
	if forked.Child() {
		return forked.New("host access")
	}
	if err := r.enter(); err != nil {
		return fmt.Errorf("host access: %w", err)
	}
	defer r.leave()
	return r.waitUsed(ctx, a)
}

// waitUsed is waitHost for a user or owner of the memory, which may be closed.
func (r *span) waitUsed(ctx context.Context, a inflight.Access) error {
	if r.a == nil {
		return nil
	}
	err := r.waitInFlight(ctx, a)
	if err == nil && r.a.module != nil {
		err = r.a.module.Wait(ctx, inflight.Write)
	}
	if err == nil && r.a.kind == managedMemory && !r.a.g.caps.ConcurrentManaged {
		err = r.a.waitExclusive(ctx)
	}
	if e := r.a.g.emulated; err == nil && e != nil && r.host != nil && r.bytes > 0 {
		err = e.HostAccess(r.host, r.bytes, a == inflight.Write)
	}
	if err != nil {
		return fmt.Errorf("host access to %v: %w", r, err)
	}
	return nil
}

// waitInFlight waits for the operations in flight that conflict with an access. These
// include operations on other registered or wrapped buffers that share the bytes.
func (r *span) waitInFlight(ctx context.Context, a inflight.Access) error {
	if err := r.a.Wait(ctx, a); err != nil || !r.a.owner.Shared.Load() {
		return err
	}
	return r.waitSharing(ctx, a)
}

// waitSharing is waitInFlight for the other buffers that share the bytes.
func (r *span) waitSharing(ctx context.Context, a inflight.Access) error {
	start, m := r.address(), r.a.g.hosts
	if r.a.wrap != nil {
		m = r.a.wrap.in
	}
	for _, o := range m.Sharing(&r.a.owner, start, start+uint64(r.bytes)) {
		if err := o.Of.(*allocation).Wait(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// close closes the allocation. It does nothing for a range, and for a variable.
func (r *span) close() error {
	if r == nil || r.a == nil || r.part || r.a.module != nil {
		return nil
	}
	return r.a.close(r.generation)
}

// address returns the address of a span. It can be compared with others of the same kind.
func (r *span) address() uint64 {
	if r.host != nil {
		return uint64(address.Device(r.host))
	}
	return uint64(r.dev)
}

// mayReach reports whether the GPU of one of two buffers may use the memory of the other: they are of
// one device, or of two with peer access.
func (r *span) mayReach(o *span) bool {
	a, b := r.a.g, o.a.g
	return a.device == b.device || a.shared.mayUse(a, b) || a.shared.mayUse(b, a)
}

// addressesOf returns the address range of the span. Host addresses are one address space. Each
// GPU has one of its own, because without unified addressing two may use the same addresses.
func addressesOf(r *span) unordered.Range {
	if r.host == nil && r.a != nil {
		return unordered.Range{Space: 1 + int(r.a.g.device), From: uintptr(r.dev), Bytes: r.bytes}
	}
	return unordered.Range{From: uintptr(r.host), Bytes: r.bytes}
}

// closedTo reports whether device memory of another GPU may not be used from g: memory of
// [Alloc] without peer access, and memory of a pool that is not open to g. Of the second, the
// driver knows no address for the context of g. It is asked without wrappers, because the
// question is no operation of the program. Memory of [AllocVirtual] is opened to g first, if g has
// peer access.
func (r *span) closedTo(g *GPU) bool {
	if !r.a.inPool() {
		return !g.shared.mayUse(g, r.a.g) || r.a.virtual.OpenTo(g.device) != nil
	}
	if !r.farPool(g) || r.dev == 0 {
		return false
	}
	known, err := g.attributesOf(r.dev)
	return err == nil && known.Device == r.a.g.device && known.DevicePointer == 0
}

// farPool reports whether a span is memory of a pool of another GPU.
func (r *span) farPool(g *GPU) bool {
	return r.a != nil && r.a.kind == deviceMemory && r.a.inPool() && r.a.g.device != g.device
}

// inPool reports whether device memory belongs to a pool.
func (a *allocation) inPool() bool { return a.BornOn() != nil || a.wrap != nil && a.wrap.pool }

// reachableFrom returns an error for memory that operations of a GPU cannot use.
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
		return refusal.Invalid("%v is page-locked for %s only, not for %s: allocate it without NotPortable", r.String(), home.label, g.label)
	}
	return nil
}

// addressOn returns the address of a span in kernels of a GPU that can use it. Mapped host
// memory may have a different address on each GPU.
func (r *span) addressOn(g *GPU) (cu.DevicePtr, error) {
	if r.a == nil || r.a.g.sameContext(g) || r.bytes == 0 || !r.a.kind.onHost() || r.dev == address.Device(r.host) {
		return r.dev, nil
	}
	p, err := r.a.addressOn(g)
	if err != nil {
		return 0, fmt.Errorf("get the address of %v on %s: %w", r.String(), g.label, err)
	}
	return p + (r.dev - r.a.dev), nil
}

// addressFor returns the device address by which work of a stream uses a buffer.
func (r *span) addressFor(st *streamState) (cu.DevicePtr, error) {
	if r.dev == 0 {
		return 0, r.unmapped()
	}
	if err := r.reachableFrom(st.g); err != nil {
		return 0, err
	}
	if a, g := r.a, st.g; !a.kind.onHost() && a.kind != managedMemory && a.g.device != g.device && r.closedTo(g) {
		return 0, refusal.Invalid("%v is memory of another GPU: use a stream of that GPU, or call EnablePeer of %s first", r, g.label)
	}
	return r.addressOn(st.g)
}

// unmapped returns the error for host memory that kernels cannot address.
func (r *span) unmapped() error {
	return refusal.Invalid("%v has no address on the device: make it with Mapped", r.String())
}

// crossesBoundary reports whether the buffer consists of several registrations, so that a
// span of it may do so.
func (r *span) crossesBoundary() bool { return r.a != nil && len(r.a.boundaries) > 0 }

// toBoundary returns how many bytes of a span, from byte off, belong to one registration.
func (r *span) toBoundary(off uintptr) uintptr {
	n := r.bytes - off
	if !r.crossesBoundary() {
		return n
	}
	at := uintptr(r.address()-r.a.owner.Start) + off
	i, _ := slices.BinarySearch(r.a.boundaries, at+1)
	if i == len(r.a.boundaries) {
		return n
	}
	return min(n, r.a.boundaries[i]-at)
}

// hostSlice waits until the host may access the elements of a span, and returns them.
// FERRY_CHECK compares the access with the operations that were there before the wait.
func hostSlice[T any](ctx context.Context, r *span, a inflight.Access) ([]T, error) {
	watch, issued := hostWatcher(nil), uint64(0)
	if r != nil && r.a != nil {
		if watch = r.a.g.watch; watch != nil {
			issued = watch.Issued()
		}
	}
	if err := r.waitHost(ctx, a); err != nil {
		return nil, err
	}
	if watch != nil && r.host != nil {
		watch.WatchHost(r.host, r.bytes, a == inflight.Write, issued)
	}
	return address.Slice[T](r.host, r.n), nil
}

// mustSlice is hostSlice without a context. It panics with the error.
func mustSlice[T any](r *span, a inflight.Access) []T {
	s, err := hostSlice[T](context.Background(), r, a)
	if err != nil {
		panic(err)
	}
	return s
}

// runAt returns the longest part of a span that begins at byte off and is memory of one
// kind. If that part of a pageable span is in an open buffer, the result is a range of the
// buffer.
func runAt(g *GPU, r *span, off uintptr) (span, error) {
	rest := r.cut(off, r.bytes-off)
	if !r.isPageable() {
		return rest, nil
	}
	start := uint64(address.Device(rest.host))
	run := g.hosts.First(start, start+uint64(rest.bytes))
	rest = rest.cut(0, uintptr(run.End-start))
	rest.untracked = false // r may be a part that was found before
	switch {
	case run.Owner != nil:
		return spanIn(run.Owner.Of.(*allocation), rest), nil
	case run.Lost:
		return span{}, refusal.Invalid("%v is in page-locked memory whose buffer was lost without Close: keep the buffer and copy from it", r)
	case run.Known: // a buffer that is being closed, or the rest of a registration that no buffer uses
		rest.untracked = true
	}
	return rest, nil
}

// spanIn returns a pageable span as a range of the allocation in which it lies.
func spanIn(a *allocation, r span) span {
	r.a, r.generation, r.part = a, a.Generation(), true
	if a.dev != 0 {
		r.dev = a.dev + (address.Device(r.host) - address.Device(a.host))
	}
	return r
}
