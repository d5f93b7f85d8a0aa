package soft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/softgpu"
)

// Library is the library of software GPUs. It is safe for concurrent use.
type Library struct{}

var _ backend.Library = Library{}

// Name returns what stands for the library in messages.
func (Library) Name() string { return "communicators of the software GPU" }

// Path returns "": no file is loaded.
func (Library) Path() string { return "" }

// Submit queues calls. Those of one stream become one operation, so their order does not matter.
func (Library) Submit(group []backend.Item) error {
	if len(group) == 0 {
		return nil
	}
	comms, err := commsOf(group)
	if err != nil {
		return err
	}
	for _, c := range comms {
		c.submitting.Lock()
		defer c.submitting.Unlock()
	}
	numbers := map[*comm]*counters{}
	for _, c := range comms {
		if err := c.usable(); err != nil {
			return err
		}
		n := c.numbers.clone()
		numbers[c] = &n
	}
	var calls []*call
	for i := range group {
		k, err := newCall(&group[i], numbers)
		if err != nil {
			return err
		}
		calls = append(calls, k)
	}
	if err := queue(calls); err != nil {
		return err
	}
	for c, n := range numbers {
		c.numbers = *n
	}
	for _, k := range calls {
		k.announce()
	}
	for _, k := range calls { // under random a start waits for the operation, which waits for announcements
		k.local.startIfAwaited(k.member)
	}
	return nil
}

// commsOf returns the communicators of a group by their ids, which is the order of locking.
func commsOf(group []backend.Item) ([]*comm, error) {
	var comms []*comm
	for _, x := range group {
		c, ok := x.Comm.(*comm)
		if !ok || c == nil {
			return nil, errors.New("a communicator of the group is none of the software GPU")
		}
		if !slices.Contains(comms, c) {
			comms = append(comms, c)
		}
	}
	slices.SortFunc(comms, func(a, b *comm) int { return cmp.Compare(a.id, b.id) })
	return comms, nil
}

// machine is the operations of a group on one software machine.
type machine struct {
	driver    *softgpu.Driver
	batches   []*batch
	exchanges []*softgpu.Exchange
}

// queue queues the calls, all or none: one operation for each stream.
func queue(calls []*call) error {
	machines := machinesOf(calls)
	err := func() error {
		if len(machines) > 1 {
			for _, m := range machines {
				if err := m.driver.CheckExchange(m.exchanges); err != nil {
					return err
				}
			}
		}
		for _, m := range machines {
			if err := m.queue(); err != nil {
				return err
			}
		}
		return nil
	}()
	if err == nil {
		return nil
	}
	for _, m := range machines {
		for _, b := range m.batches {
			b.refused(err)
		}
	}
	return err
}

// machinesOf makes the operations of calls.
func machinesOf(calls []*call) (list []*machine) {
	type place struct {
		driver  *softgpu.Driver
		context cu.Context
		stream  cu.Stream
	}
	batches, machines := map[place]*batch{}, map[*softgpu.Driver]*machine{}
	for _, k := range calls {
		at := place{k.comm.driver, k.comm.context, k.stream}
		if k.stream == 0 {
			at.stream = cu.StreamLegacy
		}
		m := machines[at.driver]
		if m == nil {
			m = &machine{driver: at.driver}
			machines[at.driver] = m
			list = append(list, m)
		}
		b := batches[at]
		if b == nil {
			b = &batch{context: at.context, stream: at.stream, over: make(chan struct{})}
			batches[at] = b
			m.batches = append(m.batches, b)
		}
		b.calls = append(b.calls, k)
		k.comm.addPending(b)
	}
	for _, m := range list {
		for _, b := range m.batches {
			m.exchanges = append(m.exchanges, b.exchange())
		}
	}
	return list
}

func (m *machine) queue() error {
	queued, err := m.driver.Exchange(m.exchanges)
	if err != nil {
		return err
	}
	for i, b := range m.batches {
		b.queued = queued[i]
		for _, k := range b.calls {
			k.local.queued(k.member, queued[i])
		}
	}
	return nil
}

// Open makes the communicator of a rank.
func (Library) Open(ctx context.Context, cfg *backend.Config) (backend.Comm, error) {
	d := softgpu.Of(cfg.Driver)
	if d == nil {
		return nil, errors.New("open a communicator of the software GPU: the driver is none")
	}
	c := newComm(d, cfg)
	if err := c.connect(ctx); err != nil {
		c.wire.close(false)
		c.release()
		return nil, fmt.Errorf("open communicator %s as rank %d of %d: %w", c.name, c.rank, c.size, err)
	}
	go c.watch()
	return c, nil
}
