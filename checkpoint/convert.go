package checkpoint

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// splitElements is what the elements of a part of a tensor are a multiple of: whole blocks of every
// type, whose bytes are a multiple of 16.
const splitElements = 2048

// Tests change these.
var (
	// stagingBytes is how large each of the two pieces of device memory is at most that a conversion
	// reads, if its result has another size than the tensor.
	stagingBytes int64 = 128 << 20
	// atOnce is how many bytes are converted by one launch where they stand.
	atOnce int64 = 128 << 20
)

// kinds are the types that package convert knows.
var kinds = map[DType]convert.Kind{
	F32: convert.F32, F16: convert.F16, BF16: convert.BF16, F8E4M3: convert.E4M3, F8E5M2: convert.E5M2,
	Q4_0: convert.Q4_0, Q8_0: convert.Q8_0, Q4_K: convert.Q4_K, Q6_K: convert.Q6_K,
}

// converts reports whether Load can convert tensors of a type to another.
func (d DType) converts(to DType) bool { return convert.Supported(kinds[d], kinds[to]) }

// stays reports whether a type is not converted: integers, and numbers that no float is like.
func (d DType) stays() bool {
	switch d {
	case I8, I16, I32, I64, U8, U16, U32, U64, Bool, C64, F8E8M0:
		return true
	}
	return false
}

// converted returns the type that a tensor has in memory.
func (t *Info) converted(to DType) (DType, error) {
	switch {
	case to == NoDType || t.DType == to || t.DType.stays():
		return t.DType, nil
	case !t.DType.converts(to):
		return to, refusal.Invalid("tensor %s is %v, which cannot be converted to %v: leave it out, or load it as it is", printable.Value(t.Name), t.DType, to)
	}
	return to, nil
}

// way is how a tensor gets to its place.
type way int

const (
	asIs    way = iota // to its place in the buffer
	given              // to memory of Options.Into, as it is
	inPlace            // to its place, and converted there
	staged             // to staging memory, and converted from there to its place
)

// way returns how a tensor gets to its place.
func (s *slot) way() way {
	switch {
	case s.dtype == s.t.DType && s.off < 0:
		return given
	case s.dtype == s.t.DType:
		return asIs
	case s.off >= 0 && s.dtype.width() == s.t.DType.width() && s.bytes == s.t.Bytes:
		return inPlace
	}
	return staged
}

// pair returns the conversion of a tensor.
func (s *slot) pair() convert.Pair { return convert.Pair{From: kinds[s.t.DType], To: kinds[s.dtype]} }

// pairs returns the conversions of a load.
func (l *layout) pairs() []convert.Pair {
	var all []convert.Pair
	have := map[convert.Pair]bool{}
	for i := range l.slots {
		s := &l.slots[i]
		if p := s.pair(); s.way() >= inPlace && !have[p] {
			have[p] = true
			all = append(all, p)
		}
	}
	return all
}

