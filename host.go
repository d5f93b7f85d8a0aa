package ferry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Host is a page-locked buffer in the host's memory, allocated by [AllocHost] or
// registered by [Register]. Copies to and from it run at the speed of the link while
// the program goes on. Its methods are safe for concurrent use; its elements are
// memory like any other.
type Host[T any] struct{ span span }

// HostOptions say how a page-locked buffer is made.
type HostOptions struct {
	// Mapped gives the buffer an address in kernels, which then read and write host
	// memory over the link (zero-copy; CU_MEMHOSTALLOC_DEVICEMAP).
	Mapped bool
	// WriteCombined bypasses the CPU's caches. To write in order is fast, to read is
	// tens of times slower: for buffers that Go only fills. On most machines copies
	// are not faster for it (CU_MEMHOSTALLOC_WRITECOMBINED).
	WriteCombined bool
	// NotPortable page-locks for this GPU only. Other GPUs of the driver cannot use
	// the buffer (without it: CU_MEMHOSTALLOC_PORTABLE).
	NotPortable bool
	// NUMANode is where to put the memory, as far as the node has room; nil is the
	// node of the GPU. A node that does not exist is cu.ErrorInvalidValue.
	NUMANode *int
	// Progress, if not nil, is called after every registration of a large buffer with
	// the bytes that are page-locked now and those there will be, by the goroutine
	// that allocates.
	Progress func(done, total int)
	// Pool takes the memory from a pool; then the pool's options hold, and the others
	// here do not. It must belong to the same GPU.
	Pool *PinnedPool
}

// AllocHost takes page-locked memory for n elements. Ferry makes large buffers itself:
// many goroutines touch the memory, on huge pages where those are faster and near the
// GPU, and it is registered in pieces of at most 256 MiB (cuMemHostRegister), which
// nothing else shows. Small and write-combined ones come from the driver
// (cuMemHostAlloc). Either is slow beside a copy: keep buffers and use them again, or
// take them from a [PinnedPool]. [PredictPin] tells how slow.
//
// Zero elements are a valid, empty buffer. T is any type without Go pointers. An error
// wraps cu.ErrorNotSupported if the device cannot map and that was asked for,
// cu.ErrorOutOfMemory, or cu.ErrorInvalidValue; a *[PinError] was found before anything
// was tried. After an error nothing is left of the buffer. o may be nil.
func AllocHost[T any](g *GPU, n int, o *HostOptions) (*Host[T], error) {
	return AllocHostContext[T](context.Background(), g, n, o)
}

// AllocHostContext is [AllocHost], given up when ctx ends: a large buffer at the next
// registration, within some 50 ms on hardware. The error then wraps ctx.Err().
func AllocHostContext[T any](ctx context.Context, g *GPU, n int, o *HostOptions) (*Host[T], error) {
	ctx = await.Context(ctx)
	if o != nil && o.Pool != nil {
		h := new(Host[T])
		if err := h.alloc(ctx, g, o.Pool, n); err != nil {
			return nil, err
		}
		return h, nil
	}
	a, err := newAllocation[T](g, hostMemory, n)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &HostOptions{}
	}
	if err := allocHost(ctx, a, o); err != nil {
		return nil, err
	}
	return &Host[T]{a.whole()}, nil
}

// allocHost takes page-locked memory, from the pin engine or the driver.
func allocHost(ctx context.Context, a *allocation, o *HostOptions) error {
	g := a.g
	if o.Mapped && !g.caps.mapping {
		g.leave()
		return g.lacking("map page-locked memory", cu.DeviceAttributeCanMapHostMemory, "allocate without Mapped and copy")
	}
	a.oneGPU = o.NotPortable
	if a.bytes == 0 {
		a.start()
		return nil
	}
	m, err := pageLock(ctx, g, a.bytes, o)
	if err != nil {
		return a.fail("allocate", err, lockHint(a, err))
	}
	a.host, a.boundaries = m.host, m.boundaries()
	a.free = func(a *allocation) error { return m.free(a.g) }
	if a.dev, err = mappedAddress(g, a.host, o.Mapped); err != nil {
		return a.fail("map", errors.Join(err, m.free(g)), "")
	}
	a.start()
	return nil
}

