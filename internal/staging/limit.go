package staging

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/workers"
)

// Stats is how much memory a ring has, in bytes.
type Stats struct {
	Locked int // page-locked now
	Peak   int // the most that was page-locked at once
	InUse  int // in slots that transfers or the device use
	Limit  int // the most that may be page-locked
	Large  ClassStats
	Small  ClassStats
}

// ClassStats is the slots of one size.
type ClassStats struct {
	Bytes int // of a slot
	Slots int // that exist
	Most  int // that there may be
}

// Stats returns how much memory the ring has. It allocates nothing.
func (r *Ring) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Stats{Locked: r.locked, Peak: r.peak, Limit: r.limit}
	for i, of := range [...]*ClassStats{largeSlots: &s.Large, smallSlots: &s.Small} {
		k := &r.classes[i]
		of.Bytes, of.Slots, of.Most = k.bytes, k.have, k.limit
	}
	for _, x := range r.slots {
		if x.state != slotFree {
			s.InUse += r.classes[x.class].bytes
		}
	}
	return s
}

// noteLocked counts bytes that were page-locked or, if negative, are not any more. r.mu is held.
func (r *Ring) noteLocked(bytes int) {
	r.locked += bytes
	r.peak = max(r.peak, r.locked)
}

// mostLocked returns the limit of the settings.
func (r *Ring) mostLocked() int {
	return r.set.Slots*r.classes[largeSlots].bytes + r.set.SmallSlots*r.classes[smallSlots].bytes
}

// SetLimit sets how many bytes may be page-locked, slots of both sizes together. Free slots beyond
// that are freed. Those in use are freed when a later transfer ends. A size that a transfer uses
// keeps one slot until then. Lost slots do not count: they stay page-locked until Close. A limit
// below one large slot is refused, because a large transfer needs one. If it has no room for small
// slots, small transfers use large ones. 0 is the limit of the settings.
func (r *Ring) SetLimit(bytes int) error {
	large, small := r.classes[largeSlots].bytes, r.classes[smallSlots].bytes
	most := r.mostLocked()
	switch {
	case bytes == 0:
		bytes = most
	case bytes < large:
		return refusal.Invalid("a limit of %s (%d bytes) is below one slot of %s (%d bytes): set at least that, or 0 for the default of %s", refusal.Size(uintptr(max(0, bytes))), bytes, refusal.Size(uintptr(large)), large, refusal.Size(uintptr(most)))
	}
	manyLarge := min(r.set.Slots, max(1, bytes/4*3/large))
	manySmall := min(r.set.SmallSlots, (bytes-manyLarge*large)/small)
	manyLarge = min(r.set.Slots, (bytes-manySmall*small)/large)
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	r.limit = min(bytes, most)
	for i, n := range [...]int{largeSlots: manyLarge, smallSlots: manySmall} {
		r.classes[i].limit, r.classes[i].wanted = n, n
	}
	r.over.Store(true) // trim finds out
	r.mu.Unlock()
	return r.trim()
}

// trim frees free slots beyond the limit.
func (r *Ring) trim() error {
	if !r.over.Load() {
		return nil
	}
	if _, err := r.pollSlots(); err != nil {
		return err
	}
	var all []error
	for _, s := range r.takeSurplus() {
		all = append(all, r.unlock(s))
	}
	return refusal.Join(all...)
}

// trimLater is trim at the end of a transfer. Close returns its error.
func (r *Ring) trimLater() {
	r.keepError(r.trim())
}

// takeSurplus takes free slots beyond the limit out of the ring, but not their events: see Ring.events.
// A size that a transfer uses keeps one slot.
func (r *Ring) takeSurplus() (surplus []*slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.slots[:0]
	for _, s := range r.slots {
		k := &r.classes[s.class]
		if most := max(k.limit, min(1, k.transfers)); s.state == slotFree && k.have+k.allocating > most {
			k.have--
			surplus, r.events = append(surplus, s), append(r.events, s.event)
			continue
		}
		kept = append(kept, s)
	}
	clear(r.slots[len(kept):])
	r.slots = kept
	over := false
	for i := range r.classes {
		over = over || r.classes[i].have+r.classes[i].allocating > r.classes[i].limit
	}
	r.over.Store(over)
	return surplus
}

// Warm page-locks what one transfer in each direction needs, within the limit, and starts the
// workers. So the first transfer takes no longer than later ones. Between two slots it looks whether
// ctx has ended.
func (r *Ring) Warm(ctx context.Context) error {
	if r.clock == nil {
		r.workers.Start(r.set.Workers, &workers.Job{Work: func() {}})
	}
	for class, most := range [...]int{largeSlots: r.set.Slots, smallSlots: min(r.set.SmallSlots, r.set.SlotsToDevice)} {
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			more, err := r.warmOne(slotClass(class), most)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
	}
	return nil
}

// warmOne makes one slot, unless there are as many as wanted. more reports whether it did.
func (r *Ring) warmOne(class slotClass, most int) (more bool, err error) {
	k := &r.classes[class]
	r.mu.Lock()
	switch {
	case r.closed:
		r.mu.Unlock()
		return false, ErrClosed
	case k.have+k.allocating >= most || !k.mayGrow():
		r.mu.Unlock()
		return false, nil
	}
	k.allocating++
	r.mu.Unlock()
	s, err := r.newSlot(class, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	k.allocating--
	if err != nil {
		return false, fmt.Errorf("slot %d of %d: %w", k.have+1, most, err)
	}
	k.have++
	r.slots = append([]*slot{s}, r.slots...) // those in flight stay last, in their order
	return true, nil
}
