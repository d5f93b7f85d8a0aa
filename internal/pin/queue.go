package pin

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// queue has the requests that wait for memory of a pool, in the order of arrival. Only the first one
// looks for memory.
type queue struct {
	waiting atomic.Int64  // requests in the queue
	turn    chan struct{} // capacity 1; full while there is a first request. Go serves those that send in order
	back    chan struct{} // capacity 1; full if memory came back since the first request has looked
}

func newQueue() queue {
	return queue{turn: make(chan struct{}, 1), back: make(chan struct{}, 1)}
}

// returned says that memory came back, or may be found now. A request that counts itself in waiting
// before it looks sees the memory, or else the caller sees that it waits.
func (q *queue) returned() {
	if q.waiting.Load() == 0 {
		return
	}
	select {
	case q.back <- struct{}{}:
	default: // the first request will look in any case
	}
}

// GetWait is Get that waits while the pool is at a limit, until memory comes back or ctx ends.
// Requests of GetWait are served in the order of arrival. Blocks in flight are waited for. mayWait
// returns an error where a goroutine must not wait.
func (p *Pool) GetWait(ctx context.Context, n uintptr, before *Block, mayWait func() error) (*Block, error) {
	b, err := p.getWait(ctx, n, before, mayWait)
	if end := ctx.Err(); end != nil && err == end {
		err = &Waited{end, &Error{n, AnyNode, "requests wait for memory of the pool", "close buffers, or raise the limit", cu.ErrorOutOfMemory}}
	}
	return b, err
}

// getWait implements GetWait. Its error can be that of ctx alone.
func (p *Pool) getWait(ctx context.Context, n uintptr, before *Block, mayWait func() error) (*Block, error) {
	var why error // it waits
	if p.queue.waiting.Load() == 0 {
		b, err := p.Get(ctx, n, before)
		if !waits(err) {
			return b, err
		}
		why = err
	}
	if n == 0 || n > maxBlock || p.source.Max > 0 && roundUp(sizeOf(classOf(n)), pageBytes) > p.source.Max {
		return p.Get(ctx, n, before) // which refuses it
	}
	if err := mayWait(); err != nil {
		return nil, err
	}
	p.queue.waiting.Add(1)
	defer p.queue.waiting.Add(-1)
	select {
	case p.queue.turn <- struct{}{}:
	case <-ctx.Done():
		if why == nil {
			why = &Error{n, AnyNode, "other requests wait for memory of the pool", "close buffers, or raise the limit", cu.ErrorOutOfMemory}
		}
		return nil, &Waited{ctx.Err(), why}
	}
	defer func() { <-p.queue.turn }()
	return p.waitFirst(ctx, classOf(n))
}

// waits reports whether a request waits after an error.
func waits(err error) bool {
	limited, _ := errors.AsType[*Limited](err)
	return limited != nil && limited.Fits
}

// waitFirst is GetWait for the first request of the queue.
func (p *Pool) waitFirst(ctx context.Context, c int) (*Block, error) {
	var why error // no block was found when it last looked everywhere
	for round, polls := 0, false; ; round++ {
		var room <-chan struct{}
		if p.source.Room != nil {
			room = p.source.Room() // before the look, so that no change is missed
		}
		b, inFlight, err := p.lookFirst(ctx, c, round, polls)
		switch {
		case b != nil:
			s := p.shard()
			s.count(b, false)
			b.home.Store(s)
			return b, nil
		case err == nil: // it has polled
		case !waits(err):
			return nil, err
		default:
			why = err
		}
		if polls, err = p.await(ctx, room, inFlight); err != nil {
			return nil, &Waited{err, why}
		}
	}
}

// lookFirst looks for a block everywhere, or with polls among the blocks in flight only, which costs
// less. If there is none, it returns how to wait for a block in flight, each round for another one.
// Nobody else polls while it looks, so no block in flight is overlooked: others polled in search tell
// the queue afterwards.
func (p *Pool) lookFirst(ctx context.Context, c, round int, polls bool) (b *Block, inFlight func(context.Context) error, err error) {
	if err := p.lockSource(ctx); err != nil {
		return nil, nil, err
	}
	defer p.unlockSource()
	if polls {
		b, _ = p.poll(ctx, p.inFlightBlocks(), c) // which tells the queue of other blocks
	} else {
		b, err = p.missLocked(ctx, c)
	}
	if b != nil {
		return b, nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.inFlight.n; n > 0 {
		x := p.inFlight.first
		for range round % n {
			x = x.next
		}
		inFlight = x.Owner.Waiter()
	}
	return nil, inFlight, err
}

// awaitBlock is how long the first request waits for one block in flight. The stream of that block may
// not advance, while others do.
const awaitBlock = time.Millisecond

// await returns when memory came back, when a limit outside of the pool may have room, or when a block
// in flight may be done: then polls is true. The error is that of ctx.
func (p *Pool) await(ctx context.Context, room <-chan struct{}, inFlight func(context.Context) error) (polls bool, err error) {
	var done chan struct{}
	if inFlight != nil {
		within, stop := context.WithTimeout(ctx, awaitBlock)
		defer stop()
		done = make(chan struct{})
		go func() {
			defer close(done)
			if inFlight(within) != nil {
				<-within.Done() // the next round asks for another one
			}
		}()
	}
	select {
	case <-p.queue.back:
	case <-room:
	case <-done:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, nil
}

// errClosed is the error of a closed pool.
var errClosed error = &Error{0, AnyNode, "the pool is closed", "make another", cu.ErrorInvalidValue}
