package ferry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// line is what a pipeline works with: streams, and a slot for each chunk that is under
// way. It can be used for one run after another.
type line struct {
	g       *GPU
	shape   lineShape
	streams []*Stream
	slots   []*slot

	// Of a run:
	job    *job
	crew   *crew              // nil if the CPU moves nothing
	cut    turns              // of cutting chunks, and of readers
	next   int                // the first element that no chunk has; of whose turn it is to cut
	await  turns              // of waiting for an emulated GPU
	finish turns              // of what is done, and of writers
	halt   context.CancelFunc // ends reads that are not needed any more
	queued atomic.Int64       // chunks

	mu    sync.Mutex
	done  int // elements
	wrong int // the first chunk that went wrong, with err
	err   error
}

// lineShape is what a line was made for.
type lineShape struct {
	g            *GPU
	pool         *HostPool
	depth, chunk int
	in, out      string // of each end, its size and how it is served
}

// fits says that a line can run a job.
func (l *line) fits(j *job) bool { return l.shape == j.shape() }

func (j *job) shape() lineShape {
	text := func(ports []port) (s string) {
		for i := range ports {
			s += fmt.Sprint(ports[i].size, j.direct(ports, i), ports[i].staged(), " ")
		}
		return s
	}
	return lineShape{j.GPU, j.Pool, j.depth, j.chunk, text(j.in), text(j.out) + fmt.Sprint(j.InPlace)}
}

// staged says that the CPU moves the end's data, to or from page-locked chunks.
func (p *port) staged() bool { return p.r == nil || p.r.a == nil }

// direct says that kernels use the end's own memory.
func (j *job) direct(ports []port, i int) bool {
	r := ports[i].r
	switch {
	case r == nil || r.a == nil:
		return false
	case r.kind() == deviceMemory:
		return r.a.g.device == j.GPU.device
	case !j.Once || r.dev == 0 || r.kind() == managedMemory || r.broken() && !j.GPU.hostPointers():
		return false
	}
	if j.InPlace && i < len(j.in) && i < len(j.out) {
		return j.in[i].sameAs(&j.out[i])
	}
	return true
}

// newLine makes the streams and slots for a job.
func newLine(ctx context.Context, j *job) (*line, error) {
	l := &line{g: j.GPU, shape: j.shape()}
	err := l.makeStreams(j)
	for i := 0; i < j.depth && err == nil; i++ {
		s := &slot{l: l, number: i}
		l.slots = append(l.slots, s)
		err = s.make(ctx, j)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make %d chunks of %d elements: %w", j.depth, j.chunk, err), l.close())
	}
	return l, nil
}

// computeStreams is how many chunks can have kernels running at once. Kernels that are
// done before they are waited for stay in one stream: to change it costs time.
const computeStreams = 3

func (l *line) makeStreams(j *job) error {
	for range 2 + min(computeStreams, j.depth) {
		s, err := l.g.NewStream(&StreamOptions{NonBlocking: true})
		if err != nil {
			return err
		}
		l.streams = append(l.streams, s)
	}
	return nil
}

// stepStream is one of the streams for kernels.
func (l *line) stepStream(i int) *Stream { return l.streams[2+i%(len(l.streams)-2)] }

// close frees everything. What a reader or writer still has goes when it returns.
func (l *line) close() error {
	var all []error
	for _, s := range l.slots {
		all = append(all, s.close())
	}
	for _, s := range l.streams {
		all = append(all, s.Close())
	}
	for _, err := range all {
		if err != nil && !sticky(err) { // a lost context has lost all
			return err
		}
	}
	return nil
}