// half returns the size of each of the two pieces of staging memory, 0 if there are none.
func (l *layout) half() int64 {
	n := int64(0)
	for i := range l.slots {
		if s := &l.slots[i]; s.way() == staged {
			n += roundUp(s.t.Bytes, defaultAlign)
		}
	}
	return min(n, stagingBytes)
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// conversion converts the tensors of a load while others are copied, in a stream of its own.
type conversion struct {
	*reading
	kernels func() (*convert.Kernels, error) // waits until they are loaded
	side    *ferry.Stream
	copied  *ferry.Event // what was queued in the stream of the load
	memory  [2]*ferry.Device[byte]
	free    [2]*ferry.Event // when memory was converted
	failed  error           // of a conversion that copy has called
}

// convertAll reads all tensors and converts those that need it.
func (r *reading) convertAll(ctx context.Context) (err error) {
	c := &conversion{reading: r}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.inBuffer(ctx); err != nil {
		return err
	}
	if err := r.copy(ctx, r.pieces(given), nil); err != nil {
		return err
	}
	if err := c.stagedAll(ctx); err != nil {
		return err
	}
	if err := c.join(); err != nil {
		return err
	}
	return r.copyOn()
}

// begin makes what a conversion needs. The kernels are loaded while tensors are read.
func (c *conversion) begin() (err error) {
	g := c.s.GPU()
	if c.side, err = ferry.NewStream(g, nil); err != nil {
		return err
	}
	for _, e := range []**ferry.Event{&c.copied, &c.free[0], &c.free[1]} {
		if *e, err = ferry.NewEvent(g, nil); err != nil {
			return err
		}
	}
	if half := c.plan.half(); half > 0 {
		for i := range c.memory {
			if c.memory[i], err = ferry.AllocAsync[byte](c.s, int(half), nil); err != nil {
				return err
			}
		}
	}
	loaded, failed := make(chan struct{}), error(nil)
	go func() {
		defer close(loaded)
		c.l.kernels, failed = convert.Load(g, c.plan.pairs()...)
	}()
	c.kernels = func() (*convert.Kernels, error) { <-loaded; return c.l.kernels, failed }
	return nil
}

// close closes what the conversion does not need any more. The kernels stay until [Loaded.Close],
// because that of a module waits for them.
func (c *conversion) close() error {
	if c.kernels != nil {
		_, _ = c.kernels() // nobody loads on behind the caller's back
	}
	return errors.Join(c.memory[0].Close(), c.memory[1].Close(), c.copied.Close(), c.free[0].Close(), c.free[1].Close(), c.side.Close())
}

// inBuffer reads the tensors that go to their places. It converts those that need it there, as soon
// as their copies are queued.
func (c *conversion) inBuffer(ctx context.Context) error {
	pieces := c.pieces(asIs, inPlace)
	next, from, end := 0, 0, int64(0) // the piece that comes next, the first that waits, and where next begins
	queued := func(done int64) {
		for next < len(pieces) && end+pieces[next].bytes <= done {
			end += pieces[next].bytes
			next++
		}
		if waits := span(pieces[from:next]); c.failed == nil && (waits >= atOnce || next == len(pieces)) {
			c.failed = c.convertInPlace(pieces[from:next])
			from = next
		}
	}
	if err := c.copy(ctx, pieces, queued); err != nil {
		return err
	}
	if from < len(pieces) {
		queued(end + span(pieces[next:]))
	}
	return c.failed
}

// span returns the bytes of pieces.
func span(pieces []piece) (n int64) {
	for i := range pieces {
		n += pieces[i].bytes
	}
	return n
}

// convertInPlace converts tensors where they stand.
func (c *conversion) convertInPlace(pieces []piece) error {
	work := map[convert.Pair][]convert.Piece{}
	for _, p := range pieces {
		if s := &c.plan.slots[p.slot]; s.way() == inPlace && s.bytes > 0 {
			work[s.pair()] = append(work[s.pair()], convert.Piece{Dst: int(s.off), Src: int(s.off), N: int(s.t.Elements())})
		}
	}
	if len(work) == 0 {
		return nil
	}
	kernels, err := c.follow()
	for pair, pieces := range work {
		if err == nil {
			err = kernels.LaunchPieces(c.side, c.l.buffer, c.l.buffer, pair, pieces)
		}
	}
	return err
}

// follow lets the side stream wait for what is queued in the stream of the load.
func (c *conversion) follow() (*convert.Kernels, error) {
	kernels, err := c.kernels()
	if err != nil {
		return nil, err
	}
	return kernels, errors.Join(c.s.Record(c.copied), c.side.WaitEvent(c.copied))
}

// join lets the stream of the load wait for all conversions.
func (c *conversion) join() error {
	return errors.Join(c.side.Record(c.copied), c.s.WaitEvent(c.copied))
}

// part is a part of a tensor in staging memory.
type part struct {
	piece
	at      int64 // in the staging memory
	element int64 // the first, in the tensor
	n       int64
}

// stagedAll reads tensors to staging memory and converts them to their places. While one half is
// converted the other is filled.
func (c *conversion) stagedAll(ctx context.Context) error {
	batches := c.plan.batches(c.plan.half())
	for i, batch := range batches {
		half := i % 2
		if i >= 2 {
			if err := c.s.WaitEvent(c.free[half]); err != nil {
				return err
			}
		}
		pieces := make([]piece, len(batch))
		for i, p := range batch {
			pieces[i] = p.piece
			pieces[i].dst = c.memory[half].Range(int(p.at), int(p.at+p.bytes))
		}
		if err := c.copy(ctx, pieces, nil); err != nil {
			return err
		}
		if err := errors.Join(c.convertStaged(batch, c.memory[half]), c.side.Record(c.free[half])); err != nil {
			return err
		}
	}
	return nil
}

// batches divides the tensors that go through staging memory into parts that fit into half of it.
func (l *layout) batches(half int64) (all [][]part) {
	var batch []part
	at := int64(0)
	for i := range l.slots {
		s := &l.slots[i]
		if s.way() != staged {
			continue
		}
		for element, n := int64(0), s.t.Elements(); element < n; {
			fits := s.t.DType.elementsIn(half-at, n-element)
			if fits == 0 {
				all, batch, at = append(all, batch), nil, 0
				continue
			}
			off, _ := s.t.DType.size(element)
			bytes, _ := s.t.DType.size(fits)
			batch = append(batch, part{piece{slot: i, off: off, bytes: bytes}, at, element, fits})
			at, element = roundUp(at+bytes, defaultAlign), element+fits
		}
	}
	if batch != nil {
		all = append(all, batch)
	}
	return all
}

// elementsIn returns how many of the elements that are left fit into bytes: all, or a number that a
// tensor can be divided at.
func (d DType) elementsIn(bytes, left int64) int64 {
	if all, _ := d.size(left); all <= bytes {
		return left
	}
	per, each := d.Block()
	return bytes / each * per / splitElements * splitElements
}

// destination is memory that parts of one conversion go to.
type destination struct {
	pair convert.Pair
	slot int // of memory of Options.Into; -1 for the buffer
}

// convertStaged converts parts from staging memory.
func (c *conversion) convertStaged(batch []part, from *ferry.Device[byte]) error {
	work := map[destination][]convert.Piece{}
	for _, p := range batch {
		s := &c.plan.slots[p.slot]
		to, _ := s.dtype.size(p.element)
		d := destination{s.pair(), p.slot}
		if s.off >= 0 {
			d.slot, to = -1, to+s.off
		}
		work[d] = append(work[d], convert.Piece{Dst: int(to), Src: int(p.at), N: int(p.n)})
	}
	kernels, err := c.follow()
	for d, pieces := range work {
		memory := ferry.Memory[byte](c.l.buffer)
		if d.slot >= 0 {
			memory = c.l.tensors[d.slot].Memory
		}
		if err == nil {
			err = kernels.LaunchPieces(c.side, memory, from, d.pair, pieces)
		}
	}
	return err
}

// copyOn copies the buffer to the buffers of further GPUs.
func (r *reading) copyOn() error {
	for _, also := range r.l.also {
		if err := ferry.Copy[byte](r.s, also.buffer, r.l.buffer); err != nil {
			return err
		}
	}
	return nil
}
