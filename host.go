package ferry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/room"
	"github.com/ferrygpu/ferry/internal/tuning"
)

// Host is a page-locked buffer in host memory, allocated by [AllocHost] or [Host.Alloc],
// or registered by [Register]. Copies between it and a device are asynchronous and run at
// the speed of the link. Its methods are safe for concurrent use. Concurrent accesses to
// its elements need synchronization, as for any Go memory.
type Host[T any] struct {
	_    [0]*T // so that Go converts no Host of one type to one of another
	span span
}

// HostOptions are the options of [AllocHost].
type HostOptions struct {
	// Mapped gives the buffer an address in kernels, which can then read and write host
	// memory over the link (zero-copy; CU_MEMHOSTALLOC_DEVICEMAP).
	Mapped bool
	// WriteCombined makes memory that bypasses the caches of the CPU
	// (CU_MEMHOSTALLOC_WRITECOMBINED). It is for buffers that Go only fills: sequential
	// writes are fast. Reads are slow, 236 MB/s on a PC. On virtual machines it is cached
	// (29 GB/s on an H200 machine, as other memory), and soft:h200 does the same.
	WriteCombined bool
	// NotPortable page-locks the memory for this GPU only: other GPUs of the driver
	// cannot use it. The default is CU_MEMHOSTALLOC_PORTABLE.
	NotPortable bool
	// NUMANode is the preferred NUMA node for the memory. If it has no free memory, the
	// system uses other nodes. nil means the node of the GPU. For a node that does not
	// exist, the error names those that do and wraps cu.ErrorInvalidValue. A machine that
	// names no nodes has node 0. A software GPU has the node that its profile names
	// (CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID), or node 0.
	NUMANode *int
	// Progress, if not nil, is called after each registration of a large buffer. done is
	// how many bytes are page-locked so far, total is the size of the buffer. The
	// goroutine that allocates calls it.
	Progress func(done, total int)
}

// AllocHost allocates page-locked memory for n elements. Ferry makes large buffers itself.
// Many goroutines touch the memory, on the NUMA node of the GPU, and on huge pages if
// those are faster. It is registered in parts of at most 256 MiB (cuMemHostRegister), but
// behaves like one registration. Small and write-combined buffers come from the driver
// (cuMemHostAlloc). Both ways take long compared to a copy: keep buffers and reuse them,
// or take them from a [PinnedPool], by [Host.Alloc].
//
// The contents are undefined. Fresh memory is zero on hardware, but a block of a [PinnedPool]
// holds what was in it before. A software GPU has the patterns of [Alloc].
//
// With n = 0 the buffer is valid and empty. T is as for [Alloc]. An error wraps
// cu.ErrorOutOfMemory, cu.ErrorInvalidValue, or, if Mapped is set and the device cannot map
// memory, cu.ErrorNotSupported. A *[PinError] has a cause that was found before memory was
// allocated. After an error no memory remains allocated. o may be nil.
func AllocHost[T any](g *GPU, n int, o *HostOptions) (*Host[T], error) {
	return AllocHostContext[T](context.Background(), g, n, o)
}

// AllocHostContext is [AllocHost] with a context. When ctx ends, a large allocation stops
// after the current registration, within some 50 ms on hardware, and the error wraps
// ctx.Err(). A nil ctx never ends.
func AllocHostContext[T any](ctx context.Context, g *GPU, n int, o *HostOptions) (*Host[T], error) {
	if o == nil {
		o = &HostOptions{}
	}
	return allocHostOf[T](await.Context(ctx), g, account.Allocated, n, o)
}

// allocHostOf is AllocHostContext for memory of a kind.
func allocHostOf[T any](ctx context.Context, g *GPU, k account.Kind, n int, o *HostOptions) (*Host[T], error) {
	a, err := newAllocation[T](g, hostMemory, n)
	if err != nil {
		return nil, err
	}
	if err := allocHost(ctx, a, k, o); err != nil {
		return nil, err
	}
	return &Host[T]{span: a.whole()}, nil
}

