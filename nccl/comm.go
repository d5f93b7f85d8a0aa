package nccl

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// Comm is the communicator of one rank (ncclComm_t). Its methods, and calls with it, are safe for
// concurrent use. Calls of one communicator are queued one at a time, so goroutines that share it
// must agree with those of the other ranks on the order.
//
// When the process of another rank ends, or NCCL reports an error of work that runs, the
// communicator aborts: work in flight ends, its memory is free then, and has any contents. Err,
// Wait and later calls return why.
type Comm struct {
	gpu        *ferry.GPU
	library    backend.Library
	backend    backend.Comm
	session    backend.Session
	options    Options
	rank, size int
	number     uint64 // of all communicators of the process

	turn  sync.Mutex // held while a call is queued; locked before mu
	ops   []ownOp    // turn guards it
	calls int        // with Verify: calls made; turn guards it

	mu    sync.Mutex // guards what follows
	ended bool       // closed or aborted
	cause error

	stop  chan struct{} // closed when it has ended
	once  sync.Once     // frees the backend
	freed error
}

var _ Caller = (*Comm)(nil)

func newComm(g *ferry.GPU, lib backend.Library, b backend.Comm, session backend.Session, o Options) *Comm {
	c := &Comm{
		gpu: g, library: lib, backend: b, session: session, options: o, rank: session.Rank(), size: session.Size(),
		number: commNumber.Add(1), stop: make(chan struct{}),
	}
	go c.watch()
	return c
}

// String returns `rank 1 of 8 of "world"`.
func (c *Comm) String() string {
	if c == nil {
		return "no communicator"
	}
	return fmt.Sprintf("rank %d of %d of %q", c.rank, c.size, c.options.Name)
}

// Rank returns the number of this rank, from 0.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.size }

// GPU returns the GPU of this rank.
func (c *Comm) GPU() *ferry.GPU { return c.gpu }

// Library says what moves the data: "NCCL 2.28.9", or the software GPU.
func (c *Comm) Library() string { return c.library.Name() }

func (c *Comm) comm() *Comm { return c }

func (c *Comm) make(p *pending) error { return queueAll(p.what(), *p) }

// what names a call in errors.
func (p *pending) what() string { return p.call.Kind.String() }

// begin starts a call, after those of other goroutines. end ends it.
func (c *Comm) begin(what string) error {
	c.turn.Lock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		c.turn.Unlock()
		return fmt.Errorf("%s by %v: %w", what, c, refusal.Join(ErrClosed, c.cause))
	}
	return nil
}

func (c *Comm) end() { c.turn.Unlock() }

// limit returns a context that ends after the timeout.
func (c *Comm) limit() (context.Context, context.CancelFunc) {
	return c.options.limit(context.Background())
}

// lookEvery is how often the library is asked for errors of work that runs.
const lookEvery = 100 * time.Millisecond

// watch aborts the communicator when another rank is lost or the library has an error.
func (c *Comm) watch() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-c.session.Lost():
			c.abort(c.session.Err())
			return
		case <-look.C:
			if err := c.backend.Err(); err != nil {
				c.abort(err)
				return
			}
		}
	}
}

// Err returns why the communicator does not work any more: the error of work that ran, or of a
// rank that was lost. It is nil while it works, and after Close and Abort by the program.
func (c *Comm) Err() error {
	if c == nil {
		return errNoComm("ask for an error")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil || c.ended {
		return c.cause
	}
	if err := c.backend.Err(); err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	return nil
}

// Wait waits for the work of a stream, as [ferry.Stream.Wait] does, and returns its error or that of
// the communicator. If ctx ends before, Wait aborts the communicator, so that work that waits for
// other ranks ends and its memory is free. Its error is then the cause of ctx.
func (c *Comm) Wait(ctx context.Context, s *ferry.Stream) error {
	if c == nil {
		return errNoComm("wait")
	}
	err := s.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		c.abort(fmt.Errorf("a wait for the work of %v ended: %w", s, context.Cause(ctx)))
		return refusal.Join(err, c.Err())
	}
	return refusal.Join(err, c.Err())
}

// Split makes communicators of the ranks that give the same color, and returns that of this rank
// (ncclCommSplit). All ranks call it. In each, the ranks are in the order of their keys, and of their
// old ranks where keys are the same. A rank with color -1 gets nil. The communicators work side by
// side, and each is closed by itself. name is for messages.
func (c *Comm) Split(ctx context.Context, color, key int, name string) (*Comm, error) {
	what := fmt.Sprintf("split off %q", name)
	if c == nil {
		return nil, errNoComm(what)
	}
	if color < -1 || int(int32(color)) != color || int(int32(key)) != key {
		return nil, refusal.Invalid("%s from %v: color %d, key %d: want a color of -1 or more, and 32 bits for both", what, c, color, key)
	}
	if err := c.begin(what); err != nil {
		return nil, err
	}
	defer c.end()
	ctx, stop := c.options.limit(ctx)
	defer stop()
	session, err := c.session.Split(ctx, color, key)
	if err != nil {
		return nil, fmt.Errorf("%s from %v: %w", what, c, err)
	}
	b, err := c.backend.Split(ctx, color, key, session, name)
	if err != nil || color == -1 {
		if session != nil {
			err = refusal.Join(err, session.Close())
		}
		if err != nil {
			err = fmt.Errorf("%s from %v: %w", what, c, err)
		}
		return nil, err
	}
	o := c.options
	o.Name = name
	return newComm(c.gpu, c.library, b, session, o), nil
}

// Close waits until the ranks have done what they queued, and frees the communicator
// (ncclCommFinalize, ncclCommDestroy). All ranks call it. If others do not come within the timeout,
// it aborts and returns an error. A second Close does nothing.
func (c *Comm) Close() error {
	if c == nil || !c.finish(nil) {
		return nil
	}
	c.once.Do(func() {
		c.turn.Lock() // a call that is being queued ends first
		defer c.turn.Unlock()
		ctx, stop := c.limit()
		defer stop()
		c.freed = c.backend.Close(ctx)
		c.freed = refusal.Join(c.freed, c.session.Close())
	})
	if c.freed != nil {
		return fmt.Errorf("close %v: %w", c, c.freed)
	}
	return nil
}

// Abort ends the work of the communicator in flight, and frees it (ncclCommAbort). What the work
// would have written has any contents. The other ranks find that this one is lost, and abort, too.
func (c *Comm) Abort() error {
	if c == nil {
		return nil
	}
	return c.abort(nil)
}

// abort is Abort with a cause, which Err returns.
func (c *Comm) abort(cause error) error {
	if cause != nil {
		cause = fmt.Errorf("%v: %w", c, cause)
	}
	if !c.finish(cause) && cause == nil {
		return nil
	}
	c.once.Do(func() {
		c.freed = c.backend.Abort()
		c.freed = refusal.Join(c.freed, c.session.Abandon(cause))
	})
	if c.freed != nil {
		return fmt.Errorf("abort %v: %w", c, c.freed)
	}
	return nil
}

// finish refuses later calls. It returns false if the communicator has ended already.
func (c *Comm) finish(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.ended, c.cause = true, cause
	close(c.stop)
	return true
}
