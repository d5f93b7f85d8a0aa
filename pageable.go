package ferry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/libcuda"
)

// PageableSlice is a slice of ordinary Go memory as a [Memory]. [Pageable] makes it.
type PageableSlice[T any] struct {
	_    [0]*T // so that Go converts no PageableSlice of one type to one of another
	span span
}

// Pageable returns an ordinary slice as a [Memory] for [Copy]. The slice can also be a
// file that is mapped into memory. Large copies go through a staging ring of page-locked
// memory, which several goroutines fill and empty, at nearly the speed of the link. The
// driver makes small copies. These copies are not asynchronous: Copy returns when it has
// read the source or written the destination. For copies that return at once, [Register]
// the slice, or use a buffer of [AllocHost]. [CopyAll] copies many slices in
// nearly the time of one large slice.
//
// If a mapped file has been truncated, a copy of the missing pages through the staging ring
// returns an error that names the byte.
//
// A slice of the memory of a buffer, such as a result of [Host.Slice], is treated as a
// range of that buffer. A copy of it is in flight on the buffer. If another library, or a
// call of [GPU.Driver], has page-locked the slice, the driver would copy it later: a small
// copy then waits for the stream, so that the promise holds. A slice that begins in such
// memory must not leave it: the driver refuses that, as cu.ErrorInvalidValue.
//
// T is as for [Alloc]: with Go pointers or a bool in it, Copy returns an error.
//
// Kernels can use the slice where CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS is 1, as on
// GH200: it is an argument of [Stream.Launch] like a buffer. The slice stays alive until the
// launch is done. Wait for the stream before you read the results or change the slice. A
// capture refuses it. Elsewhere Launch returns an error.
func Pageable[T any](s []T) *PageableSlice[T] {
	e, err := kernelargs.ElementOf[T]()
	return &PageableSlice[T]{span: span{host: address.Of(s), n: len(s), bytes: e.Size * uintptr(len(s)), bad: err}}
}

// Len returns the number of elements.
func (p *PageableSlice[T]) Len() int { return p.asSpan(nil).len() }

// Size returns the size in bytes.
func (p *PageableSlice[T]) Size() int { return p.asSpan(nil).size() }

// String returns a description of the memory: "a pageable slice (1000 elements, 3.9 KiB)".
func (p *PageableSlice[T]) String() string { return p.asSpan(nil).String() }

// Range returns elements i to j-1. If i or j is out of bounds, every use of the range is
// an error.
func (p *PageableSlice[T]) Range(i, j int) *PageableSlice[T] {
	return &PageableSlice[T]{span: p.asSpan(nil).sub(i, j)}
}

// Slice returns the memory. It returns nil for a range out of bounds.
func (p *PageableSlice[T]) Slice() []T {
	r := p.asSpan(nil)
	if r == nil || r.bad != nil {
		return nil
	}
	return address.Slice[T](r.host, r.n)
}

func (p *PageableSlice[T]) untyped() (*span, int) { return p.asSpan(nil), int(address.SizeOf[T]()) }

func (p *PageableSlice[T]) asSpan(*T) *span {
	if p == nil {
		return nil
	}
	return &p.span
}

// Staging is the staging ring of a GPU: page-locked memory through which [Copy] and [CopyAll] move
// pageable memory, and [CopyFrom], [CopyTo], [CopyParts] and [CopyPartsTo] what is not on the host.
// It consists of slots of two sizes. Large slots are for transfers that several goroutines fill or
// empty, small ones for those that one goroutine moves. A transfer page-locks a slot when it first
// needs one. The ring keeps it until the GPU is closed, or until [Staging.SetLimit] has no room for it.
// [GPU.Staging] returns the ring. It is
// safe for concurrent use.
type Staging GPU

