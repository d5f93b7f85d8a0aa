package checkpoint

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
	"github.com/ferrygpu/ferry/internal/bridge"
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
	// atOnce is after how many bytes that are converted where they stand the conversion begins. A
	// conversion takes a fiftieth of the time of the copies, so the last one is short.
	atOnce int64 = 1 << 30
)

// kinds are the types that package convert knows.
var kinds = [dtypes]convert.Kind{
	F32: convert.F32, F16: convert.F16, BF16: convert.BF16, F8E4M3: convert.E4M3, F8E5M2: convert.E5M2,
	Q4_0: convert.Q4_0, Q8_0: convert.Q8_0, Q4_K: convert.Q4_K, Q6_K: convert.Q6_K,
}

// converts reports whether Load can convert tensors of a type to another.
func (d DType) converts(to DType) bool {
	return to < dtypes && convert.Supported(kinds[d], kinds[to])
}

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
	case s.dtype == s.t.DType && s.given != nil:
		return given
	case s.dtype == s.t.DType:
		return asIs
	case s.given == nil && s.dtype.width() == s.t.DType.width() && s.bytes == s.t.Bytes:
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
		if s.way() < inPlace {
			continue
		}
		if p := s.pair(); !have[p] {
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
}

// convertAll reads all tensors and converts those that need it.
func (r *reading) convertAll(ctx context.Context) (err error) {
	c := &conversion{reading: r}
	defer func() { err = refusal.Join(err, c.close()) }()
	if err := c.begin(); err != nil {
		return err
	}
	for i, batch := range r.plan.batches(r.plan.half()) {
		if err := c.one(ctx, i%2, batch, i < 2); err != nil {
			return err
		}
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
// because to unload them waits until they have run.
func (c *conversion) close() error {
	if c.kernels != nil {
		_, _ = c.kernels() // the goroutine of begin ends before Load returns
	}
	return bridge.CloseOrLeave(c.s.GPU(), func() error {
		return refusal.Join(c.memory[0].Close(), c.memory[1].Close(), c.copied.Close(), c.free[0].Close(), c.free[1].Close(), c.side.Close())
	})
}

// one reads a batch and converts it, while the next one is read. CopyParts may queue copies in any
// order, so conversions are queued when it has returned.
func (c *conversion) one(ctx context.Context, half int, batch []part, first bool) error {
	if !first {
		if err := c.s.WaitEvent(c.free[half]); err != nil {
			return err
		}
	}
	c.runs = c.runs[:0]
	for i := range batch {
		p := &batch[i]
		if p.in = c.l.bufferOf(&c.plan.slots[p.slot]); p.way == staged {
			p.in = c.memory[half]
		}
		c.add(p.piece)
	}
	if err := c.copy(ctx, nil); err != nil {
		return err
	}
	return refusal.Join(c.convert(batch, c.memory[half]), c.side.Record(c.free[half]))
}

// follow lets the side stream wait for what is queued in the stream of the load.
func (c *conversion) follow() (*convert.Kernels, error) {
	kernels, err := c.kernels()
	if err != nil {
		return nil, err
	}
	return kernels, refusal.Join(c.s.Record(c.copied), c.side.WaitEvent(c.copied))
}

// join lets the stream of the load wait for all conversions.
func (c *conversion) join() error {
	return refusal.Join(c.side.Record(c.copied), c.s.WaitEvent(c.copied))
}

// part is a part of a tensor that one call of CopyParts reads.
type part struct {
	piece   // in the staging memory, if it goes there
	way     way
	element int64 // the first, in the tensor
	n       int64
}

// batches divides the tensors, in the order of the files, into parts that one call of CopyParts
// reads. A batch fits into half of the staging memory. It is full with atOnce bytes that are
// converted in place.
func (l *layout) batches(half int64) [][]part {
	b := &batching{half: half}
	for i := range l.slots {
		s := &l.slots[i]
		p := part{piece: piece{slot: i, bytes: s.t.Bytes, at: s.off}, way: s.way(), n: s.t.Elements()}
		switch p.way {
		case staged:
			b.divide(s, p)
			continue
		case inPlace:
			b.inPlace += p.bytes
		}
		if b.now = append(b.now, p); b.inPlace >= atOnce {
			b.end()
		}
	}
	b.end()
	return b.all
}

// batching is the state of batches.
type batching struct {
	all     [][]part
	now     []part
	half    int64
	at      int64 // in the staging memory
	inPlace int64 // bytes of now
}

// end ends a batch.
func (b *batching) end() {
	if len(b.now) > 0 {
		b.all = append(b.all, b.now)
	}
	b.now, b.at, b.inPlace = nil, 0, 0
}

// divide divides a tensor into parts that fit into staging memory.
func (b *batching) divide(s *slot, p part) {
	for element, n := int64(0), p.n; element < n; {
		fits := s.t.DType.elementsIn(b.half-b.at, n-element)
		if fits == 0 {
			b.end()
			continue
		}
		p.off, _ = s.t.DType.size(element)
		p.bytes, _ = s.t.DType.size(fits)
		p.at, p.element, p.n = b.at, element, fits
		b.now = append(b.now, p)
		b.at, element = roundUp(b.at+p.bytes, defaultAlign), element+fits
	}
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

// launch is memory that parts of one conversion go to, and where they come from.
type launch struct {
	pair convert.Pair
	way  way
	slot int // of memory of Options.Into; -1 for the buffer
}

// add adds a piece to those of the launch. One that continues the last is a part of it, because a launch
// takes few, and each is rounded up to a tile.
func (l *launch) add(all []convert.Piece, x convert.Piece) []convert.Piece {
	if n := len(all); n > 0 {
		last := &all[n-1]
		block, bytes := l.pair.From.Block()
		_, out := l.pair.To.Block()
		if last.Src+last.N/block*bytes == x.Src && last.Dst+last.N*out == x.Dst {
			last.N += x.N
			return all
		}
	}
	return append(all, x)
}

// convert converts the parts of a batch where they stand, and from staging memory.
func (c *conversion) convert(batch []part, staging *ferry.Device[byte]) error {
	work := map[launch][]convert.Piece{}
	for _, p := range batch {
		if p.way >= inPlace && p.n > 0 {
			to, x := c.work(&p)
			work[to] = to.add(work[to], x)
		}
	}
	if len(work) == 0 {
		return nil
	}
	kernels, err := c.follow()
	for to, pieces := range work {
		memory, from := ferry.Memory[byte](c.l.buffer), staging
		if to.slot >= 0 {
			memory = c.plan.slots[to.slot].given
		}
		if to.way == inPlace {
			from = c.l.buffer
		}
		if err == nil {
			err = kernels.LaunchPieces(c.side, memory, from, to.pair, pieces)
		}
	}
	return err
}

// work returns the conversion of a part.
func (c *conversion) work(p *part) (launch, convert.Piece) {
	s := &c.plan.slots[p.slot]
	if p.way == inPlace {
		return launch{s.pair(), inPlace, -1}, convert.Piece{Dst: int(s.off), Src: int(s.off), N: int(p.n)}
	}
	to, _ := s.dtype.size(p.element)
	x := convert.Piece{Dst: int(to + s.off), Src: int(p.at), N: int(p.n)}
	if s.given == nil {
		return launch{s.pair(), staged, -1}, x
	}
	return launch{s.pair(), staged, p.slot}, x
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
