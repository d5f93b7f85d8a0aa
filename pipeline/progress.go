package pipeline

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// progress is how far a Run is, and the first chunk that failed. It is safe for
// concurrent use.
type progress struct {
	job    *job
	queued atomic.Int64 // chunks

	mu     sync.Mutex
	done   int   // elements of chunks that are done, in order
	failed int   // index of the first chunk that failed, if err is not nil
	err    error // of that chunk
}

// finished counts a chunk as done, unless it or one before it failed.
func (p *progress) finished(c *Chunk) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isOver(c) {
		return false
	}
	p.done += c.Len
	return true
}

// over reports whether the chunk, or one before it, failed.
func (p *progress) over(c *Chunk) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isOver(c)
}

// isOver implements over. The caller holds mu.
func (p *progress) isOver(c *Chunk) bool { return p.err != nil && p.failed <= c.Index }

// fail records the error of a chunk. The error of the first chunk is kept.
func (p *progress) fail(c *Chunk, what string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isOver(c) {
		p.failed, p.err = c.Index, p.explain(c, what, err)
	}
}

// result returns how many elements are done, and the error. rest is an error that belongs
// to no chunk. It counts if no chunk failed, and then it is not known what is done.
func (p *progress) result(rest error) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && rest != nil {
		return 0, rest
	}
	return p.done, p.err
}

// explain adds to an error where the pipeline stopped. When the context is lost, any of
// the chunks that were queued may be the reason.
func (p *progress) explain(c *Chunk, what string, err error) error {
	last := int(p.queued.Load()) - 1
	where := fmt.Sprintf("chunk %d (elements %d to %d%s)", c.Index, c.First, c.First+c.Len-1, p.offset(c))
	if _, ok := errors.AsType[*cu.Fault](err); (ok || sticky(err)) && last > c.Index {
		where = fmt.Sprintf("%s or one of those up to %d that were in flight", where, last)
	}
	return fmt.Errorf("%s: %s: %w", where, what, err)
}

// offset returns the byte of the first end at which a chunk begins, as text.
func (p *progress) offset(c *Chunk) string {
	ends, name := p.job.in, "input"
	if len(ends) == 0 {
		ends, name = p.job.out, "output"
	}
	return fmt.Sprintf(", byte %d of %s 0", c.First*ends[0].size, name)
}

// sticky reports whether the context is lost.
func sticky(err error) bool {
	r, ok := errors.AsType[cu.Result](err)
	return ok && r.Sticky()
}
