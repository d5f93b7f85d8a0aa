package ferry

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// softStream is a software GPU and a stream of it, closed when the test ends.
func softStream(t *testing.T) (*GPU, *Stream) {
	t.Helper()
	g, err := Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.NewStream(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), g.Close()); err != nil {
			t.Error(err)
		}
	})
	return g, s
}

// TestQueueState follows the state of a queue through its uses.
func TestQueueState(t *testing.T) {
	q := newQueue(nil, 0, 1)
	is := func(what string, want uint64) {
		t.Helper()
		if got := q.state.Load(); got != want {
			t.Errorf("%s: state %#x, want %#x", what, got, want)
		}
	}
	if !q.enter() || q.finish(true) != 1 {
		t.Error("the first operation has another number")
	}
	is("an operation", 1<<queueBits)
	if !q.call() || q.next() != 2 {
		t.Error("the next has another number")
	}
	q.called(notQueued)
	is("a call that queued nothing", 1<<queueBits)
	if !q.call() || q.call() {
		t.Error("there is one call at a time")
	}
	if !q.enter() || q.finish(true) != 2 || q.next() != 3 {
		t.Error("others use the queue meanwhile")
	}
	q.called(queued)
	is("a call", 3<<queueBits)
	q.pass(3)
	if q.enter(); !q.alone() {
		t.Error("one is alone")
	}
	q.call()
	if q.alone() {
		t.Error("two are not alone")
	}
	q.called(notQueued)
	q.leave()

	q.call()
	swept := make(chan bool)
	go func() { q.sweep(); close(swept) }()
	for q.state.Load()&queueSwept == 0 {
		runtime.Gosched()
	}
	q.called(queued)
	<-swept
	is("a sweep", 4<<queueBits)
	q.sweep()
	is("a sweep of nothing", 4<<queueBits)
	q.state.Or(queueClosed)
	if q.call() || q.enter() {
		t.Error("a closed queue was entered")
	}
}

// TestLaneLast: what conflicts with an access, of operations of either kind.
func TestLaneLast(t *testing.T) {
	var l lane
	l.words[reads].Store(5<<laneBits | 3)
	l.words[writes].Store(4 << laneBits)
	for _, c := range []struct {
		note      access
		seq       uint64
		read, any uint64
	}{{reads, 3, 4, 5}, {writes, 2, 4, 5}, {reads, 9, 4, 9}, {writes, 7, 7, 9}, {writes, 10, 10, 10}} {
		l.note(c.note, c.seq)
		if read, any := l.latest(reads), l.latest(writes); read != c.read || any != c.any {
			t.Errorf("%v %d: latest %d and %d, want %d and %d", c.note, c.seq, read, any, c.read, c.any)
		}
	}
}

