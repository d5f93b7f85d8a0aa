package hostmap

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// registrar is a driver that refuses what hardware refuses. It must get exactly
// the entries that are not registered, or are.
type registrar struct {
	mu  sync.Mutex
	all map[uint64]uint64 // ends by start
}

func (d *registrar) register(e *Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for start, end := range d.all {
		if start < e.End && e.Start < end {
			return fmt.Errorf("registered %d-%d, which shares bytes with %d-%d", e.Start, e.End, start, end)
		}
	}
	d.all[e.Start] = e.End
	return nil
}

func (d *registrar) unregister(e *Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end, ok := d.all[e.Start]; !ok || end != e.End {
		return fmt.Errorf("unregistered %d-%d, which is not registered", e.Start, e.End)
	}
	delete(d.all, e.Start)
	return nil
}

// covers reports whether all bytes of an owner are registered.
func (d *registrar) covers(o *Owner) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := uint64(0)
	for start, end := range d.all {
		if from, to := max(start, o.Start), min(end, o.End); from < to {
			n += to - from
		}
	}
	return n == o.End-o.Start
}

// TestConcurrent: many goroutines register and unregister ranges that overlap, and the
// driver is never asked for two registrations of one byte. Some registrations fail.
func TestConcurrent(t *testing.T) {
	m := new(Map)
	d := &registrar{all: map[uint64]uint64{}}
	var all sync.WaitGroup
	seed := rand.Uint64()
	for i := range uint64(6) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, i))
			for range 400 {
				if err := registerOnce(random, m, d); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
			}
		})
	}
	all.Wait()
	if len(m.entries) != 0 || len(d.all) != 0 {
		t.Errorf("left: %s, registered %v", ranges(m.entries), d.all)
	}
}

// registerOnce registers a random range, finds its owner, and unregisters it.
func registerOnce(random *rand.Rand, m *Map, d *registrar) error {
	start := random.Uint64N(100)
	o := ownerOf(start, start+1+random.Uint64N(60))
	c := claim(o)
	c.Unit = []uint64{0, 20}[random.IntN(2)]
	c.MayWait = func() error { return nil }
	entries, fresh, err := m.Claim(c)
	if err != nil {
		return err
	}
	refused := len(fresh)
	if random.IntN(4) == 0 {
		refused = random.IntN(len(fresh) + 1) // and those after it
	}
	for i, e := range fresh {
		runtime.Gosched()
		if i >= refused {
			entries = slices.DeleteFunc(entries, func(x *Entry) bool { return x == e })
		} else if err := d.register(e); err != nil {
			return err
		}
		m.Finish(e, i >= refused)
	}
	if refused == len(fresh) {
		if !d.covers(o) {
			return fmt.Errorf("%v is not registered", o.Of)
		}
		if run := m.First(o.Start, o.End); run.Owner == nil {
			return fmt.Errorf("%v has no owner: %+v", o.Of, run)
		}
		m.Sharing(o, o.Start, o.End)
	}
	o.Of.(*buffer).closed.Store(true)
	for _, e := range entries {
		if releaseEntry(m, e, o) {
			runtime.Gosched()
			if err := d.unregister(e); err != nil {
				return err
			}
			m.Finish(e, true)
		}
	}
	return nil
}