// flags is the options in the driver's words.
func (o *HostOptions) flags() cu.MemHostAllocFlags {
	flags := cu.MemHostAllocPortable
	if o.NotPortable {
		flags = 0
	}
	if o.Mapped {
		flags |= cu.MemHostAllocDeviceMap
	}
	if o.WriteCombined {
		flags |= cu.MemHostAllocWriteCombined
	}
	return flags
}

// mappedAddress is the address in kernels of page-locked memory; 0 if it has none.
func mappedAddress(g *GPU, p cu.HostPtr, asked bool) (cu.DevicePtr, error) {
	switch {
	case g.caps.unified:
		return deviceAddress(p), nil
	case asked:
		return g.driver.MemHostGetDevicePointer(g.ctx, p, 0)
	}
	return 0, nil
}

// lockHint says what may be in the way of page-locking on this machine.
func lockHint(a *allocation, err error) string {
	if a.g.emulated != nil || !errors.Is(err, cu.ErrorOutOfMemory) {
		return ""
	}
	if _, told := errors.AsType[*PinError](err); told {
		return ""
	}
	m := pin.ReadMachine(os.DirFS("/"))
	if free := min(m.Available, m.Group.Left); free != pin.Unknown {
		return fmt.Sprintf("%s of host memory are available", refusal.Size(uintptr(free)))
	}
	return ""
}

// Len is the number of elements.
func (h *Host[T]) Len() int { return h.where(nil).len() }

// Size is the size in bytes.
func (h *Host[T]) Size() int { return h.where(nil).size() }

// String describes the buffer: "page-locked buffer 3 (1000 float32, 3.9 KiB) on
// cuda:0".
func (h *Host[T]) String() string { return h.where(nil).String() }

// Pointer is the address in kernels. It is 0 if there is none: the buffer was made
// without Mapped and the device has no unified addressing.
func (h *Host[T]) Pointer() cu.DevicePtr { return h.where(nil).pointer() }

// Flags is how the driver says that the buffer is page-locked (cuMemHostGetFlags).
// Hardware never shows cu.MemHostAllocPortable for memory it allocated, and with
// unified addressing always shows cu.MemHostAllocDeviceMap: all of it is mapped.
func (h *Host[T]) Flags() (cu.MemHostAllocFlags, error) {
	r := h.where(nil)
	if err := r.enter(); err != nil {
		return 0, fmt.Errorf("read flags: %w", err)
	}
	defer r.leave()
	if r.bytes == 0 {
		return 0, nil
	}
	flags, err := r.a.g.driver.MemHostGetFlags(r.a.g.ctx, r.host)
	if err != nil {
		return 0, fmt.Errorf("read flags of %v: %w", r, err)
	}
	return flags, nil
}

// Range is elements i to j-1, of the same memory: what is in flight on a range is in
// flight on the buffer. It needs no Close and is good until the buffer's. A range that
// does not exist is one whose every use is an error.
func (h *Host[T]) Range(i, j int) *Host[T] { return &Host[T]{h.where(nil).sub(i, j)} }

// Slice is the memory itself, to read and write, once nothing is in flight on it: it
// waits for all operations queued so far that use the buffer, and perhaps for later
// ones on the same streams. The slice is good until Close. After another operation was
// queued on the buffer, call Slice again, or wait in another way, before touching it.
//
// Slice panics, with an error value, when the buffer is closed (errors.Is(err,
// [ErrClosed]) holds), when its last operation failed (the error wraps the driver's
// result), or within a host function, where it cannot wait. The text says which
// buffer, where and why. [Host.SliceContext] returns the error instead.
func (h *Host[T]) Slice() []T { return mustSlice[T](h.where(nil), inflight.Write) }

