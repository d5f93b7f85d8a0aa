package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
)

// Pipeline moves data of any size through a kernel, also more than the GPU's memory has
// room for. It works in chunks, so that both directions of the link and the kernel are
// busy at once. Fill in the fields and call [Pipeline.Run]:
//
//	p := pipeline.Pipeline{
//		GPU: gpu,
//		In:  []pipeline.End{pipeline.From[float32](file)},
//		Out: []pipeline.End{ferry.Pageable(result)},
//		Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
//			return s.Launch(k, ferry.Cover(c.Len, 256), c.In[0], c.Out[0], uint64(c.Len))
//		},
//	}
//	n, err := p.Run(ctx)
//
// Element i of every input is in one chunk with element i of every output. Buffers of
// [ferry.AllocHost] and registered memory are copied from and to directly. The data of
// pageable slices, readers and writers goes through page-locked memory, which several
// goroutines fill and empty. A [ferry.Device] is used where it is.
//
// The fields must not be changed while Run runs. A Pipeline keeps its memory for the next
// Run. Close frees it.
type Pipeline struct {
	GPU *ferry.GPU
	In  []End
	Out []End
	// Step queues on the stream what is to be done with a chunk, such as a launch, and
	// returns. It is called for one chunk after the other, in their order, by the
	// goroutine that called Run. A panic of Step reaches that goroutine when nothing is
	// in flight any more. c and its buffers are good until Step returns.
	Step func(s *ferry.Stream, c *Chunk) error
	// InPlace says that output i is what Step leaves in the memory of input i, whose
	// elements must have the same size. The data of the input does not change.
	InPlace bool
	// Once says that Step's kernels read every byte of the inputs once and write every
	// byte of the outputs once, neighbouring threads at neighbouring addresses. Kernels
	// are then given mapped page-locked memory where it is (zero-copy) and nothing is
	// copied. That saves memory of the GPU, not time: see docs/PERFORMANCE.md.
	Once bool
	// Len is the number of elements; 0 is as many as the ends have.
	Len int
	// ChunkLen is the number of elements of each chunk but the last. 0 lets Ferry
	// choose by the size of the data and the memory that is free; the first chunks may
	// be smaller then.
	ChunkLen int
	// Depth is the most chunks in flight at once: being copied in, computed, or copied out.
	// Each of them needs memory. 0 lets Ferry choose.
	Depth int
	// Pool is where page-locked memory of chunks comes from; nil is the driver.
	Pool *ferry.PinnedPool

	kept atomic.Pointer[run] // for the next Run

	mu       sync.Mutex
	unclosed []*run // that could not free all their memory
}

// Run runs the pipeline and returns when all is done. n is the number of elements that
// are complete in all outputs. After an error, too, the elements before n are complete.
//
// The first chunk that fails stops the pipeline. The error says which chunk, its elements
// and bytes, and what happened. It wraps what Step, a reader or a writer returned,
// ctx.Err() when ctx ended first, or the error that [ferry.Stream.Wait] would return for
// the work. Chunks before it are finished. When Run returns, nothing of the pipeline is
// in flight. A nil ctx never ends.
//
// When ctx ends, Run does not wait for work of other streams. While they are busy, the driver
// may take no memory back, and another goroutine frees it later. Run does wait for what Step has
// queued. So a Step that lets its stream wait for another stream delays Run until that goes on.
//
// If a Read or Write does not return when ctx ends, Run abandons it and returns. The memory
// of its chunk is freed when the Read or Write returns. If a Read or Write panics, Run panics
// with the same value, when nothing of the pipeline is in flight any more. One that ends its
// goroutine (runtime.Goexit) is an error.
//
// If a reader ends before the other ends do, or within an element, the error wraps
// io.ErrUnexpectedEOF. Run waits for operations in flight on its ends. The program must not
// queue other operations on them before Run returns. Run is safe for concurrent use.
func (p *Pipeline) Run(ctx context.Context) (n int, err error) {
	if p == nil {
		return 0, refusal.Invalid("pipeline: none given (nil)")
	}
	label, err := bridge.Label(p.GPU, "run a pipeline")
	if err != nil {
		return 0, err
	}
	ctx = await.Context(ctx)
	j, err := takeJob(p)
	if err == nil {
		n, err = p.doTaken(ctx, j)
	}
	if e, ok := errors.AsType[*staging.Panic](err); ok {
		panic(e.Value)
	}
	if err != nil {
		return n, fmt.Errorf("pipeline on %s: %w", label, err)
	}
	return n, nil
}

// doTaken does a job, and gives back what it has not used of its files.
func (p *Pipeline) doTaken(ctx context.Context, j *job) (n int, err error) {
	returned := false
	defer func() {
		if !returned { // Step panicked, or ended the goroutine
			staging.Catch(func() error { return j.giveBack(0) }, func(error) {})
		}
	}()
	if err = ctx.Err(); err == nil {
		err = j.waitForEnds(ctx)
	}
	if err == nil && j.total != 0 {
		n, err = p.do(ctx, j)
	}
	returned = true
	return n, refusal.Join(err, j.giveBack(n))
}

// do does a job with the run that is kept, or with a new one.
func (p *Pipeline) do(ctx context.Context, j *job) (int, error) {
	r, err := p.runFor(ctx, j)
	if err != nil {
		return 0, refusal.Join(err, p.releaseWithin(ctx, r))
	}
	returned := false
	defer func() {
		if !returned { // Step panicked, or ended the goroutine
			_ = p.releaseWithin(ctx, r)
		}
	}()
	n, err := r.do(ctx, j)
	returned = true
	if err != nil || !p.kept.CompareAndSwap(nil, r) {
		if closing := p.releaseWithin(ctx, r); err == nil {
			err = closing
		}
	}
	return n, err
}

// runFor returns the run that is kept, if it fits the job, or a new one. After an error the caller
// releases what it returns.
func (p *Pipeline) runFor(ctx context.Context, j *job) (*run, error) {
	r := p.kept.Swap(nil)
	if r != nil && r.fits(j) {
		return r, nil
	}
	if err := j.fitMemory(r); err != nil || r != nil && r.fits(j) {
		return r, err
	}
	if err := p.releaseWithin(ctx, r); err != nil {
		return nil, err
	}
	return newRun(ctx, j)
}

// release closes a run. If the hardware may still use some of its memory, Close tries again.
func (p *Pipeline) release(r *run) error {
	if r == nil {
		return nil
	}
	err := r.close()
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unclosed = append(p.unclosed, r)
	}
	return err
}

// releaseWithin is release for a caller that waits no longer than ctx: the driver may wait for
// the whole device when it takes memory back.
func (p *Pipeline) releaseWithin(ctx context.Context, r *run) error {
	return await.Within(ctx, func() error { return p.release(r) })
}

// Close frees the memory that the pipeline keeps for another Run, and memory that Run could
// not free because the driver failed. After an error Close can be called again. A closed
// pipeline can be run again. Close of a nil pipeline, or of one that never ran, is nil.
func (p *Pipeline) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	runs := append(p.unclosed, p.kept.Swap(nil))
	p.unclosed = nil
	p.mu.Unlock()
	var all []error
	for _, r := range runs {
		all = append(all, p.release(r))
	}
	return refusal.Join(all...)
}
