package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/libcuda"
)

// PageableSlice is a slice of ordinary Go memory as a [Memory]. [Pageable] makes it.
type PageableSlice[T any] struct{ span span }

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
// T must be a type without Go pointers, otherwise Copy returns an error.
//
// Kernels can use the slice where CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS is 1, as on
// GH200: it is an argument of [Stream.Launch] like a buffer. The slice stays alive until the
// launch is done. Wait for the stream before you read the results or change the slice. A
// capture refuses it. Elsewhere Launch returns an error.
func Pageable[T any](s []T) *PageableSlice[T] {
	e, err := kernelargs.ElementOf[T]()
	return &PageableSlice[T]{span{host: address.Of(s), n: len(s), bytes: e.Size * uintptr(len(s)), bad: err}}
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
	return &PageableSlice[T]{p.asSpan(nil).sub(i, j)}
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

// stagingRing returns the staging ring of a GPU. The first call makes it.
func stagingRing(g *GPU) *staging.Ring {
	return g.ring.Ring(func() *staging.Ring {
		hooks := staging.Hooks{Lock: func(bytes int) (cu.HostPtr, func() error, error) {
			m, err := pageLock(context.Background(), g, uintptr(bytes), &HostOptions{}) // as for a buffer of AllocHost
			return m.host, func() error { return m.free(g) }, err
		}}
		if g.poller != nil {
			hooks.Await = g.awaitDriverEvent
		}
		return staging.New(g.driver, g.ctx, g.tuning.Ring, hooks)
	})
}

// pageableHold keeps the pageable side of a copy from being unregistered during the copy.
// Another goroutine may register the memory meanwhile, or close a registration of it.
type pageableHold struct {
	hosts *hostmap.Map // nil if no side is pageable
	id    hostmap.HoldID
}

// begin starts the hold. The caller must end it.
func (h *pageableHold) begin(st *streamState, dst, src *span) (err error) {
	r := dst
	if r.a != nil {
		r = src
	}
	if r.a != nil || r.bytes == 0 {
		return nil
	}
	hosts, from := st.g.hosts, uint64(address.Device(r.host))
	if h.id, err = hosts.Hold(from, from+uint64(r.bytes), st.g.mayWait); err == nil {
		h.hosts = hosts
	}
	return err
}

func (h *pageableHold) end() {
	if h.hosts != nil {
		h.hosts.EndHold(h.id)
		h.hosts = nil
	}
}

var _ knowingDriver = (*libcuda.Driver)(nil)

// memcpyPageable makes one copy with a pageable side by the driver. late reports that the
// driver may use the pageable memory after the call, so that the caller must wait for the
// stream. It does that with memory that is page-locked or managed, also if another library
// has made it so: then nobody but the driver knows. It is asked after the copy, at the first
// byte: see libcuda.Driver.MemcpyKnowing.
func memcpyPageable(st *streamState, dst, src *span) (late bool, err error) {
	host, device := dst, src
	if src.a == nil {
		host, device = src, dst
	}
	if st.g.knowing != nil {
		late, err = st.g.knowing.MemcpyKnowing(st.g.ctx, host == src, device.dev, host.host, host.bytes, st.handle)
	} else if err = memcpyAsync(st, dst, src); err == nil {
		late = st.g.driverKnows(address.Device(host.host))
	}
	runtime.KeepAlive(host)
	return late, err
}

// stagedByDriver is the largest pageable source that drivers copy without waiting for the
// stream: https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html
const stagedByDriver = 64 << 10

// copyPageable copies between pageable memory and the device: small copies by the
// driver, others through the ring. late reports whether the driver may use the pageable
// memory afterwards: see memcpyPageable.
func copyPageable(ctx context.Context, st *streamState, dst, src *span) (late bool, err error) {
	in := src.kind() == pageableMemory
	small := st.g.tuning.DirectOut
	if in {
		small = st.g.tuning.DirectIn
	}
	untracked := dst.untracked || src.untracked
	if dst.bytes <= small || untracked {
		if !in || untracked || ctx.Done() != nil && st.g.driverKnows(address.Device(src.host)) { // else the driver copies the source before it returns
			if err := waitToCopy(ctx, st); err != nil {
				return false, err
			}
		}
		switch copy := func() (err error) { late, err = memcpyPageable(st, dst, src); return err }; {
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
	// All slots of the ring are in streams that do not advance. The driver has memory of
	// its own for the rest.
	if err := waitToCopy(ctx, st); err != nil {
		return false, err
	}
	to, from := dst.cut(uintptr(n), dst.bytes-uintptr(n)), src.cut(uintptr(n), src.bytes-uintptr(n))
	return memcpyPageable(st, &to, &from)
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
		return ring.In(ctx, job, staging.Memory(address.Bytes(src.host, src.bytes)))
	}
	job.Device = src.dev
	return ring.Out(ctx, job, staging.Memory(address.Bytes(dst.host, dst.bytes)))
}

// stagingJob returns a transfer in a stream. The caller must have queued nothing yet.
func stagingJob(st *streamState, ring *staging.Ring) staging.Job {
	job := staging.Job{Stream: st.handle, StreamID: st.number}
	if submitted := ring.Submitted(); st.Alone() {
		job.Completed = submitted
	}
	return job
}

// pageableCopies are the copies with a pageable side of a CopyAll.
type pageableCopies struct {
	copies []pageableCopy
	held   []hostmap.Range
	staged staging.List // the parts of a transfer
	order  []int        // for each part of staged, the index of its copy
	pieces []int        // for each call of a chunk of the transfer, the part of staged
	run    copyRun      // of copyRuns
}

// pageableCopy is a copy between two runs of memory. At least one is pageable.
type pageableCopy struct {
	pair     int
	dst, src span
	path     copyPath // copyByCPU or copyStaged
	in       bool     // of copyStaged: to the device
	direct   bool     // of copyStaged: the driver copies
	late     bool     // the driver may use the pageable side after its call: see memcpyPageable
}

// host returns the pageable side of a staged copy.
func (x *pageableCopy) host() *span {
	if x.in {
		return &x.src
	}
	return &x.dst
}

// device returns the other side.
func (x *pageableCopy) device() *span {
	if x.in {
		return &x.dst
	}
	return &x.src
}

// isDirect reports whether the driver makes a copy in one direction.
func (x *pageableCopy) isDirect(in bool) bool {
	return x.path == copyStaged && x.in == in && x.direct
}

func (p *pageableCopies) reset() {
	clear(p.copies)
	p.staged.Reset()
	p.copies, p.run = p.copies[:0], copyRun{}
}

func (p *pageableCopies) add(pair int, dst, src *span, path copyPath) {
	in := path == copyStaged && src.kind() == pageableMemory
	p.copies = append(p.copies, pageableCopy{pair: pair, dst: *dst, src: *src, path: path, in: in})
}

// copyPageable makes the copies of a CopyAll with pageable memory.
func (c *copyAll) copyPageable() error {
	st, p := c.list.st, &c.pageable
	job := staging.Job{}
	for i := range p.copies {
		if p.copies[i].path == copyStaged {
			job = stagingJob(st, stagingRing(st.g))
			break
		}
	}
	if err := c.copyByCPU(); err != nil {
		return err
	}
	if err := c.submit(); err != nil {
		return err
	}
	hold, err := c.hold()
	if err != nil {
		return fmt.Errorf("%d copies on %v: %w", c.pairs, st, err)
	}
	defer st.g.hosts.EndHold(hold)
	for _, in := range []bool{true, false} {
		if err := c.copyStaged(job, in); err != nil {
			return err
		}
	}
	return nil
}

// copyByCPU copies between pageable and host memory, when the stream has reached the copies.
func (c *copyAll) copyByCPU() error {
	for i := range c.pageable.copies {
		x := &c.pageable.copies[i]
		if x.path != copyByCPU {
			continue
		}
		if err := waitBoth(context.Background(), c.list.st, &x.dst, &x.src); err != nil {
			return c.pairError(x.pair, &x.dst, &x.src, err)
		}
		copy(address.Bytes(x.dst.host, x.dst.bytes), address.Bytes(x.src.host, x.src.bytes))
	}
	return nil
}

// hold keeps the pageable sides of the staged copies from being unregistered: see
// pageableHold.
func (c *copyAll) hold() (hostmap.HoldID, error) {
	p := &c.pageable
	p.held = p.held[:0]
	for i := range p.copies {
		if x := &p.copies[i]; x.path == copyStaged {
			host := x.host()
			p.held = append(p.held, hostmap.Range{Start: host.address(), End: host.address() + uint64(host.bytes)})
		}
	}
	g := c.list.st.g
	return g.hosts.HoldAll(p.held, g.mayWait)
}

// copyStaged makes the staged copies in one direction: those that are small or untracked by
// the driver, all others in one transfer through the ring.
func (c *copyAll) copyStaged(job staging.Job, in bool) error {
	st, p := c.list.st, &c.pageable
	p.plan(st.g, in)
	if err := c.copyDirect(in); err != nil {
		return err
	}
	if len(p.order) == 0 {
		return nil
	}
	c.op.Queued()
	n, err := c.transfer(job, in)
	if errors.Is(err, staging.ErrBusy) {
		return c.copyRest(n)
	}
	if failed := (*pieceError)(nil); errors.As(err, &failed) {
		x := &p.copies[p.order[failed.part]]
		return c.pairError(x.pair, &x.dst, &x.src, failed.err)
	}
	if err != nil {
		part, at := p.staged.Find(n)
		x := &p.copies[p.order[min(part, len(p.order)-1)]]
		if located := (*staging.OffsetError)(nil); errors.As(err, &located) {
			err = fmt.Errorf("byte %d: %w", at, located.Err)
		}
		return c.pairError(x.pair, &x.dst, &x.src, err)
	}
	for _, i := range p.order {
		recordLarge(st, &p.copies[i].dst, &p.copies[i].src)
	}
	return nil
}

// plan decides which staged copies in one direction the driver makes, and lists the others
// for a transfer. Small ones come first: then one call, usually a launch of the copy
// kernel, makes all copies of a chunk.
func (p *pageableCopies) plan(g *GPU, in bool) {
	count, bytes := 0, uintptr(0)
	for i := range p.copies {
		if x := &p.copies[i]; x.path == copyStaged && x.in == in {
			count, bytes = count+1, bytes+x.dst.bytes
		}
	}
	direct := g.tuning.Directly(in, count, bytes)
	p.staged.Reset()
	p.order = p.order[:0]
	for _, small := range []bool{true, false} {
		for i := range p.copies {
			x := &p.copies[i]
			if x.path != copyStaged || x.in != in || (x.dst.bytes <= g.tuning.Copy.KernelCopyBytes) != small {
				continue
			}
			if x.direct = direct || x.dst.untracked || x.src.untracked; !x.direct {
				p.order = append(p.order, i)
				p.staged.Add(address.Bytes(x.host().host, x.host().bytes), x.device().dev)
			}
		}
	}
}

// copyDirect gives the driver the copies in one direction that plan left to it. They have one
// place among the active transfers of the ring, as in copyPageable, except copies to the
// device in which the driver waits for the stream. No copy of the CopyAll to the device is
// queued yet, except those of submit.
func (c *copyAll) copyDirect(in bool) error {
	st, p := c.list.st, &c.pageable
	count, bytes, waits := 0, uintptr(0), false
	for i := range p.copies {
		if x := &p.copies[i]; x.isDirect(in) {
			count, bytes, waits = count+1, bytes+x.dst.bytes, waits || x.dst.untracked || x.src.untracked
		}
	}
	var err error
	switch idle := len(c.list.calls) == 0 && st.Alone(); {
	case count == 0:
		return nil
	case !in:
		err = copyOutByDriver(context.Background(), st, func() error { return c.giveToDriver(in) })
	case waits || bytes > stagedByDriver && (count > 1 || !idle):
		err = c.giveToDriver(in)
	default:
		err = stagingRing(st.g).Call(context.Background(), func() error { return c.giveToDriver(in) })
	}
	for i := 0; i < len(p.copies) && err == nil; i++ {
		if x := &p.copies[i]; x.isDirect(in) {
			err = c.awaitLate(x)
		}
	}
	return err
}

// giveToDriver makes the driver calls of copyDirect.
func (c *copyAll) giveToDriver(in bool) error {
	for i := range c.pageable.copies {
		if x := &c.pageable.copies[i]; x.isDirect(in) {
			if err := c.copyByDriver(x, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyByDriver gives the bytes of a staged copy from off on to the driver.
func (c *copyAll) copyByDriver(x *pageableCopy, off uintptr) error {
	st, n := c.list.st, x.dst.bytes-off
	dst, src := x.dst.cut(off, n), x.src.cut(off, n)
	err := copyRuns(st.g, &dst, &src, &c.pageable.run, func(to, from *span) error {
		host, access := to, inflight.Write
		if x.in {
			host, access = from, inflight.Read
		}
		if err := c.acquire(host, access); err != nil { // it may be registered by now
			return err
		}
		if _, err := planCopy(st, to, from); err != nil {
			return err
		}
		for to, from := range registrations(to, from) {
			c.op.Queued()
			late, err := c.memcpy(x, to, from)
			if x.late = x.late || late; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return c.pairError(x.pair, &dst, &src, err)
	}
	return nil
}

// memcpy makes one copy of x by the driver. If the memory has been registered since, its
// tracker knows the copy, and nobody must wait for it.
func (c *copyAll) memcpy(x *pageableCopy, to, from *span) (late bool, err error) {
	host := to
	if x.in {
		host = from
	}
	if host.a != nil {
		return false, memcpyAsync(c.list.st, to, from)
	}
	return memcpyPageable(c.list.st, to, from)
}

// awaitLate waits for a copy by the driver that may use pageable memory after its call.
func (c *copyAll) awaitLate(x *pageableCopy) error {
	st := c.list.st
	if !x.late {
		return nil
	}
	if err := st.Wait(context.Background()); err != nil {
		return c.pairError(x.pair, &x.dst, &x.src, err)
	}
	return nil
}

// copyRest gives the driver what the ring did not copy, from byte n of the transfer on. The
// driver has memory of its own for it.
func (c *copyAll) copyRest(n int64) error {
	p := &c.pageable
	for part, at := p.staged.Find(n); part < len(p.order); part, at = part+1, 0 {
		x := &p.copies[p.order[part]]
		if err := c.copyByDriver(x, uintptr(at)); err != nil {
			return err
		}
		if err := c.awaitLate(x); err != nil {
			return err
		}
	}
	return nil
}

// transfer copies the listed copies through the ring.
func (c *copyAll) transfer(job staging.Job, in bool) (int64, error) {
	ring, list := stagingRing(c.list.st.g), &c.pageable.staged
	job.Bytes = list.Bytes()
	job.Copy = func(slot cu.HostPtr, off, n int64) error { return c.queuePieces(slot, off, n, in) }
	if in {
		return ring.In(context.Background(), job, list)
	}
	return ring.Out(context.Background(), job, list)
}

// pieceError is the error of a part of a transfer that the driver refused.
type pieceError struct {
	part int
	err  error
}

func (e *pieceError) Error() string { return e.err.Error() }
func (e *pieceError) Unwrap() error { return e.err }

// queuePieces queues the copies of a chunk of a transfer, between a slot of the ring and the
// device. Where the driver refuses the fastest method, it gets single calls, so that the
// error names a pair.
func (c *copyAll) queuePieces(slot cu.HostPtr, off, n int64, in bool) error {
	st, p := c.list.st, &c.pageable
	c.list.begin(st)
	p.pieces = p.pieces[:0]
	for x := range p.staged.Pieces(off, n) {
		c.list.addPiece(address.Add(slot, uintptr(x.At)), x.Device, uintptr(len(x.Memory)), p.copies[p.order[x.Part]].device(), in)
		p.pieces = append(p.pieces, x.Part)
	}
	c.forgetCalls()
	switch {
	case c.list.byBatch():
		if c.memcpyBatch(st) == nil {
			return nil
		}
	case c.list.byKernel():
		c.params = c.list.appendTo(&c.calls, c.params)
		if _, err := st.g.driver.Submit(st.g.ctx, &c.calls); err == nil {
			return nil
		}
		c.calls.Reset()
	}
	c.calls.Append(c.list.calls...)
	if done, err := st.g.driver.Submit(st.g.ctx, &c.calls); err != nil {
		return &pieceError{p.pieces[done], fmt.Errorf("%v: %w", c.list.calls[done].Op, err)}
	}
	return nil
}

// addPiece adds a copy between a slot of the ring and a part of device memory.
func (l *copyList) addPiece(slot cu.HostPtr, at cu.DevicePtr, bytes uintptr, device *span, in bool) {
	l.bytes += bytes
	call, r := cu.Call{Op: cu.OpMemcpyDtoHAsync, Src: at, Host: slot, Bytes: bytes, Stream: l.st.handle}, copyRange{address.Device(slot), at, bytes}
	if in {
		call.Op, call.Dst, call.Src = cu.OpMemcpyHtoDAsync, at, 0
		r.dst, r.src = r.src, r.dst
	}
	l.calls = append(l.calls, call)
	if _, ok := addressForKernel(l.st, device); !ok {
		l.direct = false
	}
	if l.direct {
		l.ranges = append(l.ranges, r)
	}
}