// ReadSlice is [Host.Slice] for reading only: it does not wait for operations that
// only read the buffer. It panics as Slice does.
func (h *Host[T]) ReadSlice() []T { return mustSlice[T](h.where(nil), inflight.Read) }

// SliceContext is [Host.Slice] for servers: when ctx ends first the error wraps
// ctx.Err() and the work goes on, and what Slice panics with is returned. A nil ctx
// never ends.
func (h *Host[T]) SliceContext(ctx context.Context) ([]T, error) {
	return hostSlice[T](await.Context(ctx), h.where(nil), inflight.Write)
}

// ReadSliceContext is [Host.SliceContext] for reading only: it does not wait for
// operations that only read the buffer.
func (h *Host[T]) ReadSliceContext(ctx context.Context) ([]T, error) {
	return hostSlice[T](await.Context(ctx), h.where(nil), inflight.Read)
}

// Wait waits until nothing is in flight on the buffer, so that Slice need not. When
// ctx ends first, the error wraps ctx.Err() and the work goes on. A nil ctx never
// ends. An error of the work itself is returned here and, once more, by
// [Stream.Wait].
func (h *Host[T]) Wait(ctx context.Context) error {
	return h.where(nil).waitHost(await.Context(ctx), inflight.Write)
}

// Close waits for what is in flight on the buffer and frees it (cuMemFreeHost, or
// cuMemHostUnregister of what Ferry page-locked), or ends its registration. Slices of
// an allocated buffer must not be used afterwards. Within a host function it is freed
// soon afterwards. Close of a range does nothing; of a closed or nil buffer, too.
func (h *Host[T]) Close() error { return h.where(nil).close() }

func (h *Host[T]) untyped() (*span, int) { return h.where(nil), int(sizeOf[T]()) }

func (h *Host[T]) where(*T) *span {
	if h == nil {
		return nil
	}
	return &h.span
}

// PinError is why memory cannot be page-locked, found before it was tried: the control
// group's limit, too little free memory, a NUMA node that does not exist.
type PinError struct {
	Bytes int    // asked for
	Node  int    // NUMA node, -1 for any
	Why   string // what is in the way
	Do    string // what to do about it
	Err   error  // cu.ErrorOutOfMemory or cu.ErrorInvalidValue
}

func (e *PinError) Error() string { return e.Err.Error() + ": " + e.Why + ": " + e.Do }

func (e *PinError) Unwrap() error { return e.Err }

func newPinError(e *pin.Error) *PinError {
	return &PinError{Bytes: int(e.Bytes), Node: e.Node, Why: e.Why, Do: e.Do, Err: e.Result}
}

// PinPrediction is what page-locking will take.
type PinPrediction struct {
	Time      time.Duration // about; 0 where it cannot succeed
	Node      int           // the NUMA node where the memory will be, -1 where that is not known
	HugePages bool          // memory on huge pages
	Err       error         // a *PinError if it cannot succeed, nil if nothing speaks against it
}

// PredictPin predicts what [AllocHost] of so many bytes will take, and whether it can
// succeed, from what the machine has free and allows now and from how long the last
// large allocation took. The first time it page-locks up to 256 MiB for trial, which
// takes some 30 ms; the error is that of the trial. o may be nil.
func PredictPin(g *GPU, bytes int, o *HostOptions) (PinPrediction, error) {
	what := fmt.Sprintf("predict page-locking of %d bytes", bytes)
	if err := g.enter(what); err != nil {
		return PinPrediction{}, err
	}
	defer g.leave()
	if bytes < 0 {
		return PinPrediction{}, refusal.Invalid("%s: it cannot be negative", what)
	}
	if o == nil {
		o = &HostOptions{}
	}
	p := PinPrediction{Node: pin.AnyNode}
	var err error
	if usesPinEngine(g, uintptr(bytes), o) {
		r := pinRequest(g, uintptr(bytes), o)
		var found pin.Prediction
		if found, err = g.pinEngine.Predict(r); found.Error != nil {
			p.Err = newPinError(found.Error)
		}
		p.Time, p.Node, p.HugePages = found.Time, r.Node, found.Huge
	} else if bytes > 0 {
		p.Time, err = timeHostAlloc(g, uintptr(bytes), o)
	}
	if err != nil {
		return PinPrediction{}, fmt.Errorf("%s on %s: %w", what, g.label, err)
	}
	return p, nil
}

