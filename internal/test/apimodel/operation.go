package apimodel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// operation is work for a stream, a batch or a capture, and what it does in the model.
type operation struct {
	text   string
	reads  []*buffer
	writes []*buffer
	queue  func(q ferry.Queue) error
	model  func()
}

// ptx has the kernel mix: to[i] = from[i]*1664525 + k + i.
const ptx = `.version 7.0
.target sm_70
.address_size 64
.visible .entry mix(.param .u64 to, .param .u64 from, .param .u64 n, .param .u32 k)
{
.reg .pred %p;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.u32 %r4, %r1, %r2, %r3;
cvt.u64.u32 %rd1, %r4;
ld.param.u64 %rd2, [n];
setp.ge.u64 %p, %rd1, %rd2;
@%p bra END;
ld.param.u64 %rd3, [to];
ld.param.u64 %rd4, [from];
ld.param.u32 %r5, [k];
shl.b64 %rd5, %rd1, 2;
add.u64 %rd3, %rd3, %rd5;
add.u64 %rd4, %rd4, %rd5;
ld.u32 %r6, [%rd4];
mad.lo.u32 %r6, %r6, 1664525, %r5;
add.u32 %r6, %r6, %r4;
st.u32 [%rd3], %r6;
END:
ret;
}
`

// anyOperation makes a random operation on open buffers, or nil if there are none for it.
// Without ordinary Go memory it suits batches and captures.
func (p *program) anyOperation(goMemory bool) *operation {
	suits := func(b *buffer) bool { return goMemory || b.kind != pageable }
	byKernel := func(b *buffer) bool { return b.byKernel }
	switch p.random.IntN(8) {
	case 0:
		if b := p.anyBuffer(func(b *buffer) bool { return b.kind != pageable }); b != nil {
			i, j := p.anyRange(len(b.want))
			return p.fill(b, i, j)
		}
	case 1, 2, 3:
		to := p.anyBuffer(byKernel)
		from := p.anyBuffer(byKernel)
		if to != nil {
			return p.launch(to, from)
		}
	case 4:
		return p.copyAll(suits)
	default:
		to := p.anyBuffer(suits)
		if from := p.anyBuffer(func(b *buffer) bool { return suits(b) && b != to }); from != nil {
			return p.copy(to, from)
		}
	}
	return nil
}