// TestLend: a lane that is lent stays with its queue until the call is over, while
// others look for lanes of queues that are done.
func TestLend(t *testing.T) {
	var f flight
	f.init()
	var wrong atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		q := newQueue(nil, 0, i+1)
		all.Go(func() {
			for k := range 20000 {
				if !q.call() {
					t.Error("nobody else calls")
					return
				}
				l, seq := f.lend(q), q.next()
				l.note(writes, seq)
				if l.owner() != q || l.last(writes) != seq {
					wrong.Add(1)
				}
				q.called(queued)
				q.pass(q.issued()) // so that others may have the lane
				if k%16 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d lanes were given away while they were lent", n)
	}
	if n := len(*f.lanes.Load()); n > 4 {
		t.Errorf("%d lanes for 4 queues", n)
	}
}

// TestQueueLeft: whatever an operation comes to, it leaves the queue as it was, but
// for the number of those that were queued.
func TestQueueLeft(t *testing.T) {
	g, s := softStream(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	host, err := AllocHost[byte](g, 64, nil)
	must(err)
	defer host.Close()
	device, err := Alloc[byte](g, 64)
	must(err)
	defer device.Close()
	gone, err := Alloc[byte](g, 64)
	must(err)
	must(gone.Close())
	e, err := g.NewEvent(nil)
	must(err)
	defer e.Close()
	m, err := g.Load([]byte(".version 6.3\n.target sm_52\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"))
	must(err)
	defer m.Close()
	k, err := m.Kernel("k")
	must(err)
	var b, bad Batch
	must(Copy[byte](&b, device, host))
	must(Copy[byte](&bad, gone, host))
	var was Batch // it could be submitted
	going, err := Alloc[byte](g, 64)
	must(err)
	must(Copy[byte](&was, going, host))
	must(errors.Join(s.Submit(&was), s.Submit(&was), going.Close()))
	for _, c := range []struct {
		what   string
		f      func() error
		queued bool
	}{
		{"copy in", func() error { return Copy[byte](s, device, host) }, true},
		{"copy out", func() error { return Copy[byte](s, host, device) }, true},
		{"copy to a closed buffer", func() error { return Copy[byte](s, gone, host) }, false},
		{"copy of other lengths", func() error { return Copy[byte](s, device, host.Range(0, 3)) }, false},
		{"launch", func() error { return s.Launch(k, Grid(1, 1), device) }, true},
		{"launch with a closed buffer", func() error { return s.Launch(k, Grid(1, 1), gone) }, false},
		{"launch of nothing", func() error { return s.Launch(k, Shape{}, device) }, false},
		{"launch of another kind of argument", func() error { return s.Launch(k, Grid(1, 1), uint64(0)) }, true},
		{"launch of a wrong argument", func() error { return s.Launch(k, Grid(1, 1), float32(0)) }, false},
		{"record", func() error { return s.Record(e) }, false}, // it is no operation that anybody waits for
		{"submit", func() error { return s.Submit(&b) }, true},
		{"submit what worked before", func() error { return s.Submit(&was) }, false},
		{"submit what fails", func() error { return s.Submit(&bad) }, false},
	} {
		for range 3 { // the first time much is found out
			before := s.q.issued()
			err := c.f()
			if want := before + map[bool]uint64{true: 1}[c.queued]; s.q.state.Load() != want<<queueBits {
				t.Errorf("%s: %d operations, then state %#x", c.what, before, s.q.state.Load())
			}
			if failed := err != nil; failed == c.queued && c.what != "record" {
				t.Errorf("%s: %v", c.what, err)
			}
		}
	}
}

// TestEventStandsFor: what an event stands for is whole, or not known, while it is
// recorded from everywhere.
func TestEventStandsFor(t *testing.T) {
	g, _ := softStream(t)
	e, _ := g.NewEvent(nil)
	defer e.Close()
	qs := []*queue{newQueue(g, 0, 1), newQueue(g, 0, 2)}
	for i, q := range qs {
		q.state.Store(uint64(i+1) << 30)
	}
	var all sync.WaitGroup
	stop := make(chan bool)
	for _, q := range qs {
		all.Go(func() {
			for range 100000 {
				r, err := recording{e.beginAlone(q), q.issued(), true}, error(nil)
				if r.number == 0 {
					r, err = e.begin(q)
				}
				if err != nil {
					t.Error(err)
					return
				}
				e.end(q, r, nil)
			}
		})
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if k := e.standsFor(); k.q != nil {
				if k.seq != k.q.issued() {
					t.Errorf("torn: %v %d", k.q.number, k.seq)
					return
				}
			}
		}
	}()
	all.Wait()
	close(stop)
	<-done
	e.state.Store(eventRecords) // after the last number comes the first
	if e.beginAlone(qs[0]) != 0 {
		t.Error("the last number has a next one")
	}
	r, _ := e.begin(qs[0])
	if r.number != 1 || e.version() != 1 {
		t.Errorf("after the last number came %d, %d", r.number, e.version())
	}
	if e.standsFor().q != nil {
		t.Error("known during a Record")
	}
	e.end(qs[0], r, nil)
	if k := e.standsFor(); k.q != qs[0] {
		t.Errorf("%+v", k)
	}
	for _, last := range []int{0, 1} { // two at once: the driver alone knows which came last
		r := [2]recording{}
		for i := range r {
			r[i], _ = e.begin(qs[i])
		}
		e.end(qs[1-last], r[1-last], nil)
		e.end(qs[last], r[last], nil)
		if k := e.standsFor(); k.q != nil {
			t.Errorf("known after two at once: %+v", k)
		}
	}
}

// TestBatchEventsAgain: the events of a batch that comes again are used as at first,
// and no longer than that, whatever becomes of the others.
func TestBatchEventsAgain(t *testing.T) {
	g, s := softStream(t)
	first, _ := g.NewEvent(nil)
	twice, _ := g.NewEvent(nil)
	waited, _ := g.NewEvent(nil)
	d, _ := Alloc[byte](g, 64)
	defer d.Close()
	var b Batch
	_ = b.Record(first)
	_ = Fill(&b, d, 1)
	_ = b.WaitEvent(waited)
	_ = b.Record(twice)
	_ = b.Record(twice)
	for i := range 4 {
		if err := s.Submit(&b); err != nil || !b.last.known && i > 0 {
			t.Fatalf("%v; prepared to come again: %v", err, b.last.known)
		}
		if k := first.standsFor(); k.q != s.q || k.seq != s.q.issued()-1 {
			t.Errorf("submission %d: the first event stands for %d of %v, issued %d", i, k.seq, k.q, s.q.issued())
		}
		if k := twice.standsFor(); k.q != nil {
			t.Errorf("submission %d: known what an event stands for that was recorded twice: %+v", i, k)
		}
	}
	idle := func(what string, events ...*Event) {
		t.Helper()
		for i, e := range events {
			if v := e.state.Load(); v&(eventUsers|eventRecorders) != 0 {
				t.Errorf("%s: event %d is in use: state %#x", what, i, v)
			}
		}
	}
	idle("after four", first, waited, twice)
	if n := twice.version(); n != 8 {
		t.Errorf("recorded %d times, want 8", n)
	}
	for _, e := range []*Event{twice, waited, first} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		before := s.q.state.Load()
		if err := s.Submit(&b); !errors.Is(err, ErrClosed) {
			t.Errorf("with a closed event: %v", err)
		}
		if s.q.state.Load() != before {
			t.Errorf("state of the stream %#x, before %#x", s.q.state.Load(), before)
		}
		idle("a closed event", first, waited, twice)
	}
}

// TestStreamAfterCapture: what is queued goes straight to the stream, but in captures.
func TestStreamAfterCapture(t *testing.T) {
	g, s := softStream(t)
	for range 2 {
		if s.runs() != s.q {
			t.Error("not before it")
		}
		graph, err := s.Capture(func(s *Stream) error {
			if s.runs() != nil {
				t.Error("in it")
			}
			return nil
		})
		if err := errors.Join(err, graph.Close()); err != nil {
			t.Error(err)
		}
	}
	legacy := g.DefaultStream()
	if legacy.runs() != legacy.q {
		t.Error("not to the default stream")
	}
	if err := errors.Join(s.Close(), g.Close()); err != nil || legacy.runs() != nil {
		t.Errorf("to that of a GPU that is gone; %v", err)
	}
}

// partDriver makes so many calls of a batch and fails.
type partDriver struct {
	cu.Driver
	done int // less than 0: it makes all
}

func (d *partDriver) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	if d.done < 0 {
		return d.Driver.Submit(ctx, b)
	}
	return d.done, cu.ErrorOutOfMemory
}

