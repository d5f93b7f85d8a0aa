package ferry

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/virtual"
)

// Device is a buffer in the memory of a GPU. It is safe for concurrent use.
type Device[T any] struct {
	_    [0]*T // so that Go converts no Device of one type to one of another
	span span
}

// Alloc allocates memory for n elements on the GPU (cuMemAlloc). The memory is aligned to
// 256 bytes and not cleared: it can hold what the program wrote to memory that it has freed.
// On a software GPU it is zero under the schedule eager, and holds a pattern under lazy (NaN)
// and random. With n = 0 the buffer is valid and empty. T can be any type without Go
// pointers and without bool, because a kernel can write any byte, and Go trusts that a bool
// is 0 or 1: use uint8. An error wraps cu.ErrorOutOfMemory, and then says how much memory is
// free, or cu.ErrorInvalidValue.
func Alloc[T any](g *GPU, n int) (*Device[T], error) {
	a, err := newAllocation[T](g, deviceMemory, n)
	if err != nil {
		return nil, err
	}
	if a.bytes > 0 {
		if a.dev, err = g.driver.MemAlloc(g.ctx, a.bytes); err != nil {
			return nil, a.fail("allocate", err, a.memoryHint(a.bytes, err))
		}
	}
	a.start()
	return &Device[T]{span: a.whole()}, nil
}

// AllocPitched allocates memory on the GPU for height rows of width elements. Each row
// begins at an address where accesses are fastest (cuMemAllocPitch). pitch is the number
// of elements from the start of a row to the start of the next, at least width. The
// buffer has height*pitch elements, and [Device.Rect] returns its rows for [CopyRect]. For
// several layers, pass the number of rows of all layers. Errors are as for [Alloc], but rows that are together more than an address can count
// are cu.ErrorInvalidValue, as in CUDA.
func AllocPitched[T any](g *GPU, width, height int) (d *Device[T], pitch int, err error) {
	e, err := kernelargs.ElementOf[T]()
	if err != nil {
		return nil, 0, fmt.Errorf("allocate device memory: %w", err)
	}
	if width < 0 || height < 0 {
		return nil, 0, refusal.Invalid("allocate device memory: %d rows of %d elements: the numbers cannot be negative", height, width)
	}
	if over, n := bits.Mul64(uint64(width), uint64(height)); over != 0 || n > math.MaxInt {
		return nil, 0, refusal.Invalid("allocate device memory: %d rows of %d elements are more than an address can count", height, width)
	}
	if width == 0 || height == 0 || e.Size == 0 {
		d, err := Alloc[T](g, width*height)
		return d, width, err
	}
	row, err := rowBytes(e, width)
	if err != nil {
		return nil, 0, err
	}
	if over, _ := bits.Mul64(uint64(row), uint64(height)); over != 0 || uint64(row)*uint64(height) > math.MaxInt {
		return nil, 0, refusal.Invalid("allocate device memory: %d rows of %s are more bytes than an address can count", height, refusal.Size(row))
	}
	a, err := newAllocation[T](g, deviceMemory, int(row/e.Size)*height)
	if err != nil {
		return nil, 0, err
	}
	var bytes uintptr
	if a.dev, bytes, err = g.driver.MemAllocPitch(g.ctx, row, uintptr(height), accessSize(e.Size)); err != nil {
		return nil, 0, a.fail("allocate", err, a.memoryHint(a.bytes, err))
	}
	if bytes%e.Size != 0 {
		err := refusal.Invalid("the driver chose a pitch of %d bytes, which is not a multiple of the size of %s, %d bytes: use Alloc", bytes, e.Name, e.Size)
		if free := g.driver.MemFree(g.ctx, a.dev); free != nil {
			err = fmt.Errorf("%w; freeing the memory failed: %w", err, free)
		}
		return nil, 0, a.fail("allocate", err, "")
	}
	pitch = int(bytes / e.Size)
	a.count, a.bytes = pitch*height, bytes*uintptr(height)
	a.rows = &pitchedRows{width, height, pitch}
	a.start()
	return &Device[T]{span: a.whole()}, pitch, nil
}

// pitchedRows are the rows of AllocPitched, in elements.
type pitchedRows struct{ width, height, pitch int }

