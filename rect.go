package ferry

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Rect is a rectangle or a box of elements in memory: Depth layers, each of Height rows of
// Width elements. It begins at the first element of Memory. For another position, use a
// range: v.Range(y*pitch+x, v.Len()).
type Rect[T any] struct {
	Memory               Memory[T]
	Width, Height, Depth int // elements, rows, layers; a Height or Depth of 0 means 1
	Pitch                int // elements from the start of a row to the start of the next; 0 means Width
	Rows                 int // rows from the start of a layer to the start of the next; 0 means Height
}

// CopyRect copies a rectangle to another one of the same width, height and depth, in the
// order of the stream (cuMemcpy2DAsync, cuMemcpy3DAsync). Like [Copy] it takes all kinds
// of memory. A rectangle must be within its memory, and the two must not share elements.
// Rows are copied one by one between GPUs, on a [Batch], and in a buffer that consists of
// several registrations. With pageable memory CopyRect waits until the copy is done, and a
// Batch refuses it. Errors are as for Copy. CopyRect is safe for concurrent use.
func CopyRect[T any](q Queue, dst, src Rect[T]) error {
	to, err := newRect(dst)
	if err != nil {
		return fmt.Errorf("copy to a rectangle: %w", err)
	}
	from, err := newRect(src)
	if err != nil {
		return fmt.Errorf("copy from a rectangle: %w", err)
	}
	if to.width != from.width || to.height != from.height || to.depth != from.depth {
		return refusal.Invalid("copy %v to %v: they must have one shape", &from, &to)
	}
	if b, ok := q.(*Batch); ok {
		return addCopyRect(b, &to, &from)
	}
	return copyRect(streamOf(q), &to, &from)
}

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

// rect is a Rect in bytes.
type rect struct {
	r                    span
	width, height, depth uintptr // bytes, rows, layers
	pitch, layer         uintptr // bytes from the start of a row, or layer, to the next
	size                 uintptr // of an element
}

// newRect checks a rectangle against its memory.
func newRect[T any](b Rect[T]) (rect, error) {
	r := spanOf(b.Memory)
	if err := r.check(); err != nil {
		return rect{}, err
	}
	e, err := kernelargs.ElementOf[T]()
	if err != nil {
		return rect{}, err
	}
	if b.Height == 0 {
		b.Height = 1
	}
	if b.Depth == 0 {
		b.Depth = 1
	}
	if b.Pitch == 0 {
		b.Pitch = b.Width
	}
	if b.Rows == 0 {
		b.Rows = b.Height
	}
	switch {
	case b.Width < 0 || b.Height < 0 || b.Depth < 0 || b.Pitch < 0 || b.Rows < 0:
		return rect{}, refusal.Invalid("%s: the numbers cannot be negative", b.text())
	case b.Pitch < b.Width && (b.Height > 1 || b.Depth > 1):
		return rect{}, refusal.Invalid("%s: rows overlap, the pitch must be at least the width", b.text())
	case b.Rows < b.Height && b.Depth > 1:
		return rect{}, refusal.Invalid("%s: layers overlap, the rows of a layer must be at least the height", b.text())
	}
	switch need, ok := b.need(); {
	case !ok:
		return rect{}, refusal.Invalid("%s needs more elements than an address can count, %v has %d", b.text(), r, r.n)
	case need > uint64(r.n):
		return rect{}, refusal.Invalid("%s needs %d elements, %v has %d", b.text(), need, r, r.n)
	}
	if _, ok := refusal.Bytes(uintptr(b.Pitch), e.Size); !ok {
		return rect{}, refusal.Invalid("%s: the pitch is %s", b.text(), refusal.Elements(uintptr(b.Pitch), e.Size))
	}
	if b.Width == 0 { // an empty rectangle
		b.Height, b.Depth = 1, 1
	}
	return rect{*r, uintptr(b.Width) * e.Size, uintptr(b.Height), uintptr(b.Depth), uintptr(b.Pitch) * e.Size, uintptr(b.Rows) * uintptr(b.Pitch) * e.Size, e.Size}, nil
}

