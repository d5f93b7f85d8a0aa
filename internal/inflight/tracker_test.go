package inflight

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestUseLatest: which operations conflict with an access.
func TestUseLatest(t *testing.T) {
	var u Use
	u.last[Read].Store(3)
	u.last[Write].Store(4)
	for _, c := range []struct {
		note      Access
		number    uint64
		read, any uint64
	}{{Read, 3, 4, 4}, {Write, 2, 4, 4}, {Read, 9, 4, 9}, {Write, 7, 7, 9}, {Write, 10, 10, 10}} {
		u.Record(c.note, c.number)
		if read, any := u.latest(Read), u.latest(Write); read != c.read || any != c.any {
			t.Errorf("note %v %d: latest %d and %d, want %d and %d", c.note, c.number, read, any, c.read, c.any)
		}
	}
}

// TestUseOf: a stream keeps its use until it is done with it. Then another may have it,
// without what was noted there.
func TestUseOf(t *testing.T) {
	x := newTracker()
	a, b, c := newTestStream(nil), newTestStream(nil), newTestStream(nil)
	use := func(s *testStream) *Use {
		s.Enter()
		defer s.Leave()
		return x.UseOf(&s.Stream)
	}
	first := use(a)
	if first != &x.first || use(a) != first {
		t.Fatal("the first stream does not get the first use, or not again")
	}
	queue(&a.Stream, Read, true, x)
	queue(&a.Stream, Write, true, x)
	second := use(b)
	if second == first || use(b) != second || use(a) != first {
		t.Error("the use of a busy stream was given away, or a use is not found again")
	}
	queue(&b.Stream, Read, false, x)
	a.Complete(2)
	a.BeginShort()
	if third := use(c); third == first || third == second {
		t.Error("the use of a stream that is in use was given away")
	} else if third.stream.Store(nil); use(c) != third { // as if it was never used
		t.Error("a use without a stream is not taken")
	}
	a.EndShort(false)
	c.Complete(9)
	queue(&c.Stream, Write, false, x)
	d := newTestStream(nil)
	if use(d) != first {
		t.Error("the use of a stream that is done was not taken")
	}
	if first.last[Read].Load() != 0 || first.last[Write].Load() != 0 {
		t.Errorf("the use has numbers %d and %d of the stream before", first.last[Read].Load(), first.last[Write].Load())
	}
	if n := len(*x.uses.Load()); n != 3 {
		t.Errorf("%d uses, want 3", n)
	}
	if p := pending(x, Write); p[&b.Stream] != 1 || len(p) != 1 {
		t.Errorf("pending %v, want 1 of the second stream", p)
	}
}

// TestWait: a wait asks the streams that conflict and are not known to be done, and no
// others. It returns the first error.
func TestWait(t *testing.T) {
	x := newTracker()
	reader, writer, done := newTestStream(nil), newTestStream(nil), newTestStream(nil)
	for _, s := range []*testStream{reader, writer, done} {
		queue(&s.Stream, map[bool]Access{true: Read, false: Write}[s == reader], false, x)
	}
	done.Complete(1)
	waits := func(what string, a Access, wantReader, wantWriter int32) {
		t.Helper()
		reader.waits.Store(0)
		writer.waits.Store(0)
		if err := x.Wait(context.Background(), a); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if r, w := reader.waits.Load(), writer.waits.Load(); r != wantReader || w != wantWriter {
			t.Errorf("%s: waits for the reader %d, for the writer %d; want %d, %d", what, r, w, wantReader, wantWriter)
		}
	}
	waits("to read", Read, 0, 1)
	waits("to write", Write, 1, 1)
	failed := errors.New("failed")
	reader.onWait = func(context.Context) error { return failed }
	if err := x.Wait(context.Background(), Write); err != failed {
		t.Errorf("got %v, want the error of the stream", err)
	}
	reader.Complete(1)
	waits("when the reader is done", Write, 0, 1)
	writer.Complete(1)
	waits("when all are done", Write, 0, 0)
	if done.waits.Load() != 0 {
		t.Error("waited for a stream that is done")
	}
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, 1)
	queue(&writer.Stream, Read, true, x)
	writer.onWait = func(got context.Context) error {
		if got != ctx {
			t.Error("the wait has another context")
		}
		return got.Err()
	}
	if err := x.Wait(ctx, Write); err != nil {
		t.Error(err)
	}
	n := 0
	for range x.Pending(Write) {
		n++
		break // an iterator that goes on panics
	}
	if n != 1 {
		t.Errorf("%d pending, want 1", n)
	}
}

