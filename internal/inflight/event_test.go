package inflight

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestEvent: an event stands for what was in the stream when it was recorded last, as
// far as that is known.
func TestEvent(t *testing.T) {
	var e Event
	a, b := issued(5), issued(9)
	is := func(what string, s *testStream, before uint64) {
		t.Helper()
		m := e.StandsFor()
		if s == nil {
			if m.Stream() != nil {
				t.Errorf("%s: stands for %d of a stream, want nothing known", what, m.before)
			}
			return
		}
		if m.Stream() != &s.Stream || m.before != before {
			t.Errorf("%s: stands for %d of the stream %p, want %d of %p", what, m.before, m.stream, before, s)
		}
	}
	if is("new", nil, 0); e.Recorded() {
		t.Error("a new event was recorded")
	}
	r, ok := e.BeginRecord(&a.Stream)
	if is("during the Record", nil, 0); !ok || !e.Recorded() {
		t.Error("not recorded")
	}
	queue(&a.Stream, Read, false) // after the Record
	if e.EndRecord(r, &a.Stream) {
		t.Error("an open event has a last use")
	}
	is("recorded", a, 5)
	record(&e, b, true)
	is("recorded elsewhere", b, 9)
	record(&e, a, false)
	is("not recorded by the driver", nil, 0)
	record(&e, a, true)
	is("recorded again", a, 6)
	for _, last := range []int{0, 1} { // of two at once only the driver knows which came last
		var r [2]Record
		in := [2]*Stream{&a.Stream, &b.Stream}
		r[0], _ = e.BeginRecord(in[0])
		r[1], _ = e.BeginRecord(in[1])
		e.EndRecord(r[1-last], in[1-last])
		is("one of two has ended", nil, 0)
		third, _ := e.BeginRecord(&a.Stream)
		e.EndRecord(r[last], in[last])
		e.EndRecord(third, &a.Stream)
		is("three at once", nil, 0)
		record(&e, b, true)
		is("one after three", b, 9)
	}
	if v := e.word.Load() & (oneRecord - 1); v != 0 {
		t.Errorf("word %#x after all uses have ended", v)
	}
}

// TestPassed: an event that has passed completes what it stood for when the driver was
// asked, unless it was recorded again.
func TestPassed(t *testing.T) {
	var e Event
	a, b := issued(5), issued(9)
	e.Passed(e.StandsFor())
	record(&e, a, true)
	m := e.StandsFor()
	r, _ := e.BeginRecord(&b.Stream)
	if e.Passed(m); a.Completed(1) {
		t.Error("completed although the event is being recorded")
	}
	e.EndRecord(r, &b.Stream)
	if e.Passed(m); a.Completed(1) {
		t.Error("completed although the event was recorded again")
	}
	if e.Passed(e.StandsFor()); a.Completed(1) || !b.Completed(9) || b.Completed(10) {
		t.Error("not completed, or too much")
	}
}

// TestEventUsers: a closed event is destroyed by its last user, and nothing enters it.
func TestEventUsers(t *testing.T) {
	var unused Event
	if !unused.Close() || unused.Close() || unused.Enter() {
		t.Error("an event without users is not closed at once, or twice")
	}
	var e Event
	s := issued(1)
	if !e.Enter() || e.Leave() || !e.Enter() {
		t.Fatal("cannot enter")
	}
	r, _ := e.BeginRecord(&s.Stream)
	for range 2 {
		if e.Close() {
			t.Error("closed at once although it is used")
		}
	}
	if _, ok := e.BeginRecord(&s.Stream); ok || e.Enter() {
		t.Error("a closed event was entered")
	}
	if e.Leave() {
		t.Error("a use is the last although a Record is in progress")
	}
	if !e.EndRecord(r, &s.Stream) {
		t.Error("the last use is not reported")
	}
	if m := e.StandsFor(); m.Stream() != &s.Stream {
		t.Error("a closed event does not stand for what was recorded")
	}
}

