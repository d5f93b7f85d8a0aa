package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// slot is a piece of the ring.
type slot struct {
	host   cu.HostPtr
	mem    []byte
	unlock func() error
	event  cu.Event // of the copy that is flying

	// Ring.mu guards:
	state  slotState
	owner  *transfer // who took it last, nil when free
	turn   uint64    // number of its flight
	in     cu.Stream // that it flies in,
	number int       // and that stream's number
}

type slotState uint8

const (
	free   slotState = iota
	taken            // a transfer reads or writes it
	flying           // the device may; nobody else waits for it
)

// few is the most slots of one transfer to the device. One is filled, one is full and
// one is read, and one is for what does not come in time: more of them are not in the
// caches when a transfer begins.
const few = 4

// How long a transfer waits for a slot when others have them all.
const patience = 2 * time.Millisecond

// tryTake is a slot for t if there is one: free, or one that the device is done with,
// or new. foreign says that others have all.
func (r *Ring) tryTake(t *transfer) (s *slot, foreign bool, err error) {
	for {
		s, _, foreign, err := r.pick(t, false)
		if s != nil || err != nil {
			return s, false, err
		}
		done, err := r.land()
		if err != nil {
			return nil, foreign, err
		}
		if done {
			continue
		}
		s, grow, foreign, err := r.pick(t, true)
		if !grow {
			return s, foreign, err
		}
		if s, err := r.add(t); s != nil || err != nil {
			return s, false, err
		}
	}
}

// pick is a free slot. grow says that t may make a new one. Neither: t must wait,
// and foreign says that it has none itself, and none of its stream's will be free.
func (r *Ring) pick(t *transfer, mayGrow bool) (s *slot, grow, foreign bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false, false, errors.New("the staging ring is closed")
	}
	foreign = t.held == 0 && !slices.ContainsFunc(r.slots, t.waitsFor)
	most := r.set.Slots / max(1, r.jobs)
	if t.src != nil {
		most = min(most, few)
	}
	if t.held >= max(1, most) {
		return nil, false, foreign, nil
	}
	for _, s := range slices.Backward(r.slots) { // what was used last may be in the caches
		if s.state == free {
			s.state, s.owner = taken, t
			t.held++
			return s, false, false, nil
		}
	}
	if mayGrow && len(r.slots)+r.growing < r.set.Slots {
		r.growing++
		t.held++
		t.grew = true
		return nil, true, false, nil
	}
	return nil, false, foreign, nil
}

// add makes a slot for t. It is nil without an error if there are others to wait for.
func (r *Ring) add(t *transfer) (*slot, error) {
	s, err := r.grow()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.growing--
	if err == nil {
		s.state, s.owner = taken, t
		r.slots = append(r.slots, s)
		return s, nil
	}
	t.held--
	others := len(r.slots) + r.growing
	switch {
	case !errors.Is(err, cu.ErrorOutOfMemory):
		return nil, err
	case others > 0:
		r.set.Slots = others // these will have to do
		return nil, nil
	case t.mayYield:
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	default:
		return nil, err
	}
}

// land frees the slots that the device is done with. done says that there was one.
// In each stream the oldest tells of all.
func (r *Ring) land() (done bool, err error) {
	type seen struct {
		s    *slot
		turn uint64
		in   cu.Stream
	}
	var room [16]seen
	all := room[:0]
	r.mu.Lock()
	for _, s := range r.slots {
		if s.state == flying {
			all = append(all, seen{s, s.turn, s.in})
		}
	}
	r.mu.Unlock()
	for len(all) > 0 {
		x := all[0]
		switch err := r.driver.EventQuery(r.ctx, x.s.event); {
		case err == nil:
			r.mu.Lock()
			if x.s.turn == x.turn && x.s.state == flying {
				r.release(x.s)
			}
			r.mu.Unlock()
			all, done = all[1:], true
		case !errors.Is(err, cu.ErrorNotReady):
			return false, err
		default:
			all = slices.DeleteFunc(all, func(y seen) bool { return y.in == x.in })
		}
	}
	return done, nil
}

// Flights counts the slots that were left to the device: see [Job.Landed].
func (r *Ring) Flights() uint64 { return r.flights.Load() }

// landed frees the slots of which a transfer's caller knows that the device is done
// with them.
func (r *Ring) landed(t *transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		if s.state == flying && s.number == t.job.Number && s.turn <= t.job.Landed {
			r.release(s)
		}
	}
}

// release frees a slot. r.mu is held.
func (r *Ring) release(s *slot) {
	s.owner.held--
	s.state, s.owner = free, nil
}

// give is the end of taken without a copy in flight.
func (r *Ring) give(s *slot) {
	r.mu.Lock()
	closed := r.closed
	r.release(s)
	r.mu.Unlock()
	if closed {
		_ = r.free(s) // by a reader that came back after all: nobody to tell
	}
}

// fly leaves a taken slot to the device, whose copy its event stands for.
func (r *Ring) fly(s *slot) {
	r.mu.Lock()
	closed := r.closed
	s.state, s.in, s.number = flying, s.owner.job.Stream, s.owner.job.Number
	s.turn = r.flights.Add(1)
	if i := slices.Index(r.slots, s); i >= 0 {
		r.slots = append(slices.Delete(r.slots, i, i+1), s)
	}
	r.mu.Unlock()
	if closed {
		_ = r.free(s) // as above; the device is done
	}
}

// waitsFor says that a slot will be free before t's work in its stream is done.
// Ring.mu is held.
func (t *transfer) waitsFor(s *slot) bool {
	return s.state == flying && (s.owner == t || s.in == t.job.Stream)
}

// awaitOldest waits, on an emulated device, until t can have a slot again: by the
// oldest copy in its own stream. If there is none others hold them all.
func (r *Ring) awaitOldest(t *transfer) error {
	r.mu.Lock()
	i := slices.IndexFunc(r.slots, t.waitsFor)
	if i < 0 && !t.mayYield {
		i = slices.IndexFunc(r.slots, func(s *slot) bool { return s.state == flying })
	}
	if i < 0 {
		r.mu.Unlock()
		if t.mayYield {
			return ErrBusy
		}
		time.Sleep(time.Millisecond) // readers and writers have them all
		return nil
	}
	e := r.slots[i].event
	r.mu.Unlock()
	return r.synchronize(t.ctx, e)
}

// synchronize is EventSynchronize with a context.
func (r *Ring) synchronize(ctx context.Context, e cu.Event) error {
	if ctx.Done() == nil {
		return r.driver.EventSynchronize(r.ctx, e)
	}
	done := make(chan error, 1)
	go func() { done <- r.driver.EventSynchronize(r.ctx, e) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