// allocHost allocates page-locked memory with the pin engine or the driver.
func allocHost(ctx context.Context, a *allocation, k account.Kind, o *HostOptions) error {
	g := a.g
	if o.Mapped && !g.caps.Mapping {
		g.leave()
		return g.lacking("map page-locked memory", cu.DeviceAttributeCanMapHostMemory, "allocate without Mapped and copy")
	}
	a.oneGPU = o.NotPortable
	if a.bytes == 0 {
		a.start()
		return nil
	}
	returned := false
	defer func() {
		if !returned { // Progress panicked, or ended the goroutine
			g.leave()
		}
	}()
	m, err := pageLock(ctx, g, k, a.bytes, o)
	returned = true
	if err != nil {
		hint := lockHint(a, err)
		if o.WriteCombined && hint == "" && errors.Is(err, cu.ErrorInvalidValue) && !refusal.Is(err) {
			hint = "machines with NVLink-C2C refuse large write-combined memory: allocate without WriteCombined"
		}
		return a.fail("allocate", explainPin(err), hint)
	}
	a.host, a.boundaries = m.host, m.boundaries()
	a.free = func(a *allocation) error { return m.free(a.g) }
	if a.dev, err = mappedAddress(g, a.host, o.Mapped); err != nil {
		return a.fail("map", refusal.Join(err, m.free(g)), "")
	}
	a.start()
	return nil
}

// flags returns the options as flags of cuMemHostAlloc.
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

// mappedAddress returns the address of page-locked memory in kernels. It is 0 if there is
// none, because there is no unified addressing and the memory is not mapped.
func mappedAddress(g *GPU, p cu.HostPtr, asked bool) (cu.DevicePtr, error) {
	switch {
	case g.caps.Unified:
		return address.Device(p), nil
	case asked:
		return g.driver.MemHostGetDevicePointer(g.ctx, p, 0)
	}
	return 0, nil
}

// lockHint says how much host memory is available, if page-locking failed for lack of
// memory and err does not say that already.
func lockHint(a *allocation, err error) string {
	if a.g.emulated != nil || !errors.Is(err, cu.ErrorOutOfMemory) {
		return ""
	}
	if _, explained := errors.AsType[*PinError](explainPin(err)); explained {
		return ""
	}
	if free := room.Read(os.DirFS("/")).Free(); free != room.Unknown {
		return fmt.Sprintf("%s of host memory are available", refusal.Size(uintptr(free)))
	}
	return ""
}

// GPU returns the GPU of the buffer.
func (h *Host[T]) GPU() *GPU { return h.asSpan(nil).gpu() }

// Len returns the number of elements.
func (h *Host[T]) Len() int { return h.asSpan(nil).len() }

// Size returns the size in bytes.
func (h *Host[T]) Size() int { return h.asSpan(nil).size() }

// String returns a description of the buffer: "page-locked buffer 3 (1000 float32, 3.9
// KiB) on cuda:0".
func (h *Host[T]) String() string { return h.asSpan(nil).String() }

// Pointer returns the address of the buffer in kernels (cuMemHostGetDevicePointer). It is
// 0 if there is none, because the buffer was made without Mapped and the device has no
// unified addressing.
func (h *Host[T]) Pointer() cu.DevicePtr { return h.asSpan(nil).pointer() }