// TestBatchFailsAgain: of a batch that comes again and is refused in part, what was
// queued is in flight, and nothing is known of its events.
func TestBatchFailsAgain(t *testing.T) {
	g, s := softStream(t)
	d := &partDriver{g.driver, -1}
	g.driver = d
	e, _ := g.NewEvent(nil)
	defer e.Close()
	x, _ := Alloc[float32](g, 64)
	defer x.Close()
	m, err := g.Load([]byte(kernels.PTX))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	k, _ := m.Kernel("increment")
	var b Batch
	_ = Fill(&b, x, 1)
	_ = b.Launch(k, Grid(64, 64), x, uint64(64))
	_ = b.Record(e)
	lane := func() uint64 { return x.a.find(s.q).last(writes) }
	for _, c := range []struct {
		done int // calls that the driver makes, -1 for all
		last *Kernel
	}{{-1, k}, {-1, k}, {0, nil}, {1, nil}, {2, k}, {-1, k}} {
		before := s.q.issued()
		s.q.last.Store(nil)
		d.done = c.done
		if err := s.Submit(&b); c.done < 0 && err != nil || c.done >= 0 && !errors.Is(err, cu.ErrorOutOfMemory) {
			t.Errorf("%d done: %v", c.done, err)
		}
		want := before
		if c.done != 0 {
			want++
		}
		if got := s.q.issued(); got != want || lane() != want {
			t.Errorf("%d done: %d operations, and the buffer knows of %d, want %d", c.done, got, lane(), want)
		}
		if s.q.last.Load() != c.last {
			t.Errorf("%d done: %v was launched last, want %v", c.done, s.q.last.Load(), c.last)
		}
		if known := e.standsFor(); (known.q != nil) != (c.done < 0) {
			t.Errorf("%d done: the event stands for %+v", c.done, known)
		}
	}
	// Another stream takes the lane of one that is done.
	other, _ := g.NewStream(nil)
	defer other.Close()
	y, _ := AllocHost[float32](g, 64, nil)
	defer y.Close()
	err = errors.Join(s.Wait(context.Background()), Copy[float32](other, x, y), other.Wait(context.Background()))
	taken := x.a.first.q.Load() == other.q
	if err = errors.Join(err, s.Submit(&b)); err != nil || !taken || lane() != s.q.issued() {
		t.Errorf("%v; the buffer knows of %d operations, want %d", err, lane(), s.q.issued())
	}
}

// TestWholeLines: what every call looks at is of sizes that the allocator begins at
// lines of the cache.
func TestWholeLines(t *testing.T) {
	for typ, most := range map[reflect.Type]uintptr{
		reflect.TypeFor[region](): 64, reflect.TypeFor[queue](): 256, reflect.TypeFor[allocation](): 320, reflect.TypeFor[GPU](): 512,
	} {
		if n := typ.Size(); strconv.IntSize == 64 && (n > most || n <= most-16) {
			t.Errorf("%v has %d bytes: not of the size class of %d", typ, n, most)
		}
	}
}
