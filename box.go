package ferry

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

// Box is a rectangle or a box of elements in memory: Depth layers of Height rows
// of Width elements. It begins with the first element of Memory; take a Range for
// another place: v.Range(y*pitch+x, v.Len()).
type Box[T any] struct {
	Memory               Memory[T]
	Width, Height, Depth int // elements, rows, layers; Height and Depth may be left 0 for 1
	Pitch                int // elements from the start of a row to that of the next; 0 for Width
	Rows                 int // rows from the start of a layer to that of the next; 0 for Height
}

// AllocPitched takes memory on the GPU for height rows of width elements, each row
// where accesses are fastest (cuMemAllocPitch). pitch is the elements from the
// start of a row to that of the next, at least width; the buffer has height*pitch
// elements. Layers of a box are so many more rows. Errors are as for [Alloc].
func AllocPitched[T any](g *GPU, width, height int) (d *Device[T], pitch int, err error) {
	e, err := elementOf[T]()
	if err != nil {
		return nil, 0, fmt.Errorf("allocate device memory: %w", err)
	}
	if width < 0 || height < 0 {
		return nil, 0, refuse("allocate device memory: %d rows of %d elements: the numbers cannot be negative", height, width)
	}
	if width == 0 || height == 0 || e.size == 0 {
		d, err := Alloc[T](g, width*height)
		return d, width, err
	}
	row, err := e.bytes(width)
	if err != nil {
		return nil, 0, fmt.Errorf("allocate device memory: %w", err)
	}
	if e.size&(e.size-1) != 0 { // the pitch must be whole elements: ask for a multiple of both
		unit := pitchUnit / min(pitchUnit, e.size&-e.size) * e.size
		if row > math.MaxInt-unit {
			return nil, 0, &refusal{cu.ErrorOutOfMemory, fmt.Sprintf("allocate device memory: rows of %d elements of %s are more bytes than an address can count", width, e.name)}
		}
		row = (row + unit - 1) / unit * unit
	}
	if over, _ := bits.Mul64(uint64(row), uint64(height)); over != 0 || uint64(row)*uint64(height) > math.MaxInt {
		return nil, 0, &refusal{cu.ErrorOutOfMemory, fmt.Sprintf("allocate device memory: %d rows of %s are more bytes than an address can count", height, sizeText(row))}
	}
	a, err := newAllocation[T](g, deviceMemory, int(row/e.size)*height)
	if err != nil {
		return nil, 0, err
	}
	var bytes uintptr
	if a.dev, bytes, err = g.driver.MemAllocPitch(g.ctx, row, uintptr(height), accessSize(e.size)); err != nil {
		return nil, 0, a.fail("allocate", err, g.room(a.bytes, err))
	}
	if bytes%e.size != 0 {
		err := refuse("the driver's pitch of %d bytes is no whole number of elements of %s, %d bytes each: use Alloc", bytes, e.name, e.size)
		if free := g.driver.MemFree(g.ctx, a.dev); free != nil {
			err = fmt.Errorf("%w; and undoing it: %w", err, free)
		}
		return nil, 0, a.fail("allocate", err, "")
	}
	pitch = int(bytes / e.size)
	a.count, a.bytes = pitch*height, bytes*uintptr(height)
	a.start()
	return &Device[T]{a.whole()}, pitch, nil
}

// pitchUnit is a multiple of what drivers align rows to.
const pitchUnit = 512

// accessSize is what a kernel loads at once of elements of a size, as
// cuMemAllocPitch wants to know.
func accessSize(size uintptr) uint32 {
	switch {
	case size%16 == 0:
		return 16
	case size%8 == 0:
		return 8
	}
	return 4
}

// CopyBox copies a box to another of the same shape in the order of the stream
// (cuMemcpy2DAsync, cuMemcpy3DAsync), between all kinds of memory, as [Copy] does.
// A box must lie in its memory; the two must not share elements. Between GPUs, and
// where registrations border on each other, rows are copied one by one. Where a
// plain slice takes part, CopyBox waits until the copy is done. Errors are as for
// Copy. It is safe for concurrent use.
func CopyBox[T any](s *Stream, dst, src Box[T]) error {
	to, err := newBox(dst)
	if err != nil {
		return fmt.Errorf("copy to a box: %w", err)
	}
	from, err := newBox(src)
	if err != nil {
		return fmt.Errorf("copy from a box: %w", err)
	}
	return s.copyBox(to, from)
}

// box is a Box in bytes.
type box struct {
	r                    *region
	width, height, depth uintptr // bytes, rows, layers
	pitch, layer         uintptr // bytes from row to row, and from layer to layer
	size                 uintptr // of an element
}

