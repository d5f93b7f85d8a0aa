package ferry

import (
	"fmt"
	"math"
	"math/bits"
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