// Flags returns the flags that the driver reports for the buffer (cuMemHostGetFlags).
// Hardware never reports cu.MemHostAllocPortable for memory that it allocated. With
// unified addressing it always reports cu.MemHostAllocDeviceMap, because it maps all
// page-locked memory.
func (h *Host[T]) Flags() (cu.MemHostAllocFlags, error) {
	r := h.asSpan(nil)
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

// Range returns elements i to j-1 as a buffer that shares the memory. An operation on a
// range is in flight on the whole buffer. A range needs no Close, and is valid until the
// buffer is closed. If i or j is out of bounds, every use of the range is an error.
func (h *Host[T]) Range(i, j int) *Host[T] { return &Host[T]{span: h.asSpan(nil).sub(i, j)} }

// Slice waits until no operation is in flight on the buffer, and returns its memory, to
// read and write. It waits for all operations on the buffer that were queued before, and
// perhaps for later operations of the same streams. The slice is valid until Close. When
// another operation has been queued on the buffer, call Slice again, or wait in another
// way, before you touch the memory.
//
// On a software GPU the first call after new operations on the buffer, or after any kernel, takes
// the predicted time in which the CPU uses the whole buffer. Call Slice on a Range to use a part.
// Further calls take none.
//
// Slice panics with an error value in these cases:
//
//   - The buffer is closed: the error wraps [ErrClosed].
//   - An operation on the buffer failed: the error wraps the driver's result.
//   - The buffer is a range out of bounds: the error wraps cu.ErrorInvalidValue.
//   - Slice would have to wait in a host function: the error wraps
//     cu.ErrorNotPermitted.
//
// The text says which buffer, where and why. [Host.SliceContext] returns the error
// instead.
func (h *Host[T]) Slice() []T { return mustSlice[T](h.asSpan(nil), inflight.Write) }

// ReadSlice is [Host.Slice] for reading only. It does not wait for operations that only
// read the buffer. It panics as Slice does.
func (h *Host[T]) ReadSlice() []T { return mustSlice[T](h.asSpan(nil), inflight.Read) }

// SliceContext is [Host.Slice] with a context, and returns the error with which Slice
// panics. When ctx ends first, the error wraps ctx.Err() and the work continues. A nil ctx
// never ends.
func (h *Host[T]) SliceContext(ctx context.Context) ([]T, error) {
	return hostSlice[T](await.Context(ctx), h.asSpan(nil), inflight.Write)
}

// ReadSliceContext is [Host.SliceContext] for reading only. It does not wait for
// operations that only read the buffer.
func (h *Host[T]) ReadSliceContext(ctx context.Context) ([]T, error) {
	return hostSlice[T](await.Context(ctx), h.asSpan(nil), inflight.Read)
}

// Wait waits until no operation is in flight on the buffer, so that a following Slice
// returns at once. When ctx ends first, the error wraps ctx.Err() and the work continues.
// A nil ctx never ends. An error of the work itself is returned here, and once more by
// [Stream.Wait].
func (h *Host[T]) Wait(ctx context.Context) error {
	return h.asSpan(nil).waitHost(await.Context(ctx), inflight.Write)
}

// Close waits for the operations in flight on the buffer, and frees it (cuMemFreeHost, or
// cuMemHostUnregister for memory that Ferry page-locked). The driver may then wait for all
// other work of the device. Close of a registered buffer ends its registration. A buffer
// of a [PinnedPool] returns to the pool instead, without a wait, and memory of [WrapHost] goes
// back to its owner. Slices
// of a buffer that was allocated must not be used afterwards. If Close is called in a host
// function, another goroutine waits and frees the buffer. Errors are as for [Device.Close]: also
// cu.ErrorNotReady while a [CopyFrom] or [CopyTo] uses the buffer, which then frees it.
func (h *Host[T]) Close() error { return h.asSpan(nil).close() }

func (h *Host[T]) untyped() (*span, int) { return h.asSpan(nil), int(address.SizeOf[T]()) }

func (h *Host[T]) asSpan(*T) *span {
	if h == nil {
		return nil
	}
	return &h.span
}

// PinError says why memory cannot be page-locked: the limit of the control group, too
// little free memory, or a NUMA node that does not exist. Ferry finds such a cause before
// it allocates memory.
type PinError struct {
	Bytes int    // size of the request
	Node  int    // NUMA node of the request, -1 for any
	Why   string // the cause
	Do    string // what to do about it
	Err   error  // cu.ErrorOutOfMemory or cu.ErrorInvalidValue
}

// Error returns the text of Err, the cause, and what to do about it.
func (e *PinError) Error() string {
	if e == nil || e.Err == nil {
		return "no error"
	}
	return e.Err.Error() + ": " + e.Why + ": " + e.Do
}

// Unwrap returns Err.
func (e *PinError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

func newPinError(e *pin.Error) *PinError {
	return &PinError{Bytes: int(e.Bytes), Node: e.Node, Why: e.Why, Do: e.Do, Err: e.Result}
}

// explainPin returns an error of package pin as a *PinError, and other errors as they are.
func explainPin(err error) error {
	if waited, ok := errors.AsType[*pin.Waited](err); ok {
		return &pin.Waited{End: waited.End, Err: explainPin(waited.Err)}
	}
	if found, ok := errors.AsType[*pin.Error](err); ok {
		return newPinError(found)
	}
	return err
}

// predictPin implements bridge.PredictPin. It uses the duration of the last large
// allocation. The error is that of the trial.
func predictPin(g *GPU, bytes int, o *HostOptions) (bridge.PinPrediction, error) {
	what := fmt.Sprintf("predict page-locking of %d bytes", bytes)
	if err := g.enter(what); err != nil {
		return bridge.PinPrediction{}, err
	}
	defer g.leave()
	if bytes < 0 {
		return bridge.PinPrediction{}, refusal.Invalid("%s: it cannot be negative", what)
	}
	if o == nil {
		o = &HostOptions{}
	}
	p := bridge.PinPrediction{Node: pin.AnyNode}
	var err error
	if p.Err = refusePin(g, uintptr(bytes), o); p.Err != nil {
		return p, nil
	}
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
		return bridge.PinPrediction{}, fmt.Errorf("%s on %s: %w", what, g.label, err)
	}
	return p, nil
}

// refusePin returns a *PinError if memory that the driver makes cannot be there.
func refusePin(g *GPU, bytes uintptr, o *HostOptions) error {
	if usesPinEngine(g, bytes, o) {
		return nil
	}
	var why *pin.Error
	r := pin.Request{Bytes: bytes, Node: pin.AnyNode}
	if o.NUMANode != nil {
		r.Node, r.Strict = *o.NUMANode, true
	}
	switch {
	case g.pinEngine != nil:
		why = g.pinEngine.Refuse(r)
	case g.emulated != nil:
		why = pin.RefuseEmulated(r, tuning.EmulatedHost(g.emulated)())
	}
	if why != nil {
		return newPinError(why)
	}
	return nil
}

// timeHostAlloc measures how long the driver takes for a sample of page-locked memory, and
// scales the time to the number of bytes.
func timeHostAlloc(g *GPU, bytes uintptr, o *HostOptions) (time.Duration, error) {
	sample := min(bytes, 64<<20)
	begin := g.Now()
	p, err := g.driver.MemHostAlloc(g.ctx, sample, o.flags())
	took := g.Now() - begin
	if err != nil {
		return 0, err
	}
	scaled := time.Duration(float64(took) * (float64(bytes) / float64(sample)))
	if err := g.settle(); err != nil {
		return scaled, refusal.Join(err, g.driver.MemFreeHost(g.ctx, p))
	}
	return scaled, g.driver.MemFreeHost(g.ctx, p)
}

// usesPinEngine reports whether the pin engine makes such a buffer. Only the driver can
// make write-combined memory.
func usesPinEngine(g *GPU, bytes uintptr, o *HostOptions) bool {
	return g.pinEngine != nil && !o.WriteCombined && (bytes >= g.tuning.PinFrom || o.NUMANode != nil && bytes > 0)
}

// pinRequest returns the options as a request to the pin engine.
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

// numaNode returns the NUMA node of the GPU, or pin.AnyNode if it is not known.
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

// pinned is page-locked memory.
type pinned struct {
	made  *pin.Memory // nil if the driver made it
	host  cu.HostPtr
	bytes uintptr
	claim *account.Claim
}

// pageLock makes page-locked memory of a kind, unless that is beyond the limit of the GPU.
func pageLock(ctx context.Context, g *GPU, k account.Kind, bytes uintptr, o *HostOptions) (pinned, error) {
	if err := ctx.Err(); err != nil {
		return pinned{}, err
	}
	claim, err := claimPinned(g, k, bytes, false)
	if err != nil {
		return pinned{}, err
	}
	return pageLockClaimed(ctx, g, claim, bytes, o)
}

// claimPinned claims bytes of the limit of the GPU. The error is a *pin.Limited. With must it never
// fails.
func claimPinned(g *GPU, k account.Kind, bytes uintptr, must bool) (*account.Claim, error) {
	claim, err := g.account.Claim(k, int(bytes), must)
	over, _ := errors.AsType[*account.Over](err)
	if over == nil {
		return claim, nil
	}
	oplog.Bytes(slog.LevelWarn, oplog.Limit, "limit of the GPU", bytes, g.label)
	do := "close buffers, trim pools, or raise the limit"
	if !over.Fits() {
		do = "take less, or raise the limit"
	}
	return nil, &pin.Limited{Err: &pin.Error{Bytes: bytes, Node: pin.AnyNode, Why: over.Error(), Do: do, Result: cu.ErrorOutOfMemory}, Fits: over.Fits()}
}

// pageLockClaimed makes the page-locked memory of a claim, with the pin engine or, if that cannot
// make it, with the driver.
func pageLockClaimed(ctx context.Context, g *GPU, claim *account.Claim, bytes uintptr, o *HostOptions) (pinned, error) {
	defer claim.End()
	if oplog.On() {
		begin := g.Now()
		defer func() { oplog.Locked(bytes, g.Now()-begin, g.label) }()
	}
	if usesPinEngine(g, bytes, o) {
		r := pinRequest(g, bytes, o)
		r.Count = claim.Add
		m, err := g.pinEngine.Lock(ctx, r)
		if err == nil {
			return pinned{m, m.Start(), bytes, claim}, nil
		}
		if err = explainPin(err); !cannotRegister(err) {
			return pinned{}, err
		}
		oplog.Bytes(slog.LevelWarn, oplog.Fallback, "registration refused, the driver page-locks", bytes, g.label)
	}
	if o.NUMANode != nil {
		if err := driverPlaces(g, bytes, *o.NUMANode); err != nil {
			return pinned{}, err
		}
	}
	p, err := g.driver.MemHostAlloc(g.ctx, bytes, o.flags())
	if err == nil {
		claim.Add(int(bytes))
	}
	return pinned{nil, p, bytes, claim}, err
}

// driverPlaces returns an error unless memory that the driver makes is on a NUMA node, because
// the machine has no other node.
func driverPlaces(g *GPU, bytes uintptr, node int) error {
	if g.emulated != nil { // it has one node
		if why := pin.RefuseEmulated(pin.Request{Bytes: bytes, Node: node, Strict: true}, tuning.EmulatedHost(g.emulated)()); why != nil {
			return newPinError(why)
		}
		return nil
	}
	if pin.ReadMachine(os.DirFS("/")).HasOnly(node) {
		return nil
	}
	return refusal.New(cu.ErrorNotSupported, "only the driver can make this memory, and it cannot be placed on a NUMA node: allocate without NUMANode, or without WriteCombined")
}

// boundaries returns the boundaries between registrations, in bytes from the start.
func (m pinned) boundaries() []uintptr {
	if m.made == nil {
		return nil
	}
	return m.made.Boundaries()
}

// free frees the memory. After an error what the driver still knows stays counted.
func (m pinned) free(g *GPU) error {
	err := m.freeByDriver(g)
	switch {
	case err == nil:
		m.claim.Keep(0)
	case !closing.InHostFunction(err):
		m.claim.Keep(m.known(g, err))
	}
	return err
}

// freeByDriver implements free.
func (m pinned) freeByDriver(g *GPU) error {
	if m.made != nil {
		return m.made.Close()
	}
	if err := g.settle(); err != nil {
		return err
	}
	return g.driver.MemFreeHost(g.ctx, m.host)
}

// known returns how many bytes the driver still knows after an error of a free: none in a context
// that is lost.
func (m pinned) known(g *GPU, err error) (bytes int) {
	if refusal.Sticky(err) {
		return 0
	}
	start := uintptr(0)
	for _, end := range append(m.boundaries(), m.bytes) {
		if g.driverKnows(address.Device(m.host) + cu.DevicePtr(start)) {
			bytes += int(end - start)
		}
		start = end
	}
	return bytes
}

// cannotRegister reports whether an error means that the device cannot register memory,
// although its attributes say that it can.
func cannotRegister(err error) bool {
	_, explained := errors.AsType[*PinError](err)
	return !explained && (errors.Is(err, cu.ErrorNotSupported) || errors.Is(err, cu.ErrorInvalidValue))
}