// timeHostAlloc tries how long the driver takes for memory of its own.
func timeHostAlloc(g *GPU, bytes uintptr, o *HostOptions) (time.Duration, error) {
	sample := min(bytes, 64<<20)
	begin := g.Now()
	p, err := g.driver.MemHostAlloc(g.ctx, sample, o.flags())
	took := g.Now() - begin
	if err != nil {
		return 0, err
	}
	return time.Duration(float64(took) * (float64(bytes) / float64(sample))), g.driver.MemFreeHost(g.ctx, p)
}

// usesPinEngine reports whether Ferry makes such a buffer itself. Write-combined
// memory only the driver has.
func usesPinEngine(g *GPU, bytes uintptr, o *HostOptions) bool {
	return g.pinEngine != nil && !o.WriteCombined && (bytes >= g.tuning.pinFrom || o.NUMANode != nil && bytes > 0)
}

// pinRequest is the options in the pin engine's words.
func pinRequest(g *GPU, bytes uintptr, o *HostOptions) pin.Request {
	r := pin.Request{Bytes: bytes, Flags: cu.MemHostRegisterPortable, Node: numaNode(g)}
	if o.NotPortable {
		r.Flags = 0
	}
	if o.Mapped {
		r.Flags |= cu.MemHostRegisterDeviceMap
	}
	if o.NUMANode != nil {
		r.Node, r.Strict = *o.NUMANode, true
	}
	if o.Progress != nil {
		r.Progress = func(done, total uintptr) { o.Progress(int(done), int(total)) }
	}
	return r
}

// numaNode is the NUMA node that the GPU is attached to.
func numaNode(g *GPU) int {
	if g.emulated != nil {
		return pin.AnyNode
	}
	id, err := g.driver.DeviceGetPCIBusId(g.device)
	if err != nil {
		return pin.AnyNode
	}
	return pin.NodeOfDevice(os.DirFS("/"), id)
}

// pinned is page-locked memory: made by the pin engine, or else by the driver.
type pinned struct {
	made *pin.Memory
	host cu.HostPtr
}

// pageLock makes page-locked memory in the way that fits.
func pageLock(ctx context.Context, g *GPU, bytes uintptr, o *HostOptions) (pinned, error) {
	if err := ctx.Err(); err != nil {
		return pinned{}, err
	}
	if usesPinEngine(g, bytes, o) {
		m, err := g.pinEngine.Lock(ctx, pinRequest(g, bytes, o))
		if err == nil {
			return pinned{m, m.Start()}, nil
		}
		if found, ok := errors.AsType[*pin.Error](err); ok {
			err = newPinError(found)
		}
		if !cannotRegister(err) {
			return pinned{}, err
		}
	}
	if o.NUMANode != nil {
		return pinned{}, refusal.New(cu.ErrorNotSupported, "the driver's own page-locked memory cannot be placed: allocate without NUMANode and WriteCombined")
	}
	p, err := g.driver.MemHostAlloc(g.ctx, bytes, o.flags())
	return pinned{nil, p}, err
}

// boundaries is where one registration borders on the next, in bytes from the start.
func (m pinned) boundaries() []uintptr {
	if m.made == nil {
		return nil
	}
	return m.made.Boundaries()
}

// free gives the memory back.
func (m pinned) free(g *GPU) error {
	if m.made != nil {
		return m.made.Close()
	}
	return g.driver.MemFreeHost(g.ctx, m.host)
}

// cannotRegister reports that the device does not register memory, although its
// attributes say that it does.
func cannotRegister(err error) bool {
	_, told := errors.AsType[*PinError](err)
	return !told && (errors.Is(err, cu.ErrorNotSupported) || errors.Is(err, cu.ErrorInvalidValue))
}
