package hostmap

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

func mayWait() error { return nil }

// held counts the holds.
func (m *Map) held() (n int) {
	for i := range m.holds.shards {
		n += len(m.holds.shards[i].all)
	}
	return n
}

// BenchmarkHold measures a hold of goroutines that copy at the same time, beside lookups.
func BenchmarkHold(b *testing.B) {
	m := new(Map)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.First(100, 200)
			id, _ := m.Hold(100, 200, mayWait)
			m.Known(100, 200)
			m.EndHold(id)
		}
	})
}

// TestHold: the last Release waits for holds of the entry's addresses, and only for those. A
// hold waits while the entry is unregistered.
func TestHold(t *testing.T) {
	m := new(Map)
	a := ownerOf(100, 200)
	e := mustClaim(t, m, claim(a), "100-200", "100-200")[0]
	var holds []HoldID
	for _, r := range [][2]uint64{{50, 100}, {190, 300}, {120, 130}, {200, 201}} {
		id, err := m.Hold(r[0], r[1], func() error { return errors.New("must not wait") })
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, id)
	}
	waits, released := make(chan struct{}), make(chan error)
	go func() {
		last, err := m.Release(e, a, func() error { waits <- struct{}{}; return nil })
		if !last {
			err = errors.Join(err, errors.New("not the last owner"))
		}
		released <- err
	}()
	<-waits // for one of the two holds
	held := make(chan HoldID)
	holdWaits := make(chan struct{})
	go func() {
		id, err := m.Hold(150, 160, func() error { holdWaits <- struct{}{}; return nil })
		if err != nil {
			t.Error(err)
		}
		held <- id
	}()
	<-holdWaits // for the release
	m.EndHold(holds[1])
	<-waits
	m.EndHold(holds[2])
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	select {
	case <-held:
		t.Error("the hold did not wait until the entry was unregistered")
	default:
	}
	if !m.Known(150, 160) {
		t.Error("not known before Finish")
	}
	m.Finish(e, true)
	m.EndHold(<-held)
	if m.Known(100, 200) {
		t.Error("known after Finish")
	}
	m.EndHold(holds[0])
	m.EndHold(holds[3])
	if m.held() != 0 {
		t.Errorf("%d holds are left", m.held())
	}
}

// TestHoldRefused: a Release and a Hold that may not wait fail and change nothing.
func TestHoldRefused(t *testing.T) {
	m := new(Map)
	a := ownerOf(100, 200)
	e := mustClaim(t, m, claim(a), "100-200", "100-200")[0]
	refused := errors.New("in a host function")
	no := func() error { return refused }
	id, err := m.Hold(100, 101, no)
	if err != nil {
		t.Fatal(err)
	}
	if last, err := m.Release(e, a, no); last || err != refused || e.change != nil || e.releasing {
		t.Errorf("Release: last %v, %v; want %v", last, err, refused)
	}
	m.EndHold(id)
	if last, err := m.Release(e, a, no); !last || err != nil {
		t.Errorf("Release: last %v, %v", last, err)
	}
	if id, err := m.Hold(150, 300, no); id != 0 || err != refused || m.held() != 0 {
		t.Errorf("Hold: %v, %d holds; want %v", err, m.held(), refused)
	}
	m.Finish(e, false) // the driver refused
	if id, err = m.Hold(150, 300, no); err != nil {
		t.Error(err)
	}
	m.EndHold(id)
}

// TestStarting: First does not find a buffer that is being made.
func TestStarting(t *testing.T) {
	m := new(Map)
	a := ownerOf(100, 200)
	a.Starting.Store(true)
	mustClaim(t, m, claim(a), "100-200", "100-200")
	if got, want := m.First(150, 250), (Run{End: 200, Known: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	a.Starting.Store(false)
	if got := m.First(150, 250); got.Owner != a {
		t.Errorf("got %+v", got)
	}
}

// TestHoldMany: while a byte is held it does not become unregistered.
func TestHoldMany(t *testing.T) {
	m := new(Map)
	var registered atomic.Bool
	var w sync.WaitGroup
	rounds := 2000
	if testing.Short() {
		rounds /= 4
	}
	for seed := range 3 {
		w.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			for range rounds {
				at := 100 + random.Uint64N(100)
				id, err := m.Hold(at, at+1+random.Uint64N(10), mayWait)
				if err != nil {
					t.Error(err)
				}
				before := registered.Load()
				if before && !registered.Load() {
					t.Error("unregistered during a hold")
				}
				m.EndHold(id)
			}
		})
	}
	for range rounds {
		a := ownerOf(90, 250)
		c := claim(a)
		all, _, err := m.Claim(c)
		if err != nil {
			t.Fatal(err)
		}
		registered.Store(true)
		m.Finish(all[0], false)
		if last, err := m.Release(all[0], a, mayWait); !last || err != nil {
			t.Fatal(last, err)
		}
		registered.Store(false)
		m.Finish(all[0], true)
	}
	w.Wait()
}

// TestHoldAll: of two goroutines that hold the same two ranges in different orders, while
// both entries are unregistered, neither waits for the other. A Release waits for each
// range of a hold.
func TestHoldAll(t *testing.T) {
	m := new(Map)
	x, y := ownerOf(100, 200), ownerOf(300, 400)
	ex, ey := mustClaim(t, m, claim(x), "100-200", "100-200")[0], mustClaim(t, m, claim(y), "300-400", "300-400")[0]
	release := func(e *Entry, o *Owner) (waits chan struct{}, done chan error) {
		waits, done = make(chan struct{}, 10), make(chan error, 1)
		go func() {
			_, err := m.Release(e, o, func() error { waits <- struct{}{}; return nil })
			done <- err
		}()
		return waits, done
	}
	first, err := m.Hold(150, 151, mayWait)
	if err != nil {
		t.Fatal(err)
	}
	waits, releasedX := release(ex, x)
	<-waits // for first
	held := make(chan HoldID)
	holdWaits := make(chan struct{})
	go func() {
		id, err := m.HoldAll([]Range{{390, 401}, {50, 101}}, func() error { holdWaits <- struct{}{}; return nil })
		if err != nil {
			t.Error(err)
		}
		held <- id
	}()
	<-holdWaits // for the release of x, and holds nothing of y meanwhile
	_, releasedY := release(ey, y)
	if err := <-releasedY; err != nil {
		t.Fatal(err)
	}
	m.EndHold(first)
	if err := <-releasedX; err != nil {
		t.Fatal(err)
	}
	m.Finish(ex, true)
	<-holdWaits // for the release of y
	m.Finish(ey, false)
	id := <-held
	waits, releasedY = release(ey, y)
	<-waits
	m.EndHold(id)
	if err := <-releasedY; err != nil {
		t.Fatal(err)
	}
	m.Finish(ey, true)
	if m.held() != 0 {
		t.Errorf("%d holds are left", m.held())
	}
	refused := errors.New("in a host function")
	e := mustClaim(t, m, claim(x), "100-200", "100-200")[0]
	if last, err := m.Release(e, x, mayWait); !last || err != nil {
		t.Fatal(last, err)
	}
	if id, err := m.HoldAll([]Range{{1, 2}, {150, 300}}, func() error { return refused }); id != 0 || err != refused || m.held() != 0 {
		t.Errorf("HoldAll: %v, %d holds; want %v", err, m.held(), refused)
	}
	m.Finish(e, true)
}
