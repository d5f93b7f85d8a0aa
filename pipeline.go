package ferry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Pipeline moves data of any size, more than the GPU's memory included, through a
// kernel: in, compute, out, in chunks, so that both directions of the link and the
// kernel are busy at once. Fill in the fields and call [Pipeline.Run]:
//
//	p := ferry.Pipeline{
//		GPU: gpu,
//		In:  []ferry.End{ferry.From[float32](file)},
//		Out: []ferry.End{ferry.Plain(result)},
//		Step: func(s *ferry.Stream, c *ferry.Chunk) error {
//			return s.Launch(k, ferry.Grid(c.Len, 256), c.In[0], c.Out[0], uint64(c.Len))
//		},
//	}
//	n, err := p.Run(ctx)
//
// Ends go forward together: element i of every input is in one chunk with element i
// of every output. Buffers of [AllocHost] and registered memory are copied from and to
// directly; plain slices, readers and writers by way of page-locked chunks, by several
// goroutines; a [Device] is used where it is.
//
// The fields must not be changed while Run runs. A Pipeline that is run again has its
// memory ready; Close gives that back.
type Pipeline struct {
	GPU *GPU
	In  []End
	Out []End
	// Step queues on the stream what is to be done with a chunk, such as a launch, and
	// returns. It is called for one chunk after the other, in their order, by the
	// goroutine that called Run, which a panic reaches when nothing is in flight any
	// more. c and its buffers are good until it returns.
	Step func(s *Stream, c *Chunk) error
	// InPlace says that output i is what Step leaves in the memory of input i, whose
	// elements must have the same size. The input itself is not changed.
	InPlace bool
	// Once says that Step's kernels read every byte of the inputs once, write every
	// byte of the outputs once, and neighbouring threads do so at neighbouring
	// addresses. Kernels are then given page-locked memory that is mapped as it is
	// (zero-copy), where it would else be copied. That spares the GPU's memory, not
	// time: see docs/PERFORMANCE.md.
	Once bool
	// Len is the number of elements; 0 is what the ends have.
	Len int
	// ChunkLen is the number of elements of each chunk but the last. 0 lets Ferry
	// choose by the size of the data and the memory that is free; the first chunks may
	// be smaller then.
	ChunkLen int
	// Depth is how many chunks there are at once, on their way in, computed, or on
	// their way out; 0 lets Ferry choose. Memory is needed for so many and no more.
	Depth int
	// Pool is where page-locked chunks come from; nil is the driver.
	Pool *HostPool

	kept atomic.Pointer[line]
}

// Chunk is the part of a pipeline's data that Step is called for.
type Chunk struct {
	Index int // of the chunk, from 0
	First int // the number of its first element
	Len   int // elements
	// In and Out are memory that kernels can use, in bytes, aligned as memory of
	// [Alloc] if chunks are multiples of 256 elements, as those are that Ferry chooses.
	// Where a Device, or mapped memory with Once, is an end, they are ranges of it.
	In, Out []*Device[byte]
}

// Run runs the pipeline and returns when all is done, with the number of elements that
// are whole in all outputs: those before n are, whatever happened.
//
// The first chunk that goes wrong stops it. The error says which, its elements and
// bytes, and what happened: it wraps what Step, a reader or a writer returned, ctx.Err()
// when ctx ended first, or what [Stream.Wait] would say of the work. Chunks before it are
// finished; nothing of the pipeline is in flight any more when Run returns. A Read or
// Write that does not return when ctx ends is left behind, with the chunk's memory, until
// it does. One that panics has Run panic with the same value, when nothing is in flight.
//
// A reader that ends before other ends are served is io.ErrUnexpectedEOF, and so is one
// that ends within an element. Run waits for operations in flight on its ends; others must
// not be queued on them before it returns. It is safe to call Run from several goroutines.
func (p *Pipeline) Run(ctx context.Context) (n int, err error) {
	if p == nil {
		return 0, refuse("pipeline: none given (nil)")
	}
	if err := p.GPU.enter("run a pipeline"); err != nil {
		return 0, err
	}
	defer p.GPU.leave()
	j, err := p.plan()
	if err == nil {
		err = j.settle(ctx)
	}
	if err == nil && j.total != 0 {
		n, err = p.run(ctx, j)
	}
	if e, ok := errors.AsType[*endPanic](err); ok {
		panic(e.value)
	}
	if err != nil {
		return n, fmt.Errorf("pipeline on %s: %w", p.GPU.label, err)
	}
	return n, nil
}

// run runs a job on the line that is kept, or on a new one.
func (p *Pipeline) run(ctx context.Context, j *job) (int, error) {
	l := p.kept.Swap(nil)
	if l != nil && !l.fits(j) {
		if err := l.close(); err != nil {
			return 0, err
		}
		l = nil
	}
	if l == nil {
		var err error
		if l, err = newLine(ctx, j); err != nil {
			return 0, err
		}
	}
	returned := false
	defer func() {
		if !returned { // Step panicked, or ended the goroutine
			_ = l.close()
		}
	}()
	n, err := l.run(ctx, j)
	returned = true
	err = errors.Join(err, j.stand(n))
	if err != nil || !p.kept.CompareAndSwap(nil, l) {
		if closing := l.close(); err == nil {
			err = closing
		}
	}
	return n, err
}

// Close gives back the memory that the pipeline keeps for another Run. Close of a nil
// pipeline or of one that never ran is nil, and a closed pipeline can be run again.
func (p *Pipeline) Close() error {
	if p == nil {
		return nil
	}
	if l := p.kept.Swap(nil); l != nil {
		return l.close()
	}
	return nil
}