// pitchUnit is a multiple of the alignment that drivers give to rows.
const pitchUnit = 512

// rowBytes returns how many bytes to request for a row of width elements, so that the pitch
// is a whole number of elements.
func rowBytes(e *kernelargs.Element, width int) (uintptr, error) {
	row, err := e.Bytes(width)
	if err != nil {
		return 0, fmt.Errorf("allocate device memory: %w", err)
	}
	if e.Size&(e.Size-1) == 0 {
		return row, nil
	}
	unit := pitchUnit / min(pitchUnit, e.Size&-e.Size) * e.Size // a multiple of pitchUnit and e.Size
	if row > math.MaxInt-unit {
		return 0, refusal.New(cu.ErrorOutOfMemory, "allocate device memory: rows of %d elements of %s are more bytes than an address can count", width, e.Name)
	}
	return (row + unit - 1) / unit * unit, nil
}

// accessSize returns how many bytes a kernel loads at once from elements of a size: the
// ElementSizeBytes of cuMemAllocPitch.
func accessSize(size uintptr) uint32 {
	switch {
	case size%16 == 0:
		return 16
	case size%8 == 0:
		return 8
	}
	return 4
}

// GPU returns the GPU of the buffer.
func (d *Device[T]) GPU() *GPU { return d.asSpan(nil).gpu() }

// Len returns the number of elements.
func (d *Device[T]) Len() int { return d.asSpan(nil).len() }

// Size returns the size in bytes.
func (d *Device[T]) Size() int { return d.asSpan(nil).size() }

// String returns a description of the buffer: "device buffer 3 (1000 float32, 3.9 KiB) on
// soft:h200".
func (d *Device[T]) String() string { return d.asSpan(nil).String() }

// Pointer returns the address of the buffer in kernels. It is 0 for an empty buffer, unless that has
// room to grow: see [AllocVirtual].
func (d *Device[T]) Pointer() cu.DevicePtr { return d.asSpan(nil).pointer() }

// Range returns elements i to j-1 as a buffer that shares the memory. An operation on a
// range is in flight on the whole buffer. A range needs no Close, and is valid until the
// buffer is closed. If i or j is out of bounds, every use of the range is an error.
func (d *Device[T]) Range(i, j int) *Device[T] { return &Device[T]{span: d.asSpan(nil).sub(i, j)} }

// Wait waits until no operation is in flight on the buffer, as [Host.Wait] does.
func (d *Device[T]) Wait(ctx context.Context) error {
	return d.asSpan(nil).waitHost(await.Context(ctx), inflight.Write)
}

// Close waits for the operations in flight on the buffer, and frees it (cuMemFree). The
// driver may then wait for all other work of the device. A buffer of [AllocAsync] is freed
// in stream order instead, without a wait. If Close is called in a host function, another
// goroutine waits and frees the buffer. Memory of [WrapDevice] goes back to its owner instead. If the driver cannot wait, or does not free, the error
// says so, the buffer is not freed, and another Close tries again. Otherwise Close of a closed
// buffer, of a nil one or of a range does nothing and returns nil.
//
// Close does not wait for a [CopyFrom] or [CopyTo] that uses the buffer, because its reader or
// writer may call Close. It returns an error that wraps cu.ErrorNotReady. That call goes on,
// and frees the buffer when it returns; others can no longer use the buffer.
func (d *Device[T]) Close() error { return d.asSpan(nil).close() }

func (d *Device[T]) untyped() (*span, int) { return d.asSpan(nil), int(address.SizeOf[T]()) }

func (d *Device[T]) asSpan(*T) *span {
	if d == nil {
		return nil
	}
	return &d.span
}

// freeMemory frees device and managed memory.
func freeMemory(a *allocation) error {
	if a.BornOn() != nil {
		a.g.freed.Store(true)
		return a.g.driver.MemFreeAsync(a.g.ctx, a.dev, 0)
	}
	if err := a.g.settle(); err != nil {
		return err
	}
	return a.g.driver.MemFree(a.g.ctx, a.dev)
}

