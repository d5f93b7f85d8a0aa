package ferry

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
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
			return nil, a.fail("allocate", err, a.memoryHint(err))
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
		return nil, 0, a.fail("allocate", err, a.memoryHint(err))
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

// Rect returns the rows of a buffer of [AllocPitched] as a rectangle for [CopyRect], without what
// fills each row up to the pitch. The rectangle of another buffer, or of a range, is one row of all
// elements. Its Height and Depth can be changed for several layers:
//
//	box := buffer.Rect() // of 10*rows rows
//	box.Height, box.Depth = rows, 10
func (d *Device[T]) Rect() Rect[T] {
	r := d.asSpan(nil)
	switch {
	case r == nil:
		return Rect[T]{}
	case r.a == nil || r.a.rows == nil || r.part:
		return Rect[T]{Memory: d, Width: r.n, Height: 1}
	}
	return Rect[T]{Memory: d, Width: r.a.rows.width, Height: r.a.rows.height, Pitch: r.a.rows.pitch}
}

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

// Pointer returns the address of the buffer in kernels. It is 0 for an empty buffer.
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
// goroutine waits and frees the buffer. If the driver cannot wait, or does not free, the error
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
	a.g.leave()
	return true, err
}

// waitForAllocation makes a stream wait, once, for memory that was allocated in the order
// of another stream.
func waitForAllocation(t *inflight.Tracker, st *streamState) error {
	first := t.MustFollow(&st.Stream)
	if first == nil {
		return nil
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