// TestPendingWhileReassigned: while a use changes hands, waits and closes do not
// overlook the operations of its stream.
func TestPendingWhileReassigned(t *testing.T) {
	x, s := newTracker(), newTestStream(nil)
	queue(&s.Stream, Write, false, x)
	s.BeginShort()
	x.CloseIn(0)
	x.mu.Lock()
	x.first.stream.Store(reassigning)
	var kept, ended atomic.Bool // the stream keeps its use; its short operation has ended
	var all, asked sync.WaitGroup
	look := func(group *sync.WaitGroup, what string, f func() (right bool)) {
		group.Go(func() {
			if right := f(); !right || !kept.Load() {
				t.Errorf("%s overlooked the stream of a use that changes hands", what)
			}
		})
	}
	look(&asked, "Pending", func() bool { return pending(x, Read)[&s.Stream] == 1 })
	look(&asked, "Drained", func() bool { return !x.Drained() })
	look(&all, "Drain", func() bool { x.Drain(); return ended.Load() })
	time.Sleep(5 * time.Millisecond) // for those that do not wait
	kept.Store(true)
	x.first.stream.Store(&s.Stream)
	x.mu.Unlock()
	asked.Wait()
	ended.Store(true)
	s.EndShort(false)
	all.Wait()
}

// TestDrain: a drain waits for all calls that use the closed resource, also if it was
// woken before.
func TestDrain(t *testing.T) {
	x := newTracker()
	x.Enter()
	x.Enter()
	x.CloseIn(0)
	x.wake <- struct{}{} // left over from an earlier generation
	drained := make(chan struct{})
	go func() { x.Drain(); close(drained) }()
	for len(x.wake) > 0 {
		runtime.Gosched()
	}
	x.Leave()
	time.Sleep(2 * time.Millisecond) // for a Drain that does not wait
	if x.Drained() {
		t.Error("drained with one user left")
	}
	select {
	case <-drained:
		t.Error("Drain did not wait")
	default:
	}
	x.Leave()
	<-drained
	if !x.Drained() {
		t.Error("not drained after Drain")
	}
	x.Drain() // returns at once
}

// TestForget: the close of a new generation does not wait for the short operation of a
// stream that used an earlier one. The uses serve other streams, so no more are made.
func TestForget(t *testing.T) {
	x := newTracker()
	var all []*testStream
	for range 3 {
		s := newTestStream(nil)
		queue(&s.Stream, Write, false, x)
		s.Enter() // a waiter, which keeps the use
		s.Complete(1)
		all = append(all, s)
	}
	for generation := uint32(0); generation < 6; generation += 2 {
		x.CloseIn(generation)
		x.Drain()
		x.Forget()
		x.Reopen()
		for _, s := range all {
			s.BeginShort() // an operation on another resource
		}
		if x.CloseIn(generation + 1); !x.Drained() {
			t.Errorf("generation %d waits for operations of others", generation+1)
		}
		x.Reopen()
		for _, s := range all {
			s.EndShort(false)
			x.UseOf(&s.Stream)
		}
	}
	if n := len(*x.uses.Load()); n != 3 {
		t.Errorf("%d uses for 3 streams", n)
	}
}

