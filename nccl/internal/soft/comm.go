package soft

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/softgpu"
)

// comm is the communicator of a rank.
type comm struct {
	id      uint64 // in this process
	name    string // quoted
	rank    int
	size    int
	driver  *softgpu.Driver
	context cu.Context
	device  cu.Device
	config  backend.Config
	session backend.Session
	peers   []peer // by rank; nil for the rank itself
	process string // the name of this process
	hub     *hub   // of the ranks of this process
	wire    *wire  // of the others, nil if there are none
	inbox   inbox

	submitting sync.Mutex // held during Submit
	numbers    counters   // guarded by submitting

	failed chan struct{} // closed when err is set
	closed chan struct{} // closed by Close and Abort
	freed  chan struct{} // closed when Close or Abort has ended
	runs   sync.WaitGroup

	telling sync.WaitGroup // messages that the communicator has failed

	mu      sync.Mutex
	err     error
	ended   bool           // Close or Abort has been called
	silent  bool           // nothing more is told
	gone    map[int]bool   // ranks that have closed the communicator
	last    map[int]string // the last call that each rank has announced here
	agreed  map[key]*agreement
	pending map[*batch]struct{}        // operations that have not ended
	ops     map[int32]backend.DataType // scaled sums
	nextOp  int32
}

// peer is another rank, as messages reach it. The communicator fails if send does.
type peer interface {
	send(m *message) error
}

// setPeer sets how a rank is reached. Ranks that are connected already may make c fail meanwhile.
func (c *comm) setPeer(rank int, p peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers[rank] = p
}

// counters number the calls of a rank.
type counters struct {
	collective     uint64
	sent, received map[int]uint64 // by the other rank
}

func (n *counters) clone() counters {
	return counters{n.collective, maps.Clone(n.sent), maps.Clone(n.received)}
}

var lastID atomic.Uint64

func newComm(d *softgpu.Driver, cfg *backend.Config) *comm {
	c := &comm{
		id: lastID.Add(1), name: strconv.Quote(cfg.Name), rank: cfg.Session.Rank(), size: cfg.Session.Size(),
		driver: d, context: cfg.Context, device: cfg.Device, config: *cfg, session: cfg.Session, process: processOf(cfg),
		numbers: counters{sent: map[int]uint64{}, received: map[int]uint64{}},
		failed:  make(chan struct{}), closed: make(chan struct{}), freed: make(chan struct{}),
		gone: map[int]bool{}, last: map[int]string{}, agreed: map[key]*agreement{},
		pending: map[*batch]struct{}{}, ops: map[int32]backend.DataType{},
	}
	c.peers = make([]peer, c.size)
	c.inbox.slots = map[slotKey]*slot{}
	return c
}

// watch makes c fail when the process of another rank has ended.
func (c *comm) watch() {
	select {
	case <-c.session.Lost():
		c.fail(fmt.Errorf("communicator %s: %w", c.name, firstOf(c.session.Err(), errors.New("the process of another rank has ended"))))
	case <-c.closed:
	case <-c.failed:
	}
}

// firstOf returns the first error that is not nil.
func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// usable fails if no more calls can be made.
func (c *comm) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.ended:
		return fmt.Errorf("communicator %s is closed", c.name)
	}
	return nil
}

// Err returns why c has failed.
func (c *comm) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail makes c fail, and tells the other ranks. The first error counts.
func (c *comm) fail(err error) {
	if !c.setErr(err) {
		return
	}
	c.tell(err, false)
}

// tell tells the other ranks why c has failed, unless it has told them for the last time.
func (c *comm) tell(err error, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent {
		return
	}
	c.silent = last
	text := err.Error()
	m := &message{kind: kindFail, from: c.rank, data: []byte(text[:min(len(text), mostReason)])}
	for _, p := range c.peers {
		if p != nil {
			c.telling.Go(func() { p.send(m) }) // a rank that cannot be told finds out by its connection
		}
	}
}

// setErr sets the error, and ends what runs. It returns false if there was one.
func (c *comm) setErr(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	close(c.failed)
	c.wire.hurry()
	return true
}

// deliver takes a message of another rank of the communicator.
func (c *comm) deliver(m *message) {
	switch m.kind {
	case kindAnnounce:
		c.announced(m)
	case kindData:
		switch {
		case !c.concerns(m):
			c.fail(c.unreadable(m))
		case c.Err() == nil: // else nobody reads it
			c.inbox.put(m)
		}
	case kindFail:
		c.setErr(errors.New(string(m.data)))
	case kindBye:
		if err := c.leaves(m.from); err != nil {
			c.fail(err)
		}
	}
}