// freeInOrder frees memory in the order of a stream that uses it. Only that stream waits
// for the other streams that use the memory. freed is false if there is no such stream, or if
// the driver refuses: then the memory can be freed in another way.
func (a *allocation) freeInOrder() (freed bool, err error) {
	if a.bytes == 0 || graphBirthOf(&a.Tracker) != nil {
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
		if ok, err := followStream(st, other); !ok {
			return false, err
		}
	}
	err = st.g.driver.MemFreeAsync(st.g.ctx, a.dev, st.handle)
	switch {
	case err == nil:
		op.Queued()
		st.freed.Store(true)
		a.g.freed.Store(true)
	case refusal.Sticky(err): // of earlier work: the driver may have freed the memory
		err = fmt.Errorf("close %v: %w", a, err)
	default:
		return false, err
	}
	a.placed.Resize(0)
	a.g.leave()
	return true, err
}

// waitForAllocation makes a stream wait, once, for memory that was allocated in the order
// of another stream.
func waitForAllocation(t *inflight.Tracker, st *streamState) error {
	first := t.MustFollow(&st.Stream)
	if first == nil {
		if b := graphBirthOf(t); b != nil && st.capture != nil {
			return b.usableInCapture()
		}
		return nil
	}
	if b := graphBirthOf(t); b != nil {
		return b.usable()
	}
	home := stateOfStream(first)
	ok, err := followBirth(t, st, home)
	if err == nil && !ok { // home belongs to another driver
		err = home.Wait(context.Background())
	}
	if err != nil {
		return fmt.Errorf("wait for the allocation on %v: %w", home, err)
	}
	t.Follows(&st.Stream)
	return nil
}

// birthEvent records the end of an allocation in a stream, so that other streams can wait for
// that alone. It does so on a software GPU and under FERRY_CHECK: there, a stream that does not
// wait for the first writes of the memory must be seen. On hardware it returns nil, because
// most buffers stay in one stream and two driver calls for each would be lost.
func birthEvent(st *streamState) any {
	if st.g.emulated == nil && st.g.watch == nil {
		return nil
	}
	c, err := recordCompletion(st)
	if err != nil { // then other streams wait for the whole stream
		return nil
	}
	st.g.completions.add(c)
	return c
}

// followBirth makes later work of a stream wait for the allocation in another stream. Without
// an event of the allocation it waits for all that is queued there. ok is as for followStream.
func followBirth(t *inflight.Tracker, st, home *streamState) (ok bool, err error) {
	c, _ := t.BirthEvent().(*completionEvent)
	if c == nil || !sameDriver(home.g.driver, st.g.driver) {
		return followStream(st, home)
	}
	err = c.follow(home.g, st)
	return err == nil, err
}

// dropBirth destroys the event of an allocation that nothing uses any more.
func (a *allocation) dropBirth() {
	if c, _ := a.BirthEvent().(*completionEvent); c != nil {
		c.drop(a.g)
	}
}

// VirtualOptions are the options of [AllocVirtual].
type VirtualOptions struct {
	// Max is the number of elements to which [Device.Grow] can grow the buffer. Its addresses
	// are reserved at once, and take no memory. 0 means that the buffer does not grow.
	Max int
	// Share makes memory that [Share] can hand to another process. Such a buffer does not
	// grow, because a descriptor stands for one memory: Share and Max exclude each other.
	Share bool
}