// anyBuffer returns a random buffer that suits, or nil.
func (p *program) anyBuffer(suits func(*buffer) bool) *buffer {
	var all []*buffer
	for _, b := range p.buffers {
		if suits(b) {
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[p.random.IntN(len(all))]
}

// anyRange returns a range that is not empty.
func (p *program) anyRange(n int) (i, j int) {
	i = p.random.IntN(n)
	if p.random.IntN(3) == 0 {
		return 0, n
	}
	return i, i + 1 + p.random.IntN(n-i)
}

func (p *program) fill(b *buffer, i, j int) *operation {
	value := p.random.Uint32()
	if p.random.IntN(2) == 0 {
		value = value & 0xff * 0x01010101
	}
	return &operation{
		text: fmt.Sprintf("fill %v [%d:%d] with %#x", b, i, j, value), writes: []*buffer{b},
		queue: func(q ferry.Queue) error { return ferry.Fill(q, b.part(i, j), value) },
		model: func() {
			for k := i; k < j; k++ {
				b.want[k] = value
			}
		},
	}
}

// spans returns ranges of one length in two buffers.
func (p *program) spans(to, from *buffer) (i, j, n int) {
	n = 1 + p.random.IntN(min(len(to.want), len(from.want)))
	return p.random.IntN(len(to.want) - n + 1), p.random.IntN(len(from.want) - n + 1), n
}

func (p *program) copy(to, from *buffer) *operation {
	i, j, n := p.spans(to, from)
	return &operation{
		text:  fmt.Sprintf("copy %d elements to %v [%d:] from %v [%d:]", n, to, i, from, j),
		reads: []*buffer{from}, writes: []*buffer{to},
		queue: func(q ferry.Queue) error { return ferry.Copy(q, to.part(i, i+n), from.part(j, j+n)) },
		model: func() { copy(to.want[i:i+n], from.want[j:j+n]) },
	}
}

// copyAll makes copies between several buffers, none of them in two copies.
func (p *program) copyAll(suits func(*buffer) bool) *operation {
	o := &operation{text: "copy all:"}
	var pairs []ferry.Pair[uint32]
	var models []func()
	used := map[*buffer]bool{}
	for range 1 + p.random.IntN(3) {
		free := func(b *buffer) bool { return suits(b) && !used[b] }
		to := p.anyBuffer(free)
		from := p.anyBuffer(func(b *buffer) bool { return free(b) && b != to })
		if from == nil {
			break
		}
		used[to], used[from] = true, true
		i, j, n := p.spans(to, from)
		pairs = append(pairs, ferry.Pair[uint32]{Dst: to.part(i, i+n), Src: from.part(j, j+n)})
		models = append(models, func() { copy(to.want[i:i+n], from.want[j:j+n]) })
		o.reads, o.writes = append(o.reads, from), append(o.writes, to)
		o.text += fmt.Sprintf(" %d elements to %v [%d:] from %v [%d:];", n, to, i, from, j)
	}
	if len(pairs) == 0 {
		return nil
	}
	o.queue = func(q ferry.Queue) error { return ferry.CopyAll(q, pairs) }
	o.model = func() {
		for _, f := range models {
			f()
		}
	}
	return o
}

// launch makes a launch of the kernel. Of one buffer it uses one range.
func (p *program) launch(to, from *buffer) *operation {
	i, j, n := p.spans(to, from)
	if to == from {
		j = i
	}
	k := p.random.Uint32()
	return &operation{
		text:  fmt.Sprintf("mix %d elements to %v [%d:] from %v [%d:] with %#x", n, to, i, from, j, k),
		reads: []*buffer{from}, writes: []*buffer{to},
		queue: func(q ferry.Queue) error {
			return q.Launch(p.kernel, ferry.Cover(n, 64), to.part(i, i+n), from.part(j, j+n), uint64(n), k)
		},
		model: func() {
			for at := range n {
				to.want[i+at] = from.want[j+at]*1664525 + k + uint32(at)
			}
		},
	}
}

// queue queues an operation on a stream, and applies it to the model.
func (p *program) queue(s *stream, o *operation) error {
	return p.run(s, []*operation{o}, 1, func() error { return o.queue(s.s) })
}

// run orders a stream after the earlier uses of the buffers of operations, queues them, and
// applies them to the model.
func (p *program) run(s *stream, all []*operation, times int, queue func() error) error {
	for _, o := range all {
		p.say("stream %d: %s", s.name, o.text)
		for _, b := range o.reads {
			if err := p.order(s, b, false); err != nil {
				return err
			}
		}
		for _, b := range o.writes {
			if err := p.order(s, b, true); err != nil {
				return err
			}
		}
	}
	for range times {
		if err := queue(); err != nil {
			return err
		}
		s.n++
		for _, o := range all {
			for _, b := range o.reads {
				s.add(b, false)
			}
			for _, b := range o.writes {
				s.add(b, true)
			}
			o.model()
		}
	}
	return nil
}

// several makes operations for a batch or a capture.
func (p *program) several() (all []*operation) {
	for range 1 + p.random.IntN(5) {
		if o := p.anyOperation(false); o != nil {
			all = append(all, o)
		}
	}
	return all
}

// batch submits operations in one batch, once or twice.
func (p *program) batch() error {
	all := p.several()
	if len(all) == 0 {
		return nil
	}
	var b ferry.Batch
	for _, o := range all {
		if err := o.queue(&b); err != nil {
			return err
		}
	}
	times := 1 + p.random.IntN(2)
	p.say("submit a batch of %d operations %d times", len(all), times)
	s := p.anyStream()
	return p.run(s, all, times, func() error { return s.s.Submit(&b) })
}

// graph is captured work.
type graph struct {
	x   *ferry.Graph
	all []*operation
}

// capture makes a graph of operations. It owns their buffers. Drivers before CUDA 11.4 have
// no graphs: there nothing comes of it.
func (p *program) capture() error {
	all := p.several()
	if len(all) == 0 {
		return nil
	}
	s := p.anyStream()
	p.say("capture %d operations on stream %d", len(all), s.name)
	x, err := s.s.Capture(func(s *ferry.Stream) error {
		for _, o := range all {
			if err := o.queue(s); err != nil {
				return err
			}
		}
		return nil
	})
	if lacking, ok := errors.AsType[*cu.NotSupportedError](err); ok && lacking.Call == "cuGraphInstantiateWithFlags" {
		return nil
	}
	if err != nil {
		return err
	}
	for _, o := range all {
		for _, b := range append(o.reads[:len(o.reads):len(o.reads)], o.writes...) {
			b.owned = true
		}
	}
	p.graphs = append(p.graphs, &graph{x, all})
	return nil
}

// launchGraph launches a graph, or closes it.
func (p *program) launchGraph() error {
	if len(p.graphs) == 0 {
		return p.capture()
	}
	i := p.random.IntN(len(p.graphs))
	x := p.graphs[i]
	if p.random.IntN(6) == 0 {
		p.say("close a graph")
		p.graphs = append(p.graphs[:i], p.graphs[i+1:]...)
		return x.x.Close()
	}
	times := 1 + p.random.IntN(2)
	p.say("launch a graph %d times", times)
	s := p.anyStream()
	return p.run(s, x.all, times, func() error { return x.x.Launch(s.s) })
}

// readWrite copies to a buffer from a reader, or from one to a writer.
func (p *program) readWrite() error {
	b := p.anyBuffer(func(b *buffer) bool { return b.kind != pageable })
	if b == nil {
		return nil
	}
	i, j := p.anyRange(len(b.want))
	s := p.anyStream()
	write := p.random.IntN(2) == 0
	p.say("stream %d: copy %v [%d:%d] from a reader %t", s.name, b, i, j, write)
	if err := p.order(s, b, write); err != nil {
		return err
	}
	if write {
		data := make([]byte, 4*(j-i))
		for k := range data {
			data[k] = byte(p.random.Uint32())
		}
		_, err := ferry.CopyFrom(context.Background(), s.s, b.part(i, j), bytes.NewReader(data))
		s.used(b, true)
		for k := i; k < j; k++ {
			b.want[k] = binary.LittleEndian.Uint32(data[4*(k-i):])
		}
		return err
	}
	var out bytes.Buffer
	_, err := ferry.CopyTo(context.Background(), s.s, &out, b.part(i, j))
	s.used(b, false)
	for k := i; k < j && err == nil; k++ {
		if got := binary.LittleEndian.Uint32(out.Bytes()[4*(k-i):]); got != b.want[k] {
			return fmt.Errorf("CopyTo of %v: element %d is %#x, want %#x", b, k, got, b.want[k])
		}
	}
	return err
}
