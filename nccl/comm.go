package nccl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bridge"
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

	turn  chan struct{} // has a value while a call is queued; taken before mu
	ops   []ownOp       // turn guards it
	calls int           // with Verify: collective calls made; turn guards it

	mu    sync.Mutex // guards what follows
	ended bool       // closed or aborted
	cause error
	hurry context.CancelCauseFunc // of a Close in progress

	done    chan struct{} // closed when the backend is free
	release func()        // gives the GPU's context free
}

var _ Caller = (*Comm)(nil)

// newComm makes a communicator, which keeps the context of the GPU until it is freed.
func newComm(g *ferry.GPU, lib backend.Library, b backend.Comm, session backend.Session, o Options) (*Comm, error) {
	release, err := bridge.KeepGPU(g, "open a communicator")
	if err != nil {
		return nil, err
	}
	c := &Comm{
		gpu: g, library: lib, backend: b, session: session, options: o, rank: session.Rank(), size: session.Size(),
		number: commNumber.Add(1), turn: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.release = release
	go c.watch()
	return c, nil
}

// String returns `rank 1 of 8 of "world"`.
func (c *Comm) String() string {
	if c == nil {
		return "no communicator"
	}
	return fmt.Sprintf("rank %d of %d of %q", c.rank, c.size, c.options.Name)
}

// Rank returns the number of this rank, from 0, and -1 for nil, which [Comm.Split] returns for color -1.
func (c *Comm) Rank() int {
	if c == nil {
		return -1
	}
	return c.rank
}

// Size returns the number of ranks, and 0 for nil.
func (c *Comm) Size() int {
	if c == nil {
		return 0
	}
	return c.size
}

// GPU returns the GPU of this rank, and nil for nil.
func (c *Comm) GPU() *ferry.GPU {
	if c == nil {
		return nil
	}
	return c.gpu
}

// Library says what moves the data: "NCCL 2.28.9", or the software GPU. It is "" for nil.
func (c *Comm) Library() string {
	if c == nil {
		return ""
	}
	return c.library.Name()
}

func (c *Comm) comm() *Comm { return c }

func (c *Comm) refused(err error) error { return err }

func (c *Comm) make(f *frame) error { return f.queue(f.calls[0].what()) }

// what names a call in errors.
func (p *pending) what() string { return p.call.Kind.String() }

// begin starts a call, after those of other goroutines. end ends it.
func (c *Comm) begin(what string) error {
	select { // with one case it takes a quarter of the time
	case c.turn <- struct{}{}:
	default:
		select {
		case c.turn <- struct{}{}:
		case <-c.done:
			return c.errEnded(what)
		}
	}
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if ended {
		c.end()
		return c.errEnded(what)
	}
	return nil
}

func (c *Comm) end() { <-c.turn }

// errEnded is the error of a call after the end.
func (c *Comm) errEnded(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%s by %v: %w", what, c, refusal.Join(ErrClosed, c.cause))
}

// limit returns a context that ends after the timeout.
func (c *Comm) limit() (context.Context, context.CancelFunc) {
	return c.options.limit(context.Background())
}

// lookEvery is how often the library is asked for errors of work that runs.
const lookEvery = 100 * time.Millisecond

// watch aborts the communicator when another rank is lost or the library has an error, also while it
// closes.
func (c *Comm) watch() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-c.session.Lost():
			c.abort(c.session.Err())
			return
		case <-look.C:
			if err := c.backend.Err(); err != nil { // nil once it is closed
				c.abort(err)
				return
			}
		}
	}
}

// Err returns why the communicator does not work any more: the error of work that ran, that of a
// rank that was lost, or that the program has called Abort. It is nil while it works, and after Close.
func (c *Comm) Err() error {
	if c == nil {
		return errNoComm("ask for an error")
	}
	c.mu.Lock()
	ended, cause := c.ended, c.cause
	c.mu.Unlock()
	if ended {
		return cause
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
	} else if failed := c.backend.Err(); failed != nil {
		c.abort(failed)
	}
	return refusal.Join(err, c.Err())
}

// Split makes communicators of the ranks that give the same color, and returns that of this rank
// (ncclCommSplit). All ranks call it. In each, the ranks are in the order of their keys, and of their
// old ranks where keys are the same. A rank with color -1 gets nil. Each communicator is closed by
// itself. If ctx ends while NCCL splits, c aborts. name is for messages.
//
// Communicators of one GPU that work at once need the same order of calls on all ranks, as NCCL
// says: let one goroutine of each rank make the calls of both.
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
	if err != nil && ctx.Err() != nil { // NCCL may still be in the split
		defer c.abort(err)
	}
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
	part, err := newComm(c.gpu, c.library, b, session, o)
	if err != nil {
		return nil, refusal.Join(err, b.Abort(), session.Close())
	}
	return part, nil
}

// Close waits until the ranks have done what they queued, and frees the communicator
// (ncclCommFinalize, ncclCommDestroy). All ranks call it, those of one process at once: see [CloseAll].
// If others do not come within the timeout, or a rank is lost meanwhile, it aborts and returns an error.
// A second Close waits for the first, and returns nil.
func (c *Comm) Close() error {
	if c == nil {
		return nil
	}
	limit, stop := c.limit()
	defer stop()
	ctx, hurry := context.WithCancelCause(limit)
	defer hurry(nil)
	if !c.finish(nil, hurry) {
		<-c.done
		return nil
	}
	defer c.freed()
	var err error
	select {
	case c.turn <- struct{}{}: // a call that is being queued ends first
		err = refusal.Join(c.backend.Close(ctx), c.backend.Err())
		c.end()
	case <-ctx.Done():
		err = refusal.Join(context.Cause(ctx), c.backend.Abort())
	}
	if err = refusal.Join(err, c.session.Close()); err != nil {
		return fmt.Errorf("close %v: %w", c, err)
	}
	return nil
}

// CloseAll closes communicators of one process at once, because each Close waits for the other ranks.
// Nil ones are left out.
func CloseAll(all []*Comm) error {
	errs := make([]error, len(all))
	var done sync.WaitGroup
	for i, c := range all {
		done.Go(func() { errs[i] = c.Close() })
	}
	done.Wait()
	return refusal.Join(errs...)
}

// errAborted is why a communicator has ended that the program has aborted.
var errAborted = errors.New("the program has called Abort")

// Abort ends the work of the communicator in flight, and frees it (ncclCommAbort). What the work
// would have written has any contents. The other ranks find that this one has aborted, and abort, too.
// A Close in progress ends. When Abort returns, no work of the communicator uses memory.
func (c *Comm) Abort() error {
	if c == nil {
		return nil
	}
	return c.abort(errAborted)
}

// abort is Abort with a cause, which Err returns.
func (c *Comm) abort(cause error) error {
	if !c.finish(cause, nil) {
		c.mu.Lock()
		if c.hurry != nil {
			c.hurry(cause)
		}
		c.mu.Unlock()
		<-c.done
		return nil
	}
	defer c.freed()
	if err := refusal.Join(c.backend.Abort(), c.session.Abandon(cause)); err != nil {
		return fmt.Errorf("abort %v: %w", c, err)
	}
	return nil
}

// freed ends what waits for the end.
func (c *Comm) freed() {
	close(c.done)
	c.release()
}

// finish refuses later calls. It returns false if the communicator has ended already. hurry ends
// the wait of a Close; nil stands for an abort.
func (c *Comm) finish(cause error, hurry context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.ended, c.hurry = true, hurry
	if cause != nil {
		c.cause = fmt.Errorf("%v: %w", c, cause)
	}
	return true
}