// need returns the number of elements from the first to the last of a rectangle. It
// returns false if that is too large to count.
func (b *Rect[T]) need() (uint64, bool) {
	if b.Width == 0 {
		return 0, true
	}
	h1, rows := bits.Mul64(uint64(b.Depth-1), uint64(b.Rows))
	rows, c1 := bits.Add64(rows, uint64(b.Height-1), 0)
	h2, n := bits.Mul64(rows, uint64(b.Pitch))
	n, c2 := bits.Add64(n, uint64(b.Width), 0)
	if h1|h2|c1|c2 != 0 || n > math.MaxInt {
		return math.MaxUint64, false
	}
	return n, true
}

// text returns a description of a rectangle.
func (b *Rect[T]) text() string {
	text := fmt.Sprintf("a rectangle of %d x %d", b.Width, b.Height)
	if b.Depth != 1 {
		text += fmt.Sprintf(" x %d", b.Depth)
	}
	text += fmt.Sprintf(" elements with a pitch of %d", b.Pitch)
	if b.Depth != 1 {
		text += fmt.Sprintf(" and %d rows to a layer", b.Rows)
	}
	return text
}

// String returns a description of a rectangle with its memory.
func (b *rect) String() string {
	return fmt.Sprintf("a rectangle of %d x %d x %d elements in %v", b.width/max(b.size, 1), b.height, b.depth, &b.r)
}

// bytes returns how many bytes a rectangle has.
func (b *rect) bytes() uintptr { return b.width * b.height * b.depth }

// extent returns the span from the first byte of a rectangle to its last. Its number of
// elements is the number of bytes of the rectangle.
func (b *rect) extent() span {
	if b.bytes() == 0 {
		return b.r.cut(0, 0)
	}
	out := b.r.cut(0, (b.depth-1)*b.layer+(b.height-1)*b.pitch+b.width)
	out.n = int(b.bytes())
	return out
}

// packed reports whether a rectangle has no gaps.
func (b *rect) packed() bool {
	return (b.height == 1 || b.pitch == b.width) && (b.depth == 1 || b.layer == b.width*b.height)
}

// rows yields the rows of two rectangles of the same size, in pairs.
func rows(dst, src *rect) iter.Seq2[*span, *span] {
	return func(yield func(*span, *span) bool) {
		for z := range dst.depth {
			for y := range dst.height {
				to, from := dst.r.cut(z*dst.layer+y*dst.pitch, dst.width), src.r.cut(z*src.layer+y*src.pitch, src.width)
				to.n, from.n = int(to.bytes), int(from.bytes)
				if !yield(&to, &from) {
					return
				}
			}
		}
	}
}

// copyRect implements CopyRect on a stream.
func copyRect(s *Stream, dst, src *rect) error {
	ctx := context.Background()
	to, from := dst.extent(), src.extent()
	if dst.packed() && src.packed() {
		return copySpans(ctx, s, &to, &from)
	}
	if s == nil || s.state == nil {
		return refusal.Invalid("copy: no stream given (nil)")
	}
	partTo, wholeTo, err := findBuffer(s.state.g, to)
	if err != nil {
		return fmt.Errorf("copy to %w", err)
	}
	partFrom, wholeFrom, err := findBuffer(s.state.g, from)
	if err != nil {
		return fmt.Errorf("copy from %w", err)
	}
	if wholeTo && wholeFrom {
		whole, wholeSrc := *dst, *src
		whole.r, wholeSrc.r = partTo, partFrom
		run := &copyRun{to: partTo, from: partFrom}
		changed, err := run.attempt(s.state.g, &to, &from, func(*span, *span) error { return run.copyWhole(s, &whole, &wholeSrc) })
		if changed {
			return copyRect(s, dst, src) // with what the memory is now
		}
		return err
	}
	for to, from := range rows(dst, src) {
		if err := copySpans(ctx, s, to, from); err != nil {
			return fmt.Errorf("a row of %v: %w", dst, err)
		}
	}
	return nil
}