// newBox checks a box against its memory.
func newBox[T any](b Box[T]) (box, error) {
	r := regionOf(b.Memory)
	if err := r.check(); err != nil {
		return box{}, err
	}
	e, err := elementOf[T]()
	if err != nil {
		return box{}, err
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
		return box{}, refuse("%s: the numbers cannot be negative", b.words())
	case b.Pitch < b.Width && (b.Height > 1 || b.Depth > 1):
		return box{}, refuse("%s: rows overlap, the pitch must be at least the width", b.words())
	case b.Rows < b.Height && b.Depth > 1:
		return box{}, refuse("%s: layers overlap, there must be at least the height of rows to a layer", b.words())
	}
	if need, ok := b.need(); !ok || need > uint64(r.n) {
		return box{}, refuse("%s needs %d elements, %v has %d", b.words(), need, r, r.n)
	}
	if b.Width == 0 { // of nothing
		b.Height, b.Depth = 1, 1
	}
	return box{r, uintptr(b.Width) * e.size, uintptr(b.Height), uintptr(b.Depth), uintptr(b.Pitch) * e.size, uintptr(b.Rows) * uintptr(b.Pitch) * e.size, e.size}, nil
}

// need is the elements from the first to the last of a box; false if they cannot be
// counted.
func (b *Box[T]) need() (uint64, bool) {
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

// words describe a box.
func (b *Box[T]) words() string {
	text := fmt.Sprintf("a box of %d x %d", b.Width, b.Height)
	if b.Depth != 1 {
		text += fmt.Sprintf(" x %d", b.Depth)
	}
	text += fmt.Sprintf(" elements with a pitch of %d", b.Pitch)
	if b.Depth != 1 {
		text += fmt.Sprintf(" and %d rows to a layer", b.Rows)
	}
	return text
}

// String describes a box in bytes.
func (b *box) String() string {
	return fmt.Sprintf("a box of %d x %d x %d elements in %v", b.width/max(b.size, 1), b.height, b.depth, b.r)
}

// bytes is how many bytes a box has.
func (b *box) bytes() uintptr { return b.width * b.height * b.depth }

// extent is the region from a box's first byte to its last.
func (b *box) extent() region {
	if b.bytes() == 0 {
		return b.r.cut(0, 0)
	}
	return b.r.cut(0, (b.depth-1)*b.layer+(b.height-1)*b.pitch+b.width)
}

// row is row y of layer z.
func (b *box) row(y, z uintptr) region { return b.r.cut(z*b.layer+y*b.pitch, b.width) }

// packed says that a box has no gaps.
func (b *box) packed() bool {
	return (b.height == 1 || b.pitch == b.width) && (b.depth == 1 || b.layer == b.width*b.height)
}

// copyBox is CopyBox.
func (s *Stream) copyBox(dst, src box) error {
	if dst.width != src.width || dst.height != src.height || dst.depth != src.depth {
		return refuse("copy %v to %v: they must have one shape", &src, &dst)
	}
	to, from := dst.extent(), src.extent()
	if dst.packed() && src.packed() {
		to.n, from.n = int(to.bytes), int(from.bytes)
		return s.copy(&to, &from)
	}
	if s == nil || s.q == nil {
		return refuse("copy: no stream given (nil)")
	}
	wholeTo, err := s.q.g.whole(&to)
	if err != nil {
		return fmt.Errorf("copy to %w", err)
	}
	wholeFrom, err := s.q.g.whole(&from)
	if err != nil {
		return fmt.Errorf("copy from %w", err)
	}
	if !wholeTo || !wholeFrom {
		return s.copyRows(dst, src)
	}
	dst.r, src.r = &to, &from
	to.n = int(dst.bytes() / dst.size)
	from.n = to.n
	q, err := s.enter("copy")
	if err != nil {
		return err
	}
	return q.operate2("copy", &to, &from, func(q *queue, _, _ *region) (bool, error) { return q.copyBox(&dst, &src) })
}

// whole puts a plain region that lies in a buffer there. It is false if only a part
// does.
func (g *GPU) whole(r *region) (bool, error) {
	if !r.isPlain() {
		return true, nil
	}
	first, err := g.stretch(r, 0)
	if err != nil || first.bytes < r.bytes {
		return false, err
	}
	*r = first
	return true, nil
}

// copyRows copies a box as rows of their own.
func (s *Stream) copyRows(dst, src box) error {
	for z := range dst.depth {
		for y := range dst.height {
			to, from := dst.row(y, z), src.row(y, z)
			to.n, from.n = int(to.bytes), int(from.bytes)
			if err := s.copy(&to, &from); err != nil {
				return fmt.Errorf("row %d of layer %d: %w", y, z, err)
			}
		}
	}
	return nil
}

// copyBox checks and moves. It says whether it queued anything.
func (q *queue) copyBox(dst, src *box) (queued bool, err error) {
	to, from := dst.r, src.r
	err = q.checkCopy(to, from)
	if err == nil && dst.overlaps(src) {
		err = refuse("the source and the destination overlap within %v: copy through another buffer", to.a)
	}
	switch {
	case err != nil || dst.bytes() == 0:
	case q.byCPU(to, from):
		err = q.copyBoxByCPU(dst, src)
	case to.broken() || from.broken() || !to.kind().onHost() && !from.kind().onHost() && to.a.g.device != from.a.g.device:
		queued, err = q.transferRows(dst, src)
	default:
		queued, err = q.transferBox(dst, src)
	}
	if err != nil {
		return queued, fmt.Errorf("copy %s to %v from %v on %v: %w", sizeText(dst.bytes()), dst, src, q, err)
	}
	return queued, nil
}

// overlaps says whether two boxes of one shape share bytes.
func (b *box) overlaps(c *box) bool {
	x, y := b.r, c.r
	if !alike(x, y) || !(x.place() < y.place()+uint64(y.bytes) && y.place() < x.place()+uint64(x.bytes)) {
		return false
	}
	// Both rows' lists rise: go through them together.
	for i, j := uintptr(0), uintptr(0); i < b.height*b.depth && j < c.height*c.depth; {
		p, q := b.rowPlace(i), c.rowPlace(j)
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

// rowPlace is the address of the row of a number.
func (b *box) rowPlace(i uintptr) uint64 {
	return b.r.place() + uint64(i/b.height*b.layer+i%b.height*b.pitch)
}

// copyBoxByCPU copies within host memory when the stream and the buffers are ready.
func (q *queue) copyBoxByCPU(dst, src *box) error {
	if err := q.readyBoth(dst.r, src.r); err != nil {
		return err
	}
	for z := range dst.depth {
		for y := range dst.height {
			to, from := dst.row(y, z), src.row(y, z)
			copy(bytesAt(to.host, to.bytes), bytesAt(from.host, from.bytes))
		}
	}
	return nil
}

// transferRows queues the rows one by one.
func (q *queue) transferRows(dst, src *box) (queued bool, err error) {
	for z := range dst.depth {
		for y := range dst.height {
			to, from := dst.row(y, z), src.row(y, z)
			one, err := q.transfer(&to, &from)
			queued = queued || one
			if err != nil {
				return queued, err
			}
		}
	}
	return queued, nil
}

// transferBox queues the box as one.
func (q *queue) transferBox(dst, src *box) (queued bool, err error) {
	for _, b := range []*box{dst, src} {
		if most := q.g.caps.pitch; most > 0 && b.pitch > uintptr(most) {
			return false, refuse("a pitch of %s is more than the device has (%v is %d): copy in parts", sizeText(b.pitch), cu.DeviceAttributeMaxPitch, most)
		}
	}
	d, ctx := q.g.driver, q.g.ctx
	to, from := dst.end(), src.end()
	if dst.depth == 1 {
		err = d.Memcpy2DAsync(ctx, &cu.Memcpy2D{
			DstMemoryType: to.kind, DstHost: to.host, DstDevice: to.dev, DstPitch: to.pitch,
			SrcMemoryType: from.kind, SrcHost: from.host, SrcDevice: from.dev, SrcPitch: from.pitch,
			WidthInBytes: dst.width, Height: dst.height,
		}, q.handle)
	} else {
		err = d.Memcpy3DAsync(ctx, &cu.Memcpy3D{
			DstMemoryType: to.kind, DstHost: to.host, DstDevice: to.dev, DstPitch: to.pitch, DstHeight: to.rows,
			SrcMemoryType: from.kind, SrcHost: from.host, SrcDevice: from.dev, SrcPitch: from.pitch, SrcHeight: from.rows,
			WidthInBytes: dst.width, Height: dst.height, Depth: dst.depth,
		}, q.handle)
	}
	if err != nil {
		return false, err
	}
	runtime.KeepAlive(dst.r)
	runtime.KeepAlive(src.r)
	dst.r.settle = dst.r.settle || dst.r.a == nil || src.r.a == nil
	return true, nil
}

// boxEnd is a side of a copy as the driver wants it.
type boxEnd struct {
	kind        cu.MemoryType
	host        cu.HostPtr
	dev         cu.DevicePtr
	pitch, rows uintptr
}

// end is the box for the driver.
func (b *box) end() boxEnd {
	e := boxEnd{kind: cu.MemoryTypeDevice, dev: b.r.dev, pitch: b.pitch, rows: b.height}
	if b.r.kind().onHost() {
		e.kind, e.dev, e.host = cu.MemoryTypeHost, 0, b.r.host
	}
	if b.pitch > 0 && b.depth > 1 {
		e.rows = b.layer / b.pitch
	}
	return e
}
