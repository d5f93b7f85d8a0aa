package ferry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// order is what is to be known of memory allocated in stream order: it is there
// when its stream has come to the allocation, and is freed in the order of a
// stream, too.
type order struct {
	home *queue
	seq  uint64 // of the allocation, in home

	mu    sync.Mutex
	known []*queue // streams that wait for the allocation
}

// ordered lets q wait for the allocation of the thing, once. A stream that
// captures need not: the launch of the graph will.
func (f *flight) ordered(q *queue) error {
	o := f.order
	if o == nil || o.home == q || o.home.passed.Load() >= o.seq || q.c != nil {
		return nil
	}
	o.mu.Lock()
	known := slices.Contains(o.known, q)
	o.mu.Unlock()
	if known {
		return nil
	}
	ok, err := q.followAll(o.home)
	if err == nil && !ok { // home is closed
		err = o.home.settle(context.Background())
	}
	if err != nil {
		return fmt.Errorf("wait for its allocation on %v: %w", o.home, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = append(o.known, q)
	return nil
}

// followAll lets later work of q wait for all work that is in p now. It is false
// when p is closed.
func (q *queue) followAll(p *queue) (ok bool, err error) {
	if !sameDriver(p.g.driver, q.g.driver) || !p.enter() {
		return false, nil
	}
	defer p.leave()
	d := p.g.driver
	event, err := d.EventCreate(p.g.ctx, cu.EventDisableTiming)
	if err != nil {
		return false, err
	}
	if err = d.EventRecord(p.g.ctx, event, p.handle); err == nil {
		err = q.follow(event)
	}
	err = errors.Join(err, d.EventDestroy(p.g.ctx, event))
	return err == nil, err
}

// busy is the streams that may still use the thing.
func (f *flight) busy() []*queue {
	var all []*queue
	for _, l := range *f.lanes.Load() {
		if q := l.owner(); q != nil && q.passed.Load() < l.latest(writes) {
			all = append(all, q)
		}
	}
	return all
}

// freeInOrder frees memory in the order of a stream that uses it, after the
// others that do: no one waits but that stream. It is false, and nothing is
// freed, where there is no stream to do so.
func (a *allocation) freeInOrder() (freed bool, err error) {
	if a.bytes == 0 {
		return false, nil
	}
	busy := a.busy()
	q := a.order.home
	if len(busy) > 0 && !slices.Contains(busy, q) {
		q = busy[0]
	}
	if q.g.ctx != a.g.ctx || q.g.released.Load() || !q.enter() {
		return false, nil
	}
	queued := false
	defer func() { q.finish(queued) }()
	for _, p := range busy {
		if p == q {
			continue
		}
		if ok, err := q.followAll(p); !ok {
			return false, err
		}
	}
	if err := q.g.driver.MemFreeAsync(q.g.ctx, a.dev, q.handle); err != nil {
		return false, err
	}
	queued = true
	a.g.leave()
	return true, nil
}
