package pipeline

import (
	"context"
	"fmt"
	"sync"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/workers"
)

// run has the resources of a pipeline: streams, and memory for the chunks in flight. Several
// calls of Run can use it, one after the other.
type run struct {
	gpu      *ferry.GPU
	emulated bool
	key      runKey
	streams  []*ferry.Stream // for copies in, for copies out, then those for Step
	chunks   []*inflightChunk

	// For one Run:
	job       *job
	progress  *progress
	copies    *workers.Queue     // nil if the CPU moves nothing
	assigning sequencer          // of giving elements to chunks, and of readers
	next      int                // the first element that no chunk has; only the goroutine with the turn of assigning uses it
	awaiting  sequencer          // of waiting for an emulated GPU
	finishing sequencer          // of finished chunks, and of writers
	halt      context.CancelFunc // ends reads that are not needed any more
}

// runKey describes the jobs that a run can do. Two jobs with equal keys can use one run.
type runKey struct {
	gpu          *ferry.GPU
	pool         *ferry.PinnedPool
	depth, chunk int
	in, out      string // for each endpoint, its element size and how it is served
}

// hostBytes returns the page-locked bytes of a run that no pool has.
func (r *run) hostBytes() (n int) {
	if r.key.pool != nil {
		return 0
	}
	for _, c := range r.chunks {
		for b := range c.buffers {
			n += len(b.bytes)
		}
	}
	return n
}

// fits reports whether a run can do a job.
func (r *run) fits(j *job) bool { return r.key == keyOf(j) && len(r.chunks) >= j.slots() }

func keyOf(j *job) runKey {
	text := func(ends []endpoint) (s string) {
		for i := range ends {
			s += fmt.Sprint(ends[i].size, j.direct(ends, i), ends[i].staged(), " ")
		}
		return s
	}
	return runKey{j.GPU, j.Pool, j.depth, j.chunk, text(j.in), text(j.out) + fmt.Sprint(j.InPlace)}
}

// newRun makes the streams and takes the memory for a job.
func newRun(ctx context.Context, j *job) (*run, error) {
	r := &run{gpu: j.GPU, emulated: j.GPU.Emulated(), key: keyOf(j)}
	n := j.slots()
	err := r.makeStreams(2 + min(j.tuning.chunks.ComputeStreams, n))
	for i := 0; i < n && err == nil; i++ {
		if err = ctx.Err(); err == nil {
			err = r.addChunk(ctx, i, j)
		}
	}
	if err != nil {
		return r, fmt.Errorf("make %d chunks of %d elements: %w", n, j.chunk, err)
	}
	return r, nil
}

// addChunk takes the memory for chunk number i in flight. After an error, too, close frees it.
func (r *run) addChunk(ctx context.Context, i int, j *job) error {
	c, err := newInflightChunk(ctx, r, i, j)
	r.chunks = append(r.chunks, c)
	return err
}

func (r *run) makeStreams(n int) error {
	for range n {
		s, err := ferry.NewStream(r.gpu, &ferry.StreamOptions{NonBlocking: true})
		if err != nil {
			return err
		}
		r.streams = append(r.streams, s)
	}
	return nil
}

// stepStream returns one of the streams for kernels.
func (r *run) stepStream(i int) *ferry.Stream { return r.streams[2+i%(len(r.streams)-2)] }

// close closes the streams and the chunks. Memory that an abandoned read or write still uses
// is freed when that returns: see inflightChunk.close.
func (r *run) close() error {
	var all []error
	for _, c := range r.chunks {
		all = append(all, c.close())
	}
	for _, s := range r.streams {
		all = append(all, s.Close())
	}
	for _, err := range all {
		if err != nil && !sticky(err) { // a lost context has lost everything
			return err
		}
	}
	return nil
}

// do does a job. It returns how many elements are done.
func (r *run) do(ctx context.Context, j *job) (int, error) {
	within, halt := context.WithCancel(ctx)
	defer halt()
	r.job, r.progress, r.halt, r.next = j, &progress{job: j}, halt, 0
	if j.staged {
		r.doStaged(ctx, within)
	} else {
		r.doAlone(ctx)
	}
	n, err := r.progress.result(r.streamErrors())
	r.forget()
	return n, err
}

// forget clears what refers to the job and its ends.
func (r *run) forget() {
	r.job, r.progress, r.halt = nil, nil, nil
	for _, c := range r.chunks {
		for b := range c.buffers {
			b.forget()
		}
	}
}

// streamErrors returns the errors of streams that no event of a chunk returned, such as
// that of a host function that panicked.
func (r *run) streamErrors() error {
	var all []error
	for _, s := range r.streams {
		all = append(all, s.Wait(context.Background()))
	}
	return refusal.Join(all...)
}

// doAlone does a job for which the CPU moves no data. The calling goroutine queues all
// chunks. Each of the first depth chunks gets the next stream for kernels. A later chunk
// keeps the stream of the chunk before it, because a change takes time, unless kernels of
// the oldest chunk in flight still run.
func (r *run) doAlone(ctx context.Context) {
	depth := len(r.chunks)
	k, first := 0, 0 // the chunk to queue, and the first that may be in flight
	stream := 0
	defer func() {
		for i := first; i < k; i++ {
			r.chunks[i%depth].complete(ctx)
		}
	}()
	for ; ; k++ {
		c := r.chunks[k%depth]
		if k >= depth {
			first = k - depth + 1
			if !c.complete(ctx) {
				return
			}
		}
		if k < depth || r.chunks[first%depth].computes() {
			stream++
		}
		c.step = r.stepStream(stream)
		if !c.assign(k) || !c.submit(ctx) {
			return
		}
	}
}

// doStaged does a job with staged endpoints. Each chunk in flight has a goroutine, which
// fills and empties page-locked memory. The calling goroutine queues all chunks. It calls
// Step itself, so that a panic of Step reaches the caller of Run.
func (r *run) doStaged(ctx, within context.Context) {
	n := len(r.chunks)
	r.assigning, r.awaiting, r.finishing = newSequencer(n), newSequencer(n), newSequencer(n)
	r.copies = newCopyQueue(n, !r.emulated && !r.job.files, &r.job.tuning)
	var all sync.WaitGroup
	for _, c := range r.chunks {
		c.full, c.copiedOut = make(chan bool, 1), make(chan bool, 1)
		all.Go(func() { c.serve(ctx, within) })
	}
	w := watcher{run: r}
	defer func() {
		r.halt()
		w.watch(nil)
		for _, c := range r.chunks {
			close(c.copiedOut)
		}
		all.Wait()
		r.copies.Close()
		r.copies = nil
	}()
	for {
		c := r.chunks[w.end%n]
		if !w.watch(c.full) || r.progress.over(&c.chunk) || !c.submit(ctx) {
			return
		}
		w.end++
	}
}

// fail records that a chunk failed, and ends reads that are not needed any more.
func (r *run) fail(c *Chunk, what string, err error) {
	r.halt()
	r.progress.fail(c, what, err)
}