// StagingStats is the state of a [Staging], in bytes where no other unit is named.
type StagingStats struct {
	// Locked is page-locked now, and MostLocked is the most that was so at once.
	Locked, MostLocked int
	// InUse is in slots that a transfer has, or that the device may still read or write. The ring
	// finds out that the device is done when it next needs a slot.
	InUse int
	// Limit is the most that may be page-locked: see [Staging.SetLimit]. It does not count slots that
	// the device may still use after an error of the driver. They stay page-locked until the GPU is
	// closed. A transfer that runs while the limit falls may keep one slot beyond it.
	Limit int
	// SlotBytes and SmallSlotBytes are the sizes of a large and of a small slot.
	SlotBytes, SmallSlotBytes int
	// Slots and SmallSlots are how many slots there are, and MostSlots and MostSmallSlots how many
	// there may be.
	Slots, SmallSlots, MostSlots, MostSmallSlots int
}

// Staging returns the staging ring of the GPU. It returns nil for a nil GPU.
func (g *GPU) Staging() *Staging { return (*Staging)(g) }

// gpu returns the GPU of the ring.
func (r *Staging) gpu() *GPU { return (*GPU)(r) }

// ringFor enters the GPU, and returns its ring. The caller must call leave of the GPU.
func (r *Staging) ringFor(what string) (*staging.Ring, error) {
	if r.gpu().none() {
		return nil, refusal.Invalid("%s: no staging ring given (nil)", what)
	}
	if err := r.gpu().enter(what); err != nil {
		return nil, err
	}
	return stagingRing(r.gpu()), nil
}

// Warm page-locks all that one transfer in each direction takes, within the limit, and starts the
// goroutines that copy. So the first copy of pageable memory takes no longer than later ones. On an
// H200 slots of 8 MiB take 0.4 to 0.8 ms each. If ctx ends between two slots, the error wraps
// ctx.Err(), and the slots that are ready stay. A nil ctx never ends. Other errors are as for
// [AllocHost].
func (r *Staging) Warm(ctx context.Context) error {
	const what = "warm the staging ring"
	ring, err := r.ringFor(what)
	if err != nil {
		return err
	}
	defer r.gpu().leave()
	return r.explain(what, ring.Warm(await.Context(ctx)))
}

// SetLimit sets how many bytes the ring may page-lock, in slots of both sizes. Slots beyond that are
// freed: at once if they are free, else when a later transfer ends. The limit is at least one large
// slot: a smaller one is refused, and the error has the numbers. If small slots have no room, small
// transfers use large ones. A limit above the default, which depends on the machine, is the default,
// and so is 0. With fewer slots copies may be slower: one transfer to the device is fastest with 4
// large slots. An error in freeing a slot leaves the limit set.
func (r *Staging) SetLimit(bytes int) error {
	const what = "set the limit of the staging ring"
	ring, err := r.ringFor(what)
	if err != nil {
		return err
	}
	defer r.gpu().leave()
	return r.explain(what, ring.SetLimit(bytes))
}

// Stats returns the state of the ring. It asks the driver nothing. It allocates nothing after
// the first use of the ring.
func (r *Staging) Stats() (StagingStats, error) {
	ring, err := r.ringFor("read the state of the staging ring")
	if err != nil {
		return StagingStats{}, err
	}
	defer r.gpu().leave()
	s := ring.Stats()
	return StagingStats{Locked: s.Locked, MostLocked: s.Peak, InUse: s.InUse, Limit: s.Limit,
		SlotBytes: s.Large.Bytes, Slots: s.Large.Slots, MostSlots: s.Large.Most,
		SmallSlotBytes: s.Small.Bytes, SmallSlots: s.Small.Slots, MostSmallSlots: s.Small.Most}, nil
}

// explain adds to an error of the ring what was to be done.
func (r *Staging) explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, staging.ErrClosed):
		err = ErrClosed
	}
	return fmt.Errorf("%s of %s: %w", what, r.label, explainPin(err))
}

