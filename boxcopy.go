package ferry

import (
	"fmt"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

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