// TestAfterOwners: what a closed resource leaves to its owners is done by the last,
// once, and its error is returned there.
func TestAfterOwners(t *testing.T) {
	x := newTracker()
	failed := errors.New("failed")
	n := 0
	task := func() error { n++; return failed }
	if err := x.AfterOwners(task); err != failed || n != 1 {
		t.Errorf("without owners: %v, done %d times", err, n)
	}
	x.Own()
	x.Own()
	if err := x.AfterOwners(task); err != nil || n != 1 {
		t.Errorf("with owners: %v, done %d times", err, n)
	}
	if err := x.Disown(); err != nil || n != 1 {
		t.Errorf("an owner is left: %v, done %d times", err, n)
	}
	if err := x.Disown(); err != failed || n != 2 {
		t.Errorf("the last owner: %v, done %d times", err, n)
	}
	x.Own()
	if err := x.Disown(); err != nil || n != 2 {
		t.Errorf("an owner of something open: %v, done %d times", err, n)
	}
}

// TestFollow: a stream follows the stream on which memory was allocated, once, until
// the allocation is done.
func TestFollow(t *testing.T) {
	home, other, late := newTestStream(nil), newTestStream(nil), newTestStream(nil)
	recording := newTestStream(new(Recorder))
	x := newTracker()
	if x.BornOn() != nil || x.MustFollow(&other.Stream) != nil {
		t.Error("a resource without a birth must be followed")
	}
	queue(&home.Stream, Read, false)
	x.SetBirth(&home.Stream, 2, nil)
	if x.BornOn() != &home.Stream || x.MustFollow(&home.Stream) != nil || x.MustFollow(&recording.Stream) != nil {
		t.Error("its own stream, or one that records, must follow")
	}
	home.Complete(1)
	for range 2 {
		if x.MustFollow(&other.Stream) != &home.Stream {
			t.Error("another stream need not follow")
		}
	}
	x.Follows(&other.Stream)
	if x.MustFollow(&other.Stream) != nil || x.MustFollow(&late.Stream) != &home.Stream {
		t.Error("the stream that follows must do so again, or others need not")
	}
	x.Follows(&late.Stream)
	if x.MustFollow(&other.Stream) != nil || x.MustFollow(&late.Stream) != nil {
		t.Error("one of two streams that follow must do so again")
	}
	late = newTestStream(nil)
	home.Complete(2)
	if x.MustFollow(&late.Stream) != nil {
		t.Error("a stream must follow what is done")
	}
}

// TestUsesOfMany: streams that use a tracker at the same time each keep one use, and no
// number is lost. Streams that are done give theirs away.
func TestUsesOfMany(t *testing.T) {
	x := newTracker()
	var wrong atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		s := newTestStream(nil)
		all.Go(func() {
			for range 20_000 {
				if !s.BeginShort() {
					t.Error("a second short operation")
					return
				}
				u, n := x.UseOf(&s.Stream), s.Next()
				u.Record(Write, n)
				if got := u.stream.Load(); got != &s.Stream && got != reassigning || u.latest(Write) != n {
					wrong.Add(1)
				}
				s.EndShort(true)
				s.Complete(s.Issued()) // so that others may have the use
			}
		})
	}
	all.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d times a use changed while its stream was in use", n)
	}
	if n := len(*x.uses.Load()); n > 4 {
		t.Errorf("%d uses for 4 streams", n)
	}
}

// TestStreamPerRequest: a resource that a new stream uses for each request keeps as many uses as
// streams are in flight, and some more. It asks streams that nothing waited for, about two for
// each new one.
func TestStreamPerRequest(t *testing.T) {
	const requests = 2000
	for _, flying := range []int{0, 1, 100, 500} { // streams whose work is not done
		tr := newTracker()
		var streams []*testStream
		asks := 0
		for i := range requests {
			s := newTestStream(nil)
			s.onAsk = func() {
				asks++
				if i < len(streams)-flying {
					s.Complete(s.Issued())
				}
			}
			streams = append(streams, s)
			if !queue(&s.Stream, Write, i%2 == 0, tr) {
				t.Fatal("refused")
			}
			s.Close()
		}
		if n, most := len(*tr.uses.Load()), 3*flying+4*askEvery; n > most {
			t.Errorf("%d streams in flight: %d uses after %d requests, want at most %d", flying, n, requests, most)
		}
		if asks > 4*requests {
			t.Errorf("%d streams in flight: %d asks for %d requests", flying, asks, requests)
		}
	}
}