// run is one run.
func (l *line) run(ctx context.Context, j *job) (int, error) {
	within, halt := context.WithCancel(ctx)
	defer halt()
	l.job, l.halt, l.done, l.err = j, halt, 0, nil
	l.queued.Store(0)
	l.cut, l.await, l.finish, l.next = newTurns(j.depth), newTurns(j.depth), newTurns(j.depth), 0
	if j.staged {
		l.together(ctx, within)
	} else {
		l.alone(ctx)
	}
	if err := l.rest(); err != nil && l.err == nil {
		l.done, l.err = 0, err
	}
	l.job = nil
	return l.done, l.err
}

// rest is what the streams have to tell that no chunk's event did, as of a host function
// that panicked.
func (l *line) rest() error {
	var all []error
	for _, s := range l.streams {
		all = append(all, s.Wait(context.Background()))
	}
	return errors.Join(all...)
}

// count counts a chunk that is done, if all before it are.
func (l *line) count(c *Chunk) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over(c) {
		return false
	}
	l.done += c.Len
	return true
}

// stopped says that the chunk, or one before it, went wrong.
func (l *line) stopped(c *Chunk) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over(c)
}

// over is stopped. mu is held.
func (l *line) over(c *Chunk) bool { return l.err != nil && l.wrong <= c.Index }

// alone runs a job for which the CPU moves nothing: one goroutine queues all.
func (l *line) alone(ctx context.Context) {
	depth := len(l.slots)
	k, first := 0, 0 // chunk to be queued, chunk that may be in flight
	turn := 0        // of the streams for kernels
	defer func() {
		for i := first; i < k; i++ {
			l.slots[i%depth].complete(ctx)
		}
	}()
	for ; ; k++ {
		s := l.slots[k%depth]
		if k >= depth {
			first = k - depth + 1
			if !s.complete(ctx) {
				return
			}
		}
		if k < depth || l.slots[first%depth].computes() {
			turn++
		}
		s.step = l.stepStream(turn)
		if !s.cut(k) || !s.submit(ctx) {
			return
		}
	}
}

// together runs a job for which goroutines fill and empty chunks, one for each slot, with
// a crew. What is queued is queued here, as Step is the caller's: where it panics the
// caller sees that.
func (l *line) together(ctx, within context.Context) {
	l.crew = newCrew(len(l.slots), l.g.emulated == nil && !l.job.files)
	var all sync.WaitGroup
	for _, s := range l.slots {
		s.full, s.gone = make(chan bool, 1), make(chan bool, 1)
		all.Go(func() { s.serve(ctx, within) })
	}
	w := watch{l: l}
	defer func() {
		l.halt()
		w.until(nil)
		for _, s := range l.slots {
			close(s.gone)
		}
		all.Wait()
		l.crew.close()
		l.crew = nil
	}()
	for {
		s := l.slots[w.end%len(l.slots)]
		if !w.until(s.full) || l.stopped(&s.chunk) || !s.submit(ctx) {
			return
		}
		w.end++
	}
}

// fail notes an error of a chunk. The first chunk's is told.
func (l *line) fail(c *Chunk, what string, err error) {
	l.halt()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over(c) {
		return
	}
	l.wrong, l.err = c.Index, l.job.explain(c, what, err, int(l.queued.Load())-1)
}

// explain says where a pipeline stopped. A lost context has no place in the order of
// chunks: any that was queued may be the one.
func (j *job) explain(c *Chunk, what string, err error, last int) error {
	where := fmt.Sprintf("chunk %d (elements %d to %d%s)", c.Index, c.First, c.First+c.Len-1, j.offsets(c))
	if _, ok := errors.AsType[*cu.Fault](err); (ok || sticky(err)) && last > c.Index {
		where = fmt.Sprintf("%s or one of those up to %d that were in flight", where, last)
	}
	return fmt.Errorf("%s: %s: %w", where, what, err)
}

// offsets is where a chunk begins in the ends.
func (j *job) offsets(c *Chunk) string {
	ports, name := j.in, "input"
	if len(ports) == 0 {
		ports, name = j.out, "output"
	}
	return fmt.Sprintf(", byte %d of %s 0", c.First*int(ports[0].size), name)
}