// AllocVirtual allocates memory for n elements on the GPU, whose addresses are reserved apart from
// the memory (cuMemAddressReserve, cuMemCreate, cuMemMap). So the buffer can grow where it is, or be
// shared with other processes. Otherwise it is used as a buffer of [Alloc] is. Its memory is
// rounded up to the granularity of the device, which is 2 MiB on today's GPUs.
//
// GPUs with peer access (see [GPU.EnablePeer]) can use it. If the device has no virtual memory, or
// cannot share it, the error wraps cu.ErrorNotSupported; a software GPU has it on Linux only. Other
// errors are as for Alloc. o may be nil.
func AllocVirtual[T any](g *GPU, n int, o *VirtualOptions) (*Device[T], error) {
	if o == nil {
		o = &VirtualOptions{}
	}
	most := n
	switch {
	case o.Max != 0 && o.Max < n:
		return nil, refusal.Invalid("allocate device memory: Max is %d, must be at least the %d elements of the buffer, or 0", o.Max, n)
	case o.Max > 0 && o.Share:
		return nil, refusal.Invalid("allocate device memory: Max and Share are both set, and a shared buffer cannot grow: share a buffer of the largest size")
	case o.Max > 0 && n >= 0: // newAllocation refuses a negative number
		most = o.Max
	}
	types := cu.MemHandleTypeNone
	if o.Share {
		types = cu.MemHandleTypePosixFileDescriptor
	}
	bytes := uintptr(n) * address.SizeOf[T]()
	a, err := newVirtual[T](g, "allocate", most, bytes, types, func(m *virtual.Memory) error { return m.Grow(bytes) })
	if err != nil {
		return nil, err
	}
	if most > 0 {
		a.placed.Made(&g.account.Places, a.kind.String(), int(bytes))
	}
	return &Device[T]{span: a.first(n, bytes)}, nil
}

// newVirtual makes a buffer of n elements at reserved addresses, at which fill maps memory. It takes
// bytes of the device.
func newVirtual[T any](g *GPU, verb string, n int, bytes uintptr, types cu.MemAllocationHandleType, fill func(*virtual.Memory) error) (*allocation, error) {
	a, err := newAllocation[T](g, deviceMemory, n)
	if err != nil {
		return nil, err
	}
	if a.bytes > 0 {
		if err := a.reserve(types); err != nil {
			return nil, a.fail(verb, err, "")
		}
		if err := fill(a.virtual); err != nil {
			return nil, a.fail(verb, refusal.Join(err, freeVirtual(a)), a.memoryHint(bytes, err))
		}
	}
	a.start()
	return a, nil
}

// reserve reserves the addresses of the buffer.
func (a *allocation) reserve(types cu.MemAllocationHandleType) (err error) {
	g := a.g
	switch lacking, err := virtual.Lacking(g.driver, g.device, types); {
	case err != nil:
		return err
	case lacking != 0:
		return g.lacking("use virtual memory", lacking, "use Alloc, and copy where memory cannot be shared")
	}
	if a.virtual, err = virtual.Reserve(g.driver, g.ctx, g.device, a.bytes, types, g.driverKnows); err != nil {
		return err
	}
	a.dev, a.free = a.virtual.Base, freeVirtual
	return nil
}

// freeVirtual frees memory of AllocVirtual and Import.
func freeVirtual(a *allocation) error {
	if err := a.g.settle(); err != nil {
		return err
	}
	return a.virtual.Free()
}

// first returns the span of the first n elements of the buffer, as a whole buffer.
func (a *allocation) first(n int, bytes uintptr) span {
	r := a.whole()
	r.n, r.bytes = n, bytes
	return r
}

// Grow makes the buffer larger where it is, for n elements in all, and returns it with all of them.
// The receiver stays valid, with the elements that it has, and so do its ranges: they are the same
// memory, which keeps its contents and address. What the buffer gains is not cleared. Closing any
// of them closes the buffer. Work in flight goes on meanwhile.
//
// Only a whole buffer of [AllocVirtual] with Max grows, to at most Max elements; otherwise the error
// wraps cu.ErrorInvalidValue, and nothing changes. So it does for fewer elements than the receiver
// has: use Range. If the device has no memory left, the error wraps cu.ErrorOutOfMemory, and the
// buffer is as it was. Memory is taken in steps of the device's granularity, so a step within what
// the buffer has already makes no call of the driver, and others make four.
func (d *Device[T]) Grow(n int) (*Device[T], error) {
	if forked.Child() {
		return nil, forked.New("grow a buffer")
	}
	r := d.asSpan(nil)
	if err := r.enter(); err != nil {
		return nil, fmt.Errorf("grow: %w", err)
	}
	defer r.leave()
	a, bytes := r.a, uintptr(n)*address.SizeOf[T]()
	switch {
	case a == nil || r.part:
		return nil, refusal.Invalid("grow %v to %d elements: it is a range: grow the whole buffer", r, n)
	case n < r.n:
		return nil, refusal.Invalid("grow %v to %d elements: it has %d: use Range", r, n, r.n)
	case n > a.count || n > r.n && a.virtual == nil:
		return nil, refusal.Invalid("grow %v to %d elements: it can have %d: allocate it with AllocVirtual and a larger Max", r, n, a.count)
	}
	if a.virtual != nil {
		if err := a.virtual.Grow(bytes); err != nil {
			return nil, a.growError(r, bytes, err)
		}
		a.placed.Grow(int(bytes))
	}
	return &Device[T]{span: a.first(n, bytes)}, nil
}

