package pin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Stats is what a pool has and has done. Bytes are those of blocks, which are
// larger than what was asked for.
type Stats struct {
	Used       uintptr // by blocks that somebody has
	Late       uintptr // given back, but in flight
	Pinned     uintptr // from the source
	MostPinned uintptr
	Hits       uint64        // blocks that a cache had
	Calls      int           // of the source: chunks taken and given back
	Driver     time.Duration // in those calls
	Sites      []Site        // who had the source asked for what the pool has now, the most first
}

// Site is a place in a program and the bytes that were pinned for it.
type Site struct {
	Place string
	Bytes uintptr
}

// Stats says what the pool has.
func (p *Pool) Stats() Stats {
	var taken, given, hits uint64
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		taken, given, hits = taken+s.taken, given+s.given, hits+s.hits
		s.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.stats
	out.Used, out.Hits = uintptr(taken-given)-out.Late, hits
	bySite := map[string]uintptr{}
	for c := range p.chunks {
		bySite[c.site] += c.Bytes()
	}
	for _, place := range slices.Sorted(maps.Keys(bySite)) {
		out.Sites = append(out.Sites, Site{place, bySite[place]})
	}
	slices.SortStableFunc(out.Sites, func(a, b Site) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}

// grow takes memory from the source for a block of class c. Where there is not
// enough it gives back what is free and tries with what is needed alone.
func (p *Pool) grow(ctx context.Context, c int) (*Block, error) {
	need := roundUp(sizeOf(c), pageBytes)
	err := p.take(ctx, p.most(need))
	if errors.Is(err, cu.ErrorOutOfMemory) {
		p.empty(false)
		if failed := p.release(0); failed != nil {
			return nil, errors.Join(err, failed)
		}
		err = p.take(ctx, need)
	}
	if err != nil {
		return nil, err
	}
	if b := p.find(c); b != nil {
		return b, nil
	}
	return p.grow(ctx, c) // somebody was faster
}

// most is what to take when so much is needed: a chunk, if the limit allows it.
func (p *Pool) most(need uintptr) uintptr {
	if need >= chunkBytes {
		return need
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.source.Max > 0 && p.stats.Pinned+chunkBytes > p.source.Max && p.stats.Pinned+need <= p.source.Max {
		return (p.source.Max - p.stats.Pinned) &^ (pageBytes - 1)
	}
	return chunkBytes
}

// Warm takes so many bytes from the source now that are needed later.
func (p *Pool) Warm(ctx context.Context, bytes uintptr) error {
	if bytes == 0 {
		return nil
	}
	if bytes > largest {
		return &Error{bytes, AnyNode, "more than memory can be", "ask for less", cu.ErrorOutOfMemory}
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turn }()
	return p.take(ctx, roundUp(bytes, pageBytes))
}

// take has the source give a chunk. p.turn is the caller's.
func (p *Pool) take(ctx context.Context, bytes uintptr) error {
	if err := p.mayTake(bytes); err != nil {
		return err
	}
	begin := p.source.Now()
	got, err := p.source.Take(ctx, bytes)
	took := p.source.Now() - begin
	site := ""
	if err == nil {
		site = p.source.Site()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Calls++
	p.stats.Driver += took
	if err != nil {
		return err
	}
	c := &chunk{Chunk: got, site: site}
	c.first = &extent{chunk: c, bytes: got.Bytes()}
	p.chunks[c] = struct{}{}
	p.bins.add(c.first)
	p.stats.Pinned += got.Bytes()
	p.stats.MostPinned = max(p.stats.MostPinned, p.stats.Pinned)
	return nil
}

// mayTake says why not so much more.
func (p *Pool) mayTake(bytes uintptr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch left := p.source.Max - min(p.source.Max, p.stats.Pinned); {
	case p.closed:
		return errClosed
	case p.source.Max > 0 && bytes > left:
		return &Error{bytes, AnyNode, fmt.Sprintf("the pool may have %s, and %s are pinned already", sizeText(uint64(p.source.Max)), sizeText(uint64(p.stats.Pinned))),
			"close buffers, or raise the pool's limit", cu.ErrorOutOfMemory}
	}
	return nil
}

// errClosed is the error of a closed pool.
var errClosed error = &Error{0, AnyNode, "the pool is closed", "make another", cu.ErrorInvalidValue}

// Release gives back what is free, as Put does for a closed pool. It is for when
// that was not permitted.
func (p *Pool) Release() error { return p.release(0) }

// Trim gives chunks that are free as a whole back to the source until no more than
// keep bytes are pinned.
func (p *Pool) Trim(keep uintptr) error {
	err := p.Poll()
	p.empty(false)
	return errors.Join(err, p.release(keep))
}

// release gives free chunks back until keep bytes are pinned, or none is free.
func (p *Pool) release(keep uintptr) error {
	var failed error
	for {
		c := p.detach(keep)
		if c == nil {
			return failed
		}
		begin := p.source.Now()
		err := c.Close()
		took := p.source.Now() - begin
		p.mu.Lock()
		p.stats.Calls++
		p.stats.Driver += took
		again := errors.Is(err, cu.ErrorNotPermitted)
		if again { // in a host function: it stays
			p.bins.add(c.first)
		} else {
			p.stats.Pinned -= c.Bytes()
			delete(p.chunks, c)
		}
		p.mu.Unlock()
		if err != nil && failed == nil {
			failed = err
		}
		if again {
			return failed
		}
	}
}

// detach takes the free extent of a chunk that is free as a whole, so that nobody
// cuts it.
func (p *Pool) detach(keep uintptr) *chunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stats.Pinned <= keep {
		return nil
	}
	for c := range p.chunks {
		if c.first.free && c.first.whole() {
			p.bins.remove(c.first)
			return c
		}
	}
	return nil
}

// Close gives all that is free back to the source, and the rest when its blocks are
// put. Blocks that were put late must have passed.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.turn <- struct{}{} // what the source is giving now comes first
	defer func() { <-p.turn }()
	err := p.Poll()
	p.empty(true)
	return errors.Join(err, p.release(0))
}

func roundUp(n, to uintptr) uintptr { return (n + to - 1) / to * to }