// findBuffer returns a pageable span as a range of the buffer in which it lies. whole is
// false if only a part of the span lies there. It returns other spans unchanged.
func findBuffer(g *GPU, r span) (in span, whole bool, err error) {
	if !r.isPageable() {
		return r, true, nil
	}
	run, err := runAt(g, &r, 0)
	if err != nil || run.bytes < r.bytes {
		return r, false, err
	}
	run.n = r.n
	return run, true, nil
}

// copyWhole copies between two rectangles that are each memory of one kind.
func (c *copying) copyWhole(s *Stream, dst, src *rect) error {
	var plan copyPlan
	to, from := &dst.r, &src.r
	explain := func(err error) error {
		return fmt.Errorf("copy %s to %v from %v on %v: %w", refusal.Size(dst.bytes()), dst, src, c.st, err)
	}
	prepare := func() (err error) {
		if plan, err = c.acquire(to, from); err != nil {
			return err
		}
		if err = checkRects(c.st, &plan, dst, src); err != nil {
			return explain(err)
		}
		return nil
	}
	return c.steps(s, planOf(to, from).long, prepare, explain, func() error {
		if err := c.moveRect(&plan, dst, src); err != nil {
			return explain(err)
		}
		return nil
	})
}

// moveRect makes a copy of copyWhole. Pageable memory does not go through the ring: the driver
// may access it after its call has returned.
func (c *copying) moveRect(plan *copyPlan, dst, src *rect) error {
	switch plan.path {
	case pathNone:
		return nil
	case pathCPU:
		if err := waitBoth(context.Background(), c.st, &dst.r, &src.r); err != nil {
			return err
		}
		for to, from := range rows(dst, src) {
			copy(address.Bytes(to.host, to.bytes), address.Bytes(from.host, from.bytes))
		}
		return nil
	case pathRing:
		c.late = true
	}
	queued, err := queueRect(c.st, plan, dst, src)
	if queued {
		c.queued(plan, dst.r.bytes)
	}
	return err
}

// queueRect queues a copy by the driver, in one call or row by row. queued is as for
// queueCopy.
func queueRect(st *streamState, plan *copyPlan, dst, src *rect) (queued bool, err error) {
	if !dst.r.crossesBoundary() && !src.r.crossesBoundary() && !plan.far {
		return true, memcpyRect(st, plan, dst, src)
	}
	for to, from := range rows(dst, src) {
		one, err := queueCopy(st, plan, to, from)
		queued = queued || one
		if err != nil {
			return queued, err
		}
	}
	return queued, nil
}

// checkRects checks a copy between rectangles.
func checkRects(st *streamState, plan *copyPlan, dst, src *rect) error {
	if err := plan.check(st, &dst.r, &src.r); err != nil {
		return err
	}
	if plan.comparable && dst.overlaps(src) {
		return errOverlap(&dst.r)
	}
	return nil
}

// overlaps reports whether two rectangles of the same size share bytes. Their addresses must
// be comparable.
func (b *rect) overlaps(c *rect) bool {
	x, y := b.extent(), c.extent()
	if !(x.address() < y.address()+uint64(y.bytes) && y.address() < x.address()+uint64(x.bytes)) {
		return false
	}
	// The rows of each rectangle have rising addresses, so one pass over both suffices.
	for i, j := uintptr(0), uintptr(0); i < b.height*b.depth && j < c.height*c.depth; {
		p, q := b.rowAddress(i), c.rowAddress(j)
		switch {
		case p+uint64(b.width) <= q:
			i++
		case q+uint64(c.width) <= p:
			j++
		default:
			return true
		}
	}
	return false
}