// growError says why the buffer does not grow.
func (a *allocation) growError(r *span, bytes uintptr, err error) error {
	hint := a.memoryHint(a.virtual.Lacks(bytes), err)
	if hint != "" {
		hint = ": " + hint
	}
	return fmt.Errorf("grow %v to %s: %w%s", r, refusal.Size(bytes), refusal.Cause(err), hint)
}

// Share returns a file descriptor that stands for the memory of a buffer of [AllocVirtual] with
// Share, also in another process (cuMemExportToShareableHandle). The descriptor goes to that process
// over a Unix socket (net.UnixConn.WriteMsgUnix) or as a file that it inherits, and [Import] makes a
// buffer of it there. Nothing is copied: all processes use the same memory.
//
// The caller closes the file. The memory lives until every buffer of it is closed, and every
// descriptor, in every process. Ferry orders the work of one process only. So before another process
// uses the memory, wait for the work of this one, and tell the other. The descriptor carries no
// number of elements: send it besides.
//
// The error wraps cu.ErrorInvalidValue if the buffer was not made for it, for a range, and for a
// buffer of Import.
func Share[T any](d *Device[T]) (*os.File, error) {
	if forked.Child() {
		return nil, forked.New("share a buffer")
	}
	r := d.asSpan(nil)
	if err := r.enter(); err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	defer r.leave()
	if r.a != nil && r.n == 0 && !r.part {
		return nil, refusal.Invalid("share %v: it has no elements, and so no memory to share", r)
	}
	if r.part || r.a == nil || !r.a.virtual.Shares() {
		return nil, refusal.Invalid("share %v: it is no whole buffer of AllocVirtual with Share", r)
	}
	if r.a.virtual.Imported() {
		return nil, refusal.Invalid("share %v: it was imported, and the driver exports such memory no more: pass on the descriptor that Import has used", r)
	}
	f, err := r.a.virtual.Export("memory of " + r.a.g.label)
	if err != nil {
		return nil, fmt.Errorf("share %v: %w", r, refusal.Cause(err))
	}
	return f, nil
}

// Import makes a buffer of n elements of the memory that a descriptor of [Share] stands for, from
// this process or another one (cuMemImportFromShareableHandle). The buffer is used as one of [Alloc]
// is. Its memory is that of the other buffers of the descriptor, and Close ends only this use of it.
// Import needs the descriptor no more when it returns, and does not close it: a third process can
// have it. [Share] refuses the buffer.
//
// n is the number of elements that the memory was allocated with: CUDA maps memory as a whole. Other
// numbers are refused, unless they round up to the same multiple of 2 MiB. Nothing that came with the
// descriptor is trusted. A file that is no memory, or of another size, is refused before anything is
// mapped: the error wraps cu.ErrorInvalidValue. The system and the driver say how large the memory
// is. What another process writes to it meanwhile is that
// process's affair: as with memory that a kernel writes, elements can change while they are read.
//
// The error wraps cu.ErrorNotSupported if this GPU cannot share memory, or does not know the device
// that the memory is of. Two software GPUs share memory if they have the same profile, on Linux.
func Import[T any](g *GPU, f *os.File, n int) (*Device[T], error) {
	if forked.Child() {
		return nil, forked.New("import a buffer")
	}
	if err := virtual.MayBe(f, uintptr(n)*address.SizeOf[T]()); err != nil {
		return nil, fmt.Errorf("import %d elements: %w", n, err)
	}
	a, err := newVirtual[T](g, "import", n, 0, cu.MemHandleTypePosixFileDescriptor, func(m *virtual.Memory) error { return m.Import(f) })
	if err != nil {
		return nil, err
	}
	return &Device[T]{span: a.whole()}, nil
}
