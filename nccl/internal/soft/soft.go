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
		if c.driver != group[0].Comm.(*comm).driver {
			return nil, errors.New("the communicators of a group are on two software machines: make a group for each")
		}
		if !slices.Contains(comms, c) {
			comms = append(comms, c)
		}
	}
	slices.SortFunc(comms, func(a, b *comm) int { return cmp.Compare(a.id, b.id) })
	return comms, nil
}

// queue queues the calls: one operation for each stream.
func queue(calls []*call) error {
	type place struct {
		context cu.Context
		stream  cu.Stream
	}
	var order []place
	byPlace := map[place]*batch{}
	for _, k := range calls {
		at := place{k.comm.context, k.stream}
		if byPlace[at] == nil {
			byPlace[at] = &batch{}
			order = append(order, at)
		}
		byPlace[at].calls = append(byPlace[at].calls, k)
		k.comm.addPending(byPlace[at])
	}
	var list []*softgpu.Exchange
	for _, at := range order {
		list = append(list, byPlace[at].exchange(at.context, at.stream))
	}
	queued, err := calls[0].comm.driver.Exchange(list)
	for i, at := range order {
		b := byPlace[at]
		if err != nil {
			b.end()
			continue
		}
		b.queued = queued[i]
		for _, k := range b.calls {
			k.local.queued(k.member, queued[i])
		}
	}
	return err
}

// Open makes the communicator of a rank.
func (Library) Open(ctx context.Context, cfg *backend.Config) (backend.Comm, error) {
	d := softgpu.Of(cfg.Driver)
	if d == nil {
		return nil, errors.New("open a communicator of the software GPU: the driver is none")
	}
	c := newComm(d, cfg)
	if err := c.connect(ctx); err != nil {
		c.release()
		return nil, fmt.Errorf("open communicator %s as rank %d of %d: %w", c.name, c.rank, c.size, err)
	}
	go c.watch()
	return c, nil
}