// rowAddress returns the address of row i, counted over all layers.
func (b *rect) rowAddress(i uintptr) uint64 {
	return b.r.address() + uint64(i/b.height*b.layer+i%b.height*b.pitch)
}

// memcpyRect queues cuMemcpy2DAsync or cuMemcpy3DAsync.
func memcpyRect(st *streamState, plan *copyPlan, dst, src *rect) error {
	for _, b := range []*rect{dst, src} {
		if most := st.g.caps.Pitch; most > 0 && b.pitch > uintptr(most) {
			return refusal.Invalid("a pitch of %s is more than the device supports (%v is %d): copy row by row", refusal.Size(b.pitch), cu.DeviceAttributeMaxPitch, most)
		}
	}
	d, ctx := st.g.driver, st.g.ctx
	to, from := dst.end(plan.toHost), src.end(plan.fromHost)
	defer runtime.KeepAlive(dst)
	defer runtime.KeepAlive(src)
	if dst.depth == 1 {
		return d.Memcpy2DAsync(ctx, &cu.Memcpy2D{
			DstMemoryType: to.memory, DstHost: to.host, DstDevice: to.dev, DstPitch: to.pitch,
			SrcMemoryType: from.memory, SrcHost: from.host, SrcDevice: from.dev, SrcPitch: from.pitch,
			WidthInBytes: dst.width, Height: dst.height,
		}, st.handle)
	}
	return d.Memcpy3DAsync(ctx, &cu.Memcpy3D{
		DstMemoryType: to.memory, DstHost: to.host, DstDevice: to.dev, DstPitch: to.pitch, DstHeight: to.rows,
		SrcMemoryType: from.memory, SrcHost: from.host, SrcDevice: from.dev, SrcPitch: from.pitch, SrcHeight: from.rows,
		WidthInBytes: dst.width, Height: dst.height, Depth: dst.depth,
	}, st.handle)
}

// rectEnd is one side of a copy in the terms of cuMemcpy2D and cuMemcpy3D.
type rectEnd struct {
	memory      cu.MemoryType
	host        cu.HostPtr
	dev         cu.DevicePtr
	pitch, rows uintptr
}

func (b *rect) end(onHost bool) rectEnd {
	e := rectEnd{memory: cu.MemoryTypeDevice, dev: b.r.dev, pitch: b.pitch, rows: b.height}
	if onHost {
		e.memory, e.dev, e.host = cu.MemoryTypeHost, 0, b.r.host
	}
	if b.pitch > 0 && b.depth > 1 {
		e.rows = b.layer / b.pitch
	}
	return e
}

// addCopyRect adds a CopyRect to a batch.
func addCopyRect(b *Batch, dst, src *rect) error {
	err := refusal.Join(dst.r.check(), src.r.check())
	if err == nil {
		err = refusePageable(&dst.r, &src.r)
	}
	if err != nil {
		return fmt.Errorf("copy a rectangle in a batch: %w", err)
	}
	to, from := *dst, *src
	_, err = b.add("copy a rectangle", func(b *Batch, st *streamState, _ *batchOp) error { return prepareRect(b, st, to, from) })
	return err
}

func prepareRect(b *Batch, st *streamState, dst, src rect) error {
	dst.r, src.r = dst.extent(), src.extent()
	if err := b.acquireSpan(st, &dst.r, inflight.Write); err != nil {
		return err
	}
	if err := b.acquireSpan(st, &src.r, inflight.Read); err != nil {
		return err
	}
	plan := planCopy(st, &dst.r, &src.r)
	if err := checkRects(st, &plan, &dst, &src); err != nil || dst.bytes() == 0 {
		return err
	}
	some, err := plan.mustQueue()
	if some {
		for to, from := range rows(&dst, &src) {
			for to, from := range registrations(to, from) {
				b.calls.Append(plan.call(st, to, from))
			}
		}
	}
	return err
}