// stagingRing returns the staging ring of a GPU. The first call makes it.
func stagingRing(g *GPU) *staging.Ring {
	return g.ring.Ring(func() *staging.Ring {
		hooks := staging.Hooks{Lock: func(bytes int, must bool) (cu.HostPtr, func() error, error) {
			claim, err := claimPinned(g, account.Staging, uintptr(bytes), must)
			if err != nil {
				return nil, nil, err
			}
			m, err := pageLockClaimed(context.Background(), g, claim, uintptr(bytes), &HostOptions{}) // as for a buffer of AllocHost
			return m.host, func() error { return m.free(g) }, err
		}}
		hooks.Limited = func(err error) bool { _, limited := errors.AsType[*pin.Limited](err); return limited }
		hooks.SaveCPU = g.saveCPU.Load
		if g.poller != nil {
			hooks.Await = func(e cu.Event) error { return awaitDriverEvent(g, e) }
		}
		return staging.New(g.driver, g.ctx, g.tuning.Ring, hooks)
	})
}

// driverEvent is an event that nobody destroys while it is waited for. It implements
// await.Target.
type driverEvent struct {
	g     *GPU
	event cu.Event
}

var driverEvents = sync.Pool{New: func() any { return new(driverEvent) }}

func (w *driverEvent) Ask() error    { return w.g.driver.EventQuery(w.g.ctx, w.event) }
func (*driverEvent) Abandoned(error) {}

// awaitDriverEvent waits for an event of the driver on hardware.
func awaitDriverEvent(g *GPU, e cu.Event) error {
	w := driverEvents.Get().(*driverEvent)
	*w = driverEvent{g, e}
	_, err := g.poller.Wait(context.Background(), w, g.saveCPU.Load())
	driverEvents.Put(w)
	return err
}

// pageableHold keeps the pageable sides of copies from being unregistered during the copies.
// Another goroutine may register the memory meanwhile, or close a registration of it.
type pageableHold struct {
	ranges int // that were added: the first, and all if they are several
	first  hostmap.Range
	all    []hostmap.Range
	hosts  *hostmap.Map // nil before begin
	id     hostmap.HoldID
}

// add adds a copy to the hold, if its plan says that it needs one.
func (h *pageableHold) add(p *copyPlan, dst, src *span) {
	if !p.hold {
		return
	}
	r := p.host(dst, src)
	x := hostmap.Range{Start: r.address(), End: r.address() + uint64(r.bytes)}
	switch h.ranges {
	case 0:
		h.first = x
	case 1:
		h.all = append(h.all[:0], h.first, x)
	default:
		h.all = append(h.all, x)
	}
	h.ranges++
}

// begin starts the hold of what was added. The caller must end it.
func (h *pageableHold) begin(st *streamState) (err error) {
	switch h.ranges {
	case 0:
		return nil
	case 1:
		h.id, err = st.g.hosts.Hold(h.first.Start, h.first.End, st.g.mayWait)
	default:
		h.id, err = st.g.hosts.HoldAll(h.all, st.g.mayWait)
	}
	if err == nil {
		h.hosts = st.g.hosts
	}
	return err
}

// end ends the hold, and empties it.
func (h *pageableHold) end() {
	if h.hosts != nil {
		h.hosts.EndHold(h.id)
	}
	h.hosts, h.ranges = nil, 0
}

var _ knowingDriver = (*libcuda.Driver)(nil)

// memcpyPageable makes one copy with a pageable side by the driver. late reports that the
// driver may use the pageable memory after the call, so that the caller must wait for the
// stream. It does that with memory that is page-locked or managed, also if another library
// has made it so: then nobody but the driver knows. It is asked after the copy, at the first
// byte: see libcuda.Driver.MemcpyKnowing.
func memcpyPageable(st *streamState, plan *copyPlan, dst, src *span) (late bool, err error) {
	host, device := plan.host(dst, src), plan.device(dst, src)
	if st.g.knowing != nil {
		late, err = st.g.knowing.MemcpyKnowing(st.g.ctx, plan.fromHost, device.dev, host.host, host.bytes, st.handle)
	} else if err = plan.do(st, dst, src); err == nil {
		late = st.g.driverKnows(address.Device(host.host))
	}
	runtime.KeepAlive(host)
	return late, err
}