// leaves notes that a rank has closed the communicator. It returns an error if this rank has made a call
// that the other one has not.
func (c *comm) leaves(rank int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone[rank] = true
	for _, a := range c.agreed {
		if err := a.abandoned(); err != nil {
			return err
		}
	}
	return nil
}

// lost makes c fail because the connection to a rank has ended.
func (c *comm) lost(rank int, err error) {
	c.mu.Lock()
	over := c.gone[rank] || c.ended
	c.mu.Unlock()
	if !over {
		c.fail(fmt.Errorf("communicator %s: the connection of rank %d has ended: %w", c.name, rank, err))
	}
}

// addPending notes an operation that is being queued. donePending drops it, when it has run or was refused.
func (c *comm) addPending(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[b] = struct{}{}
}

func (c *comm) donePending(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, b)
}

// Split makes a communicator of the ranks of a session.
func (c *comm) Split(ctx context.Context, color, key int, session backend.Session, name string) (backend.Comm, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	if color < 0 {
		return nil, nil
	}
	cfg := c.config
	cfg.Session, cfg.Name = session, name
	return Library{}.Open(ctx, &cfg)
}

// PreMulSum makes a scaled sum.
func (c *comm) PreMulSum(t backend.DataType, factor [8]byte) (backend.Op, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextOp++
	c.ops[c.nextOp] = t
	return backend.Op{Code: backend.PreMulSum, Handle: c.nextOp, Factor: factor}, nil
}

// DestroyOp ends a scaled sum.
func (c *comm) DestroyOp(op backend.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.ops[op.Handle]; !ok || op.Code != backend.PreMulSum {
		return fmt.Errorf("communicator %s has no scaled sum %d", c.name, op.Handle)
	}
	delete(c.ops, op.Handle)
	return nil
}

// Register has nothing to do: the software GPU needs no registration.
func (c *comm) Register(address uint64, bytes int) (uintptr, error) {
	if err := c.usable(); err != nil {
		return 0, err
	}
	return uintptr(lastID.Add(1)), nil
}

// Deregister undoes Register.
func (c *comm) Deregister(handle uintptr) error { return nil }

// Close waits for the operations of c, and then frees it.
func (c *comm) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.wire.hurry)()
	if err := c.drain(ctx); err != nil {
		c.Abort()
		return err
	}
	if !c.end() {
		return nil
	}
	defer close(c.freed)
	c.telling.Wait() // what made an operation fail comes before the goodbye
	bye := &message{kind: kindBye, from: c.rank}
	for _, p := range c.peers {
		if p != nil {
			p.send(bye)
		}
	}
	close(c.closed)
	c.wire.close(true)
	c.release()
	return nil
}

// end begins the end of c. If it has begun already, end waits until c is freed, and returns false.
func (c *comm) end() bool {
	c.mu.Lock()
	over := c.ended
	c.ended = true
	c.mu.Unlock()
	if over {
		c.wire.hurry()
		<-c.freed
	}
	return !over
}

// drain starts the operations of c, and waits for them.
func (c *comm) drain(ctx context.Context) error {
	c.submitting.Lock() // a call that is being queued
	c.mu.Lock()
	list := slices.Collect(maps.Keys(c.pending))
	c.mu.Unlock()
	c.submitting.Unlock()
	for _, b := range list {
		b.queued.Start()
	}
	for _, b := range list {
		for _, done := range []<-chan struct{}{b.queued.Done(), b.over} {
			select {
			case <-done:
			case <-ctx.Done():
				return fmt.Errorf("close communicator %s as rank %d: %w while %s waits", c.name, c.rank, context.Cause(ctx), b.queued)
			}
		}
	}
	return nil
}

// abortTime is how long Abort waits until the other ranks are told.
const abortTime = 500 * time.Millisecond

// Abort ends what runs. Operations that have not begun end without using memory.
func (c *comm) Abort() error {
	if !c.end() {
		return nil
	}
	defer close(c.freed)
	c.setErr(fmt.Errorf("rank %d has aborted communicator %s", c.rank, c.name))
	c.tell(c.Err(), true) // also what another rank has told: the connections end now
	close(c.closed)
	told := make(chan struct{})
	go func() { c.telling.Wait(); close(told) }()
	select {
	case <-told:
	case <-time.After(abortTime):
	}
	c.wire.close(false)
	c.runs.Wait()
	c.release()
	return nil
}

// release frees what other ranks of the process find c by.
func (c *comm) release() { c.hub.leave(c) }

// timeout returns how long an operation may wait.
func (c *comm) timeout() (<-chan time.Time, func()) {
	if c.config.Timeout <= 0 {
		return nil, func() {}
	}
	t := time.NewTimer(c.config.Timeout)
	return t.C, func() { t.Stop() }
}
