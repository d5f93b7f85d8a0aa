package soft

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/softgpu"
)

// key names a call in a communicator: a collective one by its number, and a message from one rank to
// another by its number among these.
type key struct {
	pair     bool
	src, dst int
	number   uint64
}

// call is one call of a rank.
type call struct {
	backend.Call
	comm   *comm
	stream cu.Stream
	key    key
	member int // the rank; in a pair 0 for the sender and 1 for the receiver
	local  *localCall
	agreed *agreement

	reads, writes int // places in the exchange's lists; -1 for none
	running       *softgpu.Running
}

// newCall checks a call and gives it its number.
func newCall(x *backend.Item, numbers map[*comm]*counters) (*call, error) {
	c := x.Comm.(*comm)
	k := &call{Call: x.Call, comm: c, stream: x.Stream, member: c.rank, reads: -1, writes: -1}
	if err := k.check(); err != nil {
		return nil, fmt.Errorf("communicator %s: %v: %w", c.name, k.describe(), err)
	}
	n := numbers[c]
	switch k.Kind {
	case backend.Send:
		n.sent[k.Peer]++
		k.key, k.member = key{true, c.rank, k.Peer, n.sent[k.Peer]}, 0
	case backend.Recv:
		n.received[k.Peer]++
		k.key, k.member = key{true, k.Peer, c.rank, n.received[k.Peer]}, 1
	default:
		n.collective++
		k.key = key{number: n.collective}
	}
	k.local = c.hub.call(k.key)
	k.agreed = c.agreement(k.key)
	return k, nil
}

// check refuses a call that no communicator could make.
func (k *call) check() error {
	c := k.comm
	switch {
	case k.Kind > backend.Recv || k.Type > backend.Float8E5M2:
		return errors.New("its kind or type is not known")
	case k.Count < 0 || k.Count > math.MaxInt/8/c.size:
		return fmt.Errorf("%d elements are none, or too many", k.Count)
	case (k.Kind.Rooted() || k.Kind.Pair()) && (k.Peer < 0 || k.Peer >= c.size):
		return fmt.Errorf("there is no rank %d: the communicator has %d", k.Peer, c.size)
	case k.Kind.Reduces() && k.Op.Code > backend.PreMulSum:
		return errors.New("its operation is not known")
	}
	if k.Kind.Reduces() && k.Op.Code == backend.PreMulSum {
		if t, ok := c.scaled(k.Op); !ok {
			return fmt.Errorf("scaled sum %d is none of this communicator, or was destroyed", k.Op.Handle)
		} else if t != k.Type {
			return fmt.Errorf("the factor of the scaled sum is %v", t)
		}
	}
	send, recv := k.bytes()
	if k.SendBytes > 0 && k.SendBytes < send || k.RecvBytes > 0 && k.RecvBytes < recv {
		return fmt.Errorf("it needs %d bytes to send and %d to receive into, and has %d and %d", send, recv, k.SendBytes, k.RecvBytes)
	}
	if send > 0 && k.Send == 0 || recv > 0 && k.Recv == 0 {
		return errors.New("it lacks an address")
	}
	return nil
}

// bytes returns the bytes that the rank reads and writes.
func (k *call) bytes() (send, recv int) {
	part := k.Count * k.Type.Size()
	all, root := part*k.comm.size, k.Peer == k.comm.rank
	when := func(yes bool, n int) int {
		if yes {
			return n
		}
		return 0
	}
	switch k.Kind {
	case backend.AllReduce:
		return part, part
	case backend.Broadcast:
		return when(root, part), part
	case backend.Reduce:
		return part, when(root, part)
	case backend.AllGather:
		return part, all
	case backend.ReduceScatter:
		return all, part
	case backend.AllToAll:
		return all, all
	case backend.Gather:
		return part, when(root, all)
	case backend.Scatter:
		return when(root, all), part
	case backend.Send:
		return part, 0
	}
	return 0, part
}

// batch is the calls of one operation.
type batch struct {
	context cu.Context
	stream  cu.Stream
	calls   []*call
	queued  *softgpu.QueuedExchange // guarded by submitting of the communicators
	over    chan struct{}           // closed by end
}

// end drops the operation from the communicators, which need not wait for it any more.
func (b *batch) end() {
	for _, k := range b.calls {
		k.comm.donePending(b)
	}
	close(b.over)
}

// dropped ends an operation that never runs, as the device is lost. The other ranks would wait for it.
func (b *batch) dropped() {
	defer b.end()
	for _, k := range b.calls {
		k.comm.fail(fmt.Errorf("communicator %s, %s: rank %d: its device was lost before the call ran", k.comm.name, k.title(), k.comm.rank))
	}
}

// refused drops the operation. If it is queued on one machine while another one has refused its part of the
// group, the communicators fail.
func (b *batch) refused(err error) {
	if b.queued != nil {
		for _, k := range b.calls {
			k.comm.fail(fmt.Errorf("communicator %s: a part of a group was refused after others were queued: %w", k.comm.name, err))
		}
		return
	}
	b.end()
}

