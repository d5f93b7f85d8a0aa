package hostmap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"weak"
)

// reference knows owners by bytes.
type reference struct {
	owners []*Owner
	has    map[*Owner][]*Entry // nil for memory that the driver made
	lost   map[*Owner]bool
}

// known reports whether the driver knows a byte.
func (r *reference) known(m *Map, at uint64) bool {
	return slices.ContainsFunc(m.entries, func(e *Entry) bool { return e.Start <= at && at < e.End })
}

// at is the owners of a byte: open ones, and whether one was lost.
func (r *reference) at(at uint64) (open []*Owner, lost bool) {
	for _, o := range r.owners {
		switch {
		case at < o.Start || o.End <= at:
		case r.lost[o]:
			lost = true
		case !o.Of.Closed():
			open = append(open, o)
		}
	}
	return open, lost
}

// checkFirst checks what First says of a range, byte by byte.
func (r *reference) checkFirst(m *Map, start, end uint64) error {
	run := m.First(start, end)
	open, lost := r.at(start)
	furthest := uint64(0)
	for _, o := range open {
		furthest = max(furthest, o.End)
	}
	switch {
	case run.End <= start || run.End > end:
		return fmt.Errorf("end %d", run.End)
	case run.Known != r.known(m, start):
		return fmt.Errorf("known %v", run.Known)
	case run.Owner != nil && (!slices.Contains(open, run.Owner) || run.End != min(end, furthest) || run.Owner.End != furthest):
		return fmt.Errorf("owner %v to %d, want one to %d", run.Owner.Of, run.End, furthest)
	case run.Owner == nil && len(open) > 0:
		return fmt.Errorf("no owner, want %v", open[0].Of)
	case run.Lost != lost:
		return fmt.Errorf("lost %v", run.Lost)
	case !run.Known && run.End < end && !r.known(m, run.End):
		return fmt.Errorf("the run goes on after %d", run.End)
	}
	for at := start; at < run.End; at++ {
		if open, _ := r.at(at); r.known(m, at) != run.Known || run.Owner == nil && len(open) > 0 {
			return fmt.Errorf("byte %d: known %v, owners %d", at, r.known(m, at), len(open))
		}
	}
	return nil
}

// checkSharing checks what Sharing says.
func (r *reference) checkSharing(m *Map, o *Owner, start, end uint64) error {
	got := m.Sharing(o, start, end)
	for _, x := range r.owners {
		want := x != o && !r.lost[x] && x.Start < end && start < x.End
		if n := len(slices.DeleteFunc(slices.Clone(got), func(y *Owner) bool { return y != x })); n > 1 || (n == 1) != want {
			return fmt.Errorf("%v is listed %d times, want %v", x.Of, n, want)
		}
	}
	return nil
}

// checkEntries checks that entries rise, do not overlap, and cover what owners have.
func (r *reference) checkEntries(m *Map) error {
	for i, e := range m.entries {
		if e.Start >= e.End || i > 0 && m.entries[i-1].End > e.Start || e.change != nil {
			return fmt.Errorf("entries %s", ranges(m.entries))
		}
	}
	for _, o := range r.owners {
		for at := o.Start; at < o.End; at++ {
			if !r.known(m, at) {
				return fmt.Errorf("byte %d of %v is not known", at, o.Of)
			}
		}
	}
	return nil
}

// TestRandom compares a Map with the reference while buffers of all kinds come, overlap,
// close, get lost and go.
func TestRandom(t *testing.T) {
	for range 60 {
		seed := rand.Uint64()
		if err := randomMap(rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func randomMap(random *rand.Rand) error {
	const size = 200
	m := new(Map)
	r := &reference{has: map[*Owner][]*Entry{}, lost: map[*Owner]bool{}}
	randomRange := func() (start, end uint64) {
		start = random.Uint64N(size - 1)
		return start, start + 1 + random.Uint64N(min(60, size-start))
	}
	for step := range 80 {
		start, end := randomRange()
		o := ownerOf(start, end)
		var err error
		switch n := random.IntN(10); {
		case n == 0 && len(m.within(start, end)) == 0:
			m.Add(o)
			r.owners, r.has[o] = append(r.owners, o), nil
		case n < 4:
			c := claim(o)
			c.Unit = []uint64{0, 16, 50}[random.IntN(3)]
			c.Admit = func(e *Entry) error {
				if e.Registered {
					return nil
				}
				return errors.New("no")
			}
			var all, fresh []*Entry
			if all, fresh, err = m.Claim(c); err != nil {
				err = nil
				break
			}
			gone := random.IntN(8) == 0 // the driver refuses
			for _, e := range fresh {
				m.Finish(e, gone)
			}
			if gone {
				all = slices.DeleteFunc(all, func(e *Entry) bool { return slices.Contains(fresh, e) })
				err = r.release(m, o, all)
				break
			}
			r.owners, r.has[o] = append(r.owners, o), all
		case n < 6 && len(r.owners) > 0:
			o := r.owners[random.IntN(len(r.owners))]
			if r.lost[o] {
				break
			}
			all, registered := r.has[o], r.has[o] != nil
			r.owners = slices.DeleteFunc(r.owners, func(x *Owner) bool { return x == o })
			delete(r.has, o)
			if registered {
				err = r.release(m, o, all)
			} else {
				m.Remove(o)
			}
		case n == 6 && len(r.owners) > 0:
			r.owners[random.IntN(len(r.owners))].Of.(*buffer).closed.Store(true)
		case n == 7 && len(r.owners) > 0:
			r.lose(m, r.owners[random.IntN(len(r.owners))])
		}
		if err == nil {
			err = r.checkEntries(m)
		}
		for range 5 {
			start, end := randomRange()
			if err == nil {
				err = r.checkFirst(m, start, end)
			}
			if err == nil && len(r.owners) > 0 {
				err = r.checkSharing(m, r.owners[random.IntN(len(r.owners))], start, end)
			}
			if err != nil {
				return fmt.Errorf("step %d, range %d-%d: %w", step, start, end, err)
			}
		}
	}
	return nil
}

// release releases entries. Only an entry that no other owner has, not even a lost one,
// may be the caller's to unregister.
func (r *reference) release(m *Map, o *Owner, entries []*Entry) error {
	for _, e := range entries {
		others := slices.ContainsFunc(r.owners, func(x *Owner) bool { return x != o && slices.Contains(r.has[x], e) })
		last := releaseEntry(m, e, o)
		if last {
			m.Finish(e, true)
		}
		if last == others {
			return fmt.Errorf("entry %d-%d: last %v, others %v", e.Start, e.End, last, others)
		}
	}
	return nil
}

// lose is what the garbage collector does to an owner that the program lost.
func (r *reference) lose(m *Map, o *Owner) {
	if r.lost[o] {
		return
	}
	r.lost[o] = true
	o.part.owner = weak.Pointer[Owner]{}
}