// TestEventCapacity: an event takes as many users and Records at once as a large batch
// has. One more waits, and does not run into other fields.
func TestEventCapacity(t *testing.T) {
	const records = 4095
	var e Event
	s := issued(1)
	begin := func() Record {
		r, ok := e.BeginRecord(&s.Stream)
		if !ok {
			t.Error("cannot record")
		}
		return r
	}
	enter := func() Record {
		if !e.Enter() {
			t.Error("cannot enter")
		}
		return Record{}
	}
	// waits checks that f waits until leave is called.
	waits := func(what string, f func() Record, leave func()) (r Record) {
		t.Helper()
		full := e.word.Load()
		var done sync.WaitGroup
		var entered atomic.Bool
		done.Go(func() {
			r = f()
			entered.Store(true)
		})
		for range 100 {
			runtime.Gosched()
		}
		if entered.Load() || e.word.Load() != full {
			t.Errorf("%s: entered %v, word %#x, want %#x", what, entered.Load(), e.word.Load(), full)
		}
		leave()
		done.Wait()
		return r
	}
	var all []Record
	for range records {
		all = append(all, begin())
	}
	all[0] = waits("one Record too many", begin, func() { e.EndRecord(all[0], &s.Stream) })
	for range 1<<20 - 1 - records {
		e.Enter()
	}
	if e.word.Load()&(eventUsers|eventRecorders) != eventUsers|eventRecorders {
		t.Fatalf("word %#x: not full", e.word.Load())
	}
	waits("one user too many", enter, func() { e.Leave() })
	e.EndRecord(all[0], &s.Stream)
	e.Enter()
	all[0] = waits("one Record with too many users", begin, func() { e.Leave() })
	if m := e.StandsFor(); m.Stream() != nil {
		t.Error("known during Records")
	}
	for _, r := range all {
		e.EndRecord(r, &s.Stream)
	}
	if v := e.word.Load(); v>>recordShift != records+2 || v&(eventRecorders|readFlag|eventClosed) != 0 || v&eventUsers != 1<<20-1-records {
		t.Errorf("word %#x", v)
	}
}

// TestRecordNumbersWrap: after the last number comes 1, because 0 is an event that was
// never recorded.
func TestRecordNumbersWrap(t *testing.T) {
	var e Event
	s := issued(3)
	e.Enter()
	e.word.Or(1<<64 - oneRecord)
	r, _ := e.BeginRecord(&s.Stream)
	if r.number != 1 || !e.Recorded() {
		t.Errorf("after the last number came %d", r.number)
	}
	if e.EndRecord(r, &s.Stream); e.StandsFor().Stream() != &s.Stream {
		t.Error("not known what it stands for")
	}
	if v := e.word.Load(); v != oneRecord+1 {
		t.Errorf("word %#x, want one Record and one user", v)
	}
}

// TestEventStandsFor: what an event stands for is whole, or not known, while it is
// recorded in several streams and read by several goroutines.
func TestEventStandsFor(t *testing.T) {
	var e Event
	streams := []*testStream{issued(1 << 20), issued(2 << 30)}
	var recorders, readers sync.WaitGroup
	var stop atomic.Bool
	known := [2]atomic.Int64{}
	for _, s := range streams {
		recorders.Go(func() {
			for i := range 50_000 {
				record(&e, s, true)
				if i%64 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for i := range known {
		readers.Go(func() {
			for !stop.Load() || known[i].Load() == 0 {
				m := e.StandsFor()
				if m.stream == nil {
					continue
				}
				known[i].Add(1)
				if m.before != m.stream.Issued() {
					t.Errorf("torn: %d of a stream with %d operations", m.before, m.stream.Issued())
					return
				}
			}
		})
	}
	recorders.Wait()
	record(&e, streams[0], true) // known, at last
	stop.Store(true)
	readers.Wait()
	if v := e.word.Load(); v&(oneRecord-1) != 0 || v>>recordShift != 100_001 {
		t.Errorf("word %#x at the end: users, or %d Records, want 100001", v, v>>recordShift)
	}
}

// TestStandsForLatest: a reader never gets an earlier Record than one that had ended
// before.
func TestStandsForLatest(t *testing.T) {
	var e Event
	s := newTestStream(nil)
	var latest atomic.Uint64
	var recorder, readers sync.WaitGroup
	var stop atomic.Bool
	recorder.Go(func() {
		for n := uint64(1); n <= 50_000; n++ {
			s.word.Store(n * oneNumber)
			record(&e, s, true)
			latest.Store(n)
		}
	})
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				want := latest.Load()
				if m := e.StandsFor(); m.stream != nil && m.before < want {
					t.Errorf("stands for %d after a Record at %d", m.before, want)
					return
				}
			}
		})
	}
	recorder.Wait()
	stop.Store(true)
	readers.Wait()
}

// TestSharedEvent: the end of a shared event completes nothing, because the driver may have been
// asked about a record that is not known here.
func TestSharedEvent(t *testing.T) {
	var e Event
	a := issued(5)
	record(&e, a, true)
	before := e.StandsFor()
	e.Share()
	for _, m := range []Meaning{before, e.StandsFor()} {
		if e.Passed(m); a.Completed(1) {
			t.Errorf("%+v completed an operation", m)
		}
	}
	if !e.Shared() {
		t.Error("not shared")
	}
}