// exchange returns the operation.
func (b *batch) exchange() *softgpu.Exchange {
	x := &softgpu.Exchange{Name: b.name(), Context: b.context, Stream: b.stream, Run: b.run, Dropped: b.dropped}
	for _, k := range b.calls {
		send, recv := k.bytes()
		if send > 0 {
			k.reads = len(x.Reads)
			x.Reads = append(x.Reads, softgpu.Range{Address: cu.DevicePtr(k.Send), Bytes: uintptr(send)})
		}
		if recv > 0 {
			k.writes = len(x.Writes)
			x.Writes = append(x.Writes, softgpu.Range{Address: cu.DevicePtr(k.Recv), Bytes: uintptr(recv)})
		}
		if m := k.local.meeting(k.comm.driver); m != nil {
			x.Meetings = append(x.Meetings, m)
		}
	}
	return x
}

func (b *batch) name() string {
	if len(b.calls) == 1 {
		return b.calls[0].describe()
	}
	return fmt.Sprintf("group of %d calls that begins with %s", len(b.calls), b.calls[0].describe())
}

// run runs the calls at once.
func (b *batch) run(r *softgpu.Running) (time.Duration, error) {
	defer b.end()
	errs := make([]error, len(b.calls))
	var all sync.WaitGroup
	for i, k := range b.calls[1:] {
		all.Go(func() { errs[i+1] = k.run(r) })
	}
	errs[0] = b.calls[0].run(r)
	all.Wait()
	return b.price(), errors.Join(errs...)
}

// run runs a call. If it fails, its communicator does.
func (k *call) run(r *softgpu.Running) error {
	c := k.comm
	if err := c.beginRun(); err != nil {
		return err
	}
	defer c.runs.Done()
	k.running = r
	err := k.meet()
	if err == nil {
		err = k.move()
	}
	if err != nil {
		c.fail(err)
		return c.Err()
	}
	k.local.end()
	c.forget(k.key)
	return nil
}

// beginRun counts a call that runs.
func (c *comm) beginRun() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.ended:
		return fmt.Errorf("communicator %s is closed", c.name)
	}
	c.runs.Add(1)
	return nil
}

// meet waits until all ranks have made the same call, and those of this process have begun it.
func (k *call) meet() error {
	if err := k.local.begin(k); err != nil {
		return err
	}
	if k.agreed.isReady() {
		return nil
	}
	if !k.local.whole {
		defer k.running.Wait()()
	}
	return k.await(k.agreed.ready, func() error { return k.absent(k.agreed.missing()) })
}

// hostLooks is how long an operation waits for those of other ranks that are queued, before it lets other
// work go on: these may need the host.
const hostLooks = 100 * time.Millisecond

// await waits for a channel. It ends early when the communicator fails, when the operation must end,
// and when the time is over: then late says what was missing.
func (k *call) await(done <-chan struct{}, late func() error) error {
	select {
	case <-done:
		return nil
	default:
	}
	over, stop := k.comm.timeout()
	defer stop()
	select {
	case <-done:
		return nil
	case <-k.comm.failed:
		return k.comm.Err()
	case <-over:
		return late()
	case <-k.running.Context().Done():
		return fmt.Errorf("communicator %s, %s: rank %d: %w", k.comm.name, k.title(), k.comm.rank, context.Cause(k.running.Context()))
	}
}

// send sends data of a step to a rank.
func (k *call) send(rank, step int, data []byte) error {
	m := &message{kind: kindData, from: k.comm.rank, key: k.key, member: k.member, step: step, data: data}
	if rank == k.comm.rank {
		k.comm.inbox.put(m.copied())
		return nil
	}
	defer context.AfterFunc(k.running.Context(), k.comm.wire.hurry)()
	if err := k.comm.peers[rank].send(m); err != nil {
		return k.comm.errOr(err)
	}
	return nil
}

// recv returns the data of a step from a rank, which must have a number of bytes: another process chooses it.
func (k *call) recv(rank, step, bytes int) ([]byte, error) {
	member := rank
	if k.key.pair {
		member = 0
	}
	at := slotKey{k.key, member, step}
	s := k.comm.inbox.slot(at)
	select {
	case <-s.full:
	default:
		if !k.local.whole { // the rank itself may wait for one of another process
			defer k.running.Wait()()
		}
		if err := k.await(s.full, func() error { return k.stuck(rank) }); err != nil {
			return nil, err
		}
	}
	k.comm.inbox.drop(at)
	if len(s.data) != bytes {
		return nil, k.garbled(rank, fmt.Errorf("%d bytes, want %d", len(s.data), bytes))
	}
	return s.data, nil
}

func (c *comm) errOr(err error) error {
	if e := c.Err(); e != nil {
		return e
	}
	return err
}

// scaled returns the type of a scaled sum.
func (c *comm) scaled(op backend.Op) (backend.DataType, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.ops[op.Handle]
	return t, ok
}