// waitToCopy waits for the stream before a copy that waits in the driver. It does so only
// if ctx can end the wait, because a wait in the driver cannot be ended.
func waitToCopy(ctx context.Context, st *streamState) error {
	if ctx.Done() == nil || st.capture != nil {
		return nil
	}
	return st.Wait(ctx)
}

// stagedByDriver is the largest pageable source that drivers copy without waiting for the
// stream: https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html
const stagedByDriver = 64 << 10

// stageCopy makes a copy of pathRing: a small one by the driver, others through the ring.
// late reports whether the driver may use the pageable memory afterwards: see memcpyPageable.
func stageCopy(ctx context.Context, st *streamState, plan *copyPlan, dst, src *span) (late bool, err error) {
	in := plan.fromHost
	oplog.Bytes(slog.LevelInfo, oplog.StagedCopy, "", dst.bytes, st.g.label)
	small := st.g.tuning.DirectOut
	if in {
		small = st.g.tuning.DirectIn
	}
	if min(small, dst.bytes) > stagedByDriver && stagingRing(st.g).Busy() {
		small = stagedByDriver // the driver makes one larger copy after the other, whatever their streams
	}
	untracked := dst.untracked || src.untracked
	if dst.bytes <= small || untracked {
		if !in || untracked || ctx.Done() != nil && st.g.driverKnows(address.Device(src.host)) { // else the driver copies the source before it returns
			if err := waitToCopy(ctx, st); err != nil {
				return false, err
			}
		}
		switch copy := func() (err error) { late, err = memcpyPageable(st, plan, dst, src); return err }; {
		case !in:
			err = copyOutByDriver(ctx, st, copy)
		case !untracked && (dst.bytes <= stagedByDriver || st.Alone()):
			err = stagingRing(st.g).Call(ctx, copy)
		default: // it may wait for the stream, so it must not hold a place
			err = copy()
		}
		return late, err
	}
	n, err := copyThroughRing(ctx, st, dst, src, in)
	if err == nil || !errors.Is(err, staging.ErrBusy) {
		return false, err
	}
	oplog.NoSlot(dst.bytes-uintptr(n), st.g.label)
	// All slots of the ring are in streams that do not advance. The driver has memory of
	// its own for the rest.
	if err := waitToCopy(ctx, st); err != nil {
		return false, err
	}
	to, from := dst.cut(uintptr(n), dst.bytes-uintptr(n)), src.cut(uintptr(n), src.bytes-uintptr(n))
	return memcpyPageable(st, plan, &to, &from)
}

// copyOutByDriver makes copies from the device to pageable memory by the driver, which waits
// for the stream in the call. So a goroutine that finds no place waits before the call, where
// it holds no thread.
func copyOutByDriver(ctx context.Context, st *streamState, copy func() error) error {
	ring := stagingRing(st.g)
	if done, err := ring.TryCall(copy); done {
		return err
	}
	if err := st.Wait(ctx); err != nil {
		return err
	}
	return ring.Call(ctx, copy)
}

// copyThroughRing copies through the staging ring, and returns how many bytes it copied.
func copyThroughRing(ctx context.Context, st *streamState, dst, src *span, in bool) (int64, error) {
	ring := stagingRing(st.g)
	job := stagingJob(st, ring)
	job.Bytes = int64(dst.bytes)
	if in {
		job.Device = dst.dev
		return ring.InMemory(ctx, job, address.Bytes(src.host, src.bytes))
	}
	job.Device = src.dev
	return ring.OutMemory(ctx, job, address.Bytes(dst.host, dst.bytes))
}

// stagingJob returns a transfer in a stream. The caller must have queued nothing yet.
func stagingJob(st *streamState, ring *staging.Ring) staging.Job {
	job := staging.Job{Stream: st.handle, StreamID: st.number}
	if submitted := ring.Submitted(); st.Alone() {
		job.Completed = submitted
	}
	return job
}
