package apimodel

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// kind is a kind of memory.
type kind int

const (
	device kind = iota
	streamOrdered
	pageLocked
	mapped
	pooled
	registered
	managed
	pageable
	kinds
)

func (k kind) String() string {
	return [...]string{"device", "stream-ordered", "page-locked", "mapped", "pooled", "registered", "managed", "pageable"}[k]
}

// buffer is memory, with what the model says that it has.
type buffer struct {
	name   string
	kind   kind
	want   []uint32
	uses   []use // of streams, those that later work must be ordered after
	closed bool  // graphs may still use it
	owned  bool  // by a graph, which may still write the memory of a registration

	whole    ferry.Memory[uint32]
	part     func(i, j int) ferry.Memory[uint32]
	slice    func() []uint32 // nil for device memory
	read     func() []uint32
	close    func() error // nil for ordinary Go memory
	memory   []uint32     // of a registration and of ordinary Go memory
	byKernel bool         // kernels can use it
}

// use is an operation of a stream on a buffer.
type use struct {
	s     *stream
	n     int // the number of the operation
	write bool
}

// String returns "buffer 3 (managed)".
func (b *buffer) String() string { return fmt.Sprintf("%s (%v)", b.name, b.kind) }

// newBuffer allocates memory of a random kind and gives it contents.
func (p *program) newBuffer() error {
	n := 1 + p.random.IntN(p.most)
	b := &buffer{name: fmt.Sprintf("buffer %d", p.count), kind: kind(p.random.IntN(int(kinds))), want: make([]uint32, n)}
	p.count++
	p.say("allocate %v of %d elements", b, n)
	s := p.anyStream()
	if err := p.allocate(b, n, s); err != nil {
		return err
	}
	p.buffers = append(p.buffers, b)
	if b.slice == nil {
		return p.queue(s, p.fill(b, 0, n))
	}
	value := p.random.Uint32()
	for i, words := 0, b.slice(); i < n; i++ {
		words[i] = value + uint32(i)
		b.want[i] = words[i]
	}
	return nil
}

// allocHost allocates page-locked memory.
func (p *program) allocHost(kind kind, n int) (*ferry.Host[uint32], error) {
	if kind != pooled {
		return ferry.AllocHost[uint32](p.g, n, &ferry.HostOptions{Mapped: kind == mapped})
	}
	h := new(ferry.Host[uint32])
	return h, h.Alloc(p.pinned, n)
}

// allocate makes the memory of a buffer. If the device lacks the kind, it is device memory.
func (p *program) allocate(b *buffer, n int, s *stream) (err error) {
	switch b.kind {
	case streamOrdered:
		var pool *ferry.MemPool
		if p.random.IntN(2) == 0 {
			pool = p.memPool
		}
		d, failed := ferry.AllocAsync[uint32](s.s, n, pool)
		if err = failed; err == nil {
			b.ofDevice(d)
			s.n++ // the allocation is work of the stream, and Ferry orders other streams after it
		}
	case pageLocked, mapped, pooled:
		h, failed := p.allocHost(b.kind, n)
		if err = failed; err == nil {
			b.ofHost(h)
			b.byKernel = b.kind == mapped
		}
	case registered:
		b.memory = make([]uint32, n)
		h, failed := ferry.Register(p.g, b.memory, nil)
		if err = failed; err == nil {
			b.ofHost(h)
		}
	case managed:
		m, failed := ferry.AllocManaged[uint32](p.g, n, nil)
		if err = failed; err == nil {
			b.whole, b.slice, b.read, b.close, b.byKernel = m, m.Slice, m.ReadSlice, m.Close, true
			b.part = func(i, j int) ferry.Memory[uint32] { return m.Range(i, j) }
		}
	case pageable:
		b.memory = make([]uint32, n)
		s := ferry.Pageable(b.memory)
		b.whole, b.slice, b.read = s, s.Slice, s.Slice
		b.part = func(i, j int) ferry.Memory[uint32] { return s.Range(i, j) }
	}
	if b.kind == device || errors.Is(err, cu.ErrorNotSupported) {
		b.kind, b.memory = device, nil
		d, failed := ferry.Alloc[uint32](p.g, n)
		if err = failed; err == nil {
			b.ofDevice(d)
		}
	}
	return err
}

func (b *buffer) ofDevice(d *ferry.Device[uint32]) {
	b.whole, b.close, b.byKernel = d, d.Close, true
	b.part = func(i, j int) ferry.Memory[uint32] { return d.Range(i, j) }
}

func (b *buffer) ofHost(h *ferry.Host[uint32]) {
	b.whole, b.slice, b.read, b.close = h, h.Slice, h.ReadSlice, h.Close
	b.part = func(i, j int) ferry.Memory[uint32] { return h.Range(i, j) }
}

// closeBuffer closes a random buffer, in flight or not. The memory of a registration must
// then have what the model says.
func (p *program) closeBuffer() error {
	i := p.random.IntN(len(p.buffers))
	b := p.buffers[i]
	p.say("close %v", b)
	if b.close == nil {
		if err := p.hostWait(b, true); err != nil { // nothing closes Go memory
			return err
		}
	} else if err := b.close(); err != nil {
		return fmt.Errorf("close %v: %w", b, err)
	}
	b.closed = true
	p.buffers = append(p.buffers[:i], p.buffers[i+1:]...)
	if b.memory != nil && !b.owned {
		return b.compare(b.memory)
	}
	return nil
}

// touch reads or changes a buffer on the host. Slice and ReadSlice wait for what is in
// flight; for ordinary Go memory the program waits.
func (p *program) touch() error {
	b := p.buffers[p.random.IntN(len(p.buffers))]
	if b.slice == nil {
		return p.verify(b)
	}
	write := p.random.IntN(2) == 0
	p.say("touch %v, write %t", b, write)
	if b.kind == pageable {
		if err := p.hostWait(b, write); err != nil {
			return err
		}
	}
	if !write {
		return b.compare(b.read())
	}
	words := b.slice()
	b.uses = nil
	at := p.random.IntN(len(words))
	for i := at; i < len(words); i += 1 + i%3 {
		words[i] += 7
		b.want[i] += 7
	}
	return nil
}

// verify compares a buffer with the model. Device memory is copied to the host, sometimes
// through a writer.
func (p *program) verify(b *buffer) error {
	p.say("verify %v", b)
	if b.kind == pageable {
		if err := p.hostWait(b, false); err != nil {
			return err
		}
	}
	if b.read != nil {
		return b.compare(b.read())
	}
	s := p.anyStream()
	if err := p.order(s, b, false); err != nil {
		return err
	}
	got := make([]uint32, len(b.want))
	if err := ferry.CopyContext(context.Background(), s.s, ferry.Pageable(got), b.whole); err != nil {
		return err
	}
	s.used(b, false)
	if err := p.wait(s); err != nil {
		return err
	}
	return b.compare(got)
}

// compare returns an error if a buffer has something else than the model says.
func (b *buffer) compare(got []uint32) error {
	if len(got) != len(b.want) {
		return fmt.Errorf("%v has %d elements, want %d", b, len(got), len(b.want))
	}
	for i, v := range b.want {
		if got[i] != v {
			return fmt.Errorf("%v: element %d of %d is %#x, want %#x", b, i, len(got), got[i], v)
		}
	}
	return nil
}
