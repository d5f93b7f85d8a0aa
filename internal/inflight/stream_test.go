package inflight

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamState follows the word of a stream through its operations.
func TestStreamState(t *testing.T) {
	s := newTestStream(nil)
	is := func(what string, want uint64) {
		t.Helper()
		if got := s.word.Load(); got != want {
			t.Errorf("%s: word %#x, want %#x", what, got, want)
		}
	}
	if s.Owner() != s || s.Issued() != 0 || s.Next() != 1 || !s.Idle() || s.Closed() {
		t.Error("a new stream is not empty and open")
	}
	queue(&s.Stream, Read, true)
	is("a long operation", oneNumber)
	if !s.BeginShort() || s.Next() != 2 {
		t.Error("the next operation does not get number 2")
	}
	if s.BeginShort() {
		t.Error("two short operations at once")
	}
	s.EndShort(false)
	is("a short operation that queued nothing", oneNumber)
	s.BeginShort()
	queue(&s.Stream, Read, false) // becomes long
	if s.Issued() != 2 || s.Next() != 3 {
		t.Error("others cannot use the stream during a short operation")
	}
	s.EndShort(true)
	is("a short operation", 3*oneNumber)
	s.drainShort()
	is("a drain of nothing", 3*oneNumber)
	if s.Idle() || s.Completed(1) || !s.Completed(0) {
		t.Error("done without Complete")
	}
	s.Complete(3)
	s.Complete(1) // raises only
	if !s.Idle() || !s.Completed(3) || s.Completed(4) {
		t.Error("not done after Complete")
	}
}

// TestAlone: only the only user of a stream is alone, and only if all is done.
func TestAlone(t *testing.T) {
	s := newTestStream(nil)
	queue(&s.Stream, Read, false)
	s.Enter()
	if s.Alone() {
		t.Error("alone while an operation is not done")
	}
	s.Complete(1)
	if !s.Alone() {
		t.Error("not alone")
	}
	s.BeginShort()
	if s.Alone() {
		t.Error("alone beside a short operation")
	}
	s.EndShort(false)
	s.Enter()
	if s.Alone() {
		t.Error("alone as one of two")
	}
	s.Leave()
	if !s.Alone() {
		t.Error("not alone again")
	}
	s.Leave()
}

// TestClosedStream: nothing enters a closed stream, and Unused is called once.
func TestClosedStream(t *testing.T) {
	for _, c := range []struct {
		what  string
		begin func(*testStream) (end func())
	}{
		{"no user", func(s *testStream) func() { return nil }},
		{"a user", func(s *testStream) func() { s.Enter(); return s.Leave }},
		{"a short operation", func(s *testStream) func() { s.BeginShort(); return func() { s.EndShort(true) } }},
		{"a long operation", func(s *testStream) func() {
			op := new(Op)
			op.BeginLong(&s.Stream)
			op.Queued()
			return op.End
		}},
		{"a user, then a short operation", func(s *testStream) func() {
			s.Enter()
			s.BeginShort()
			return func() { s.Leave(); s.EndShort(false) }
		}},
		{"a short operation, then a user", func(s *testStream) func() {
			s.Enter()
			s.BeginShort()
			return func() { s.EndShort(true); s.Leave() }
		}},
	} {
		s := newTestStream(nil)
		end := c.begin(s)
		if unused := s.Close(); unused != (end == nil) {
			t.Errorf("%s: Close reports %v", c.what, unused)
		}
		var op Op
		if s.Close() || !s.Closed() || s.Enter() || s.BeginShort() || op.Begin(&s.Stream) || op.BeginLong(&s.Stream) {
			t.Errorf("%s: a closed stream was entered or closed again", c.what)
		}
		op.End() // has not begun
		if end == nil {
			continue
		}
		if s.unused.Load() != 0 {
			t.Errorf("%s: Unused was called early", c.what)
		}
		if end(); s.unused.Load() != 1 {
			t.Errorf("%s: Unused was called %d times, want 1", c.what, s.unused.Load())
		}
		if v := s.word.Load() & (oneNumber - 1); v != closedFlag {
			t.Errorf("%s: word %#x after the end", c.what, v)
		}
	}
}

// TestEnterUsed: a closed stream that still has users gets more of them. The last one to
// leave is the last user of the stream.
func TestEnterUsed(t *testing.T) {
	for what, begin := range map[string]func(*testStream) (end func()){
		"a user":            func(s *testStream) func() { s.Enter(); return s.Leave },
		"a short operation": func(s *testStream) func() { s.BeginShort(); return func() { s.EndShort(true) } },
	} {
		s := newTestStream(nil)
		if !s.EnterUsed() {
			t.Errorf("%s: EnterUsed failed on an open stream without users", what)
		}
		s.Leave()
		end := begin(s)
		s.Close()
		if !s.EnterUsed() || s.Enter() {
			t.Errorf("%s: EnterUsed failed, or Enter did not fail, on a closed stream with users", what)
		}
		end()
		if !s.EnterUsed() { // its own user is there
			t.Errorf("%s: EnterUsed failed beside another EnterUsed", what)
		}
		s.Leave()
		if n := s.unused.Load(); n != 0 {
			t.Errorf("%s: Unused was called %d times while there was a user", what, n)
		}
		s.Leave()
		if n := s.unused.Load(); n != 1 {
			t.Errorf("%s: Unused was called %d times, want 1", what, n)
		}
		if s.EnterUsed() {
			t.Errorf("%s: EnterUsed on a closed stream without users", what)
		}
		if n := s.users(); n != 0 {
			t.Errorf("%s: %d users at the end", what, n)
		}
	}
}

// TestStreamFull: a stream takes as many users as its word can count. One more waits.
func TestStreamFull(t *testing.T) {
	for what, enter := range map[string]func(*Stream) bool{"Enter": (*Stream).Enter, "EnterUsed": (*Stream).EnterUsed} {
		s := newTestStream(nil)
		s.word.Store(5*oneNumber | usersMask)
		entered := make(chan bool)
		go func() { entered <- enter(&s.Stream) }()
		for range 100 {
			runtime.Gosched()
		}
		select {
		case <-entered:
			t.Errorf("%s: one more user than the word can count", what)
		default:
		}
		if v := s.word.Load(); v != 5*oneNumber|usersMask {
			t.Errorf("%s: word %#x", what, v)
		}
		s.Leave()
		if !<-entered {
			t.Errorf("%s: failed although the stream is open", what)
		}
		if v := s.word.Load(); v != 5*oneNumber|usersMask {
			t.Errorf("%s: word %#x", what, v)
		}
	}
}

// TestNumbersWrap: the number after the last does not run into the flags.
func TestNumbersWrap(t *testing.T) {
	s := newTestStream(nil)
	s.word.Store(1<<64 - oneNumber)
	s.BeginShort()
	s.EndShort(true)
	if v := s.word.Load(); v != 0 {
		t.Errorf("after a short operation: word %#x, want 0", v)
	}
	s.word.Store(1<<64 - oneNumber)
	queue(&s.Stream, Read, true)
	if v := s.word.Load(); v != 0 {
		t.Errorf("after a long operation: word %#x, want 0", v)
	}
}

// TestRecordingStream: operations that are recorded get no numbers.
func TestRecordingStream(t *testing.T) {
	s := newTestStream(new(Recorder))
	x := newTracker()
	for _, long := range []bool{false, true} {
		if !queue(&s.Stream, Write, long, x) || s.word.Load() != 0 {
			t.Errorf("long %v: word %#x, want 0", long, s.word.Load())
		}
		if p := pending(x, Write); len(p) != 0 {
			t.Errorf("long %v: pending %v", long, p)
		}
	}
}

// TestDrainShort: a drain waits for the short operation, and meanwhile no other begins.
// Long ones do.
func TestDrainShort(t *testing.T) {
	s := newTestStream(nil)
	s.BeginShort()
	drained := make(chan struct{})
	go func() { s.drainShort(); close(drained) }()
	for s.word.Load()&drainFlag == 0 {
		runtime.Gosched()
	}
	queue(&s.Stream, Read, true) // wakes the drain, which must look again
	for range 100 {
		runtime.Gosched()
	}
	select {
	case <-drained:
		t.Error("the drain did not wait")
	default:
	}
	s.EndShort(true)
	<-drained
	if v := s.word.Load(); v != 2*oneNumber {
		t.Errorf("word %#x after the drain, want 2 operations", v)
	}
	if !s.BeginShort() {
		t.Error("no short operation after the drain")
	}
	s.EndShort(false)

	s.word.Or(drainFlag)
	var op Op
	if s.BeginShort() || !op.Begin(&s.Stream) || op.short {
		t.Error("a short operation began during a drain")
	}
	op.End()
	s.word.And(^uint64(drainFlag))
	if v := s.word.Load(); v != 2*oneNumber {
		t.Errorf("word %#x, want 2 operations", v)
	}
}

// TestDrainsTogether: many drains of one stream end although short operations begin and
// end meanwhile, and each has seen the operation end that was there before.
func TestDrainsTogether(t *testing.T) {
	s := newTestStream(nil)
	var current, all sync.WaitGroup
	var number, ended atomic.Int64
	var stop atomic.Bool
	for range 2 {
		current.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if s.BeginShort() {
					n := number.Add(1) // under the short flag
					if i%8 == 0 {
						runtime.Gosched()
					}
					ended.Store(n)
					s.EndShort(i%2 == 0)
				} else if i%2 == 0 && s.Enter() {
					s.Leave()
				}
			}
		})
	}
	for range 3 {
		all.Go(func() {
			for range 10_000 {
				before := number.Load()
				s.drainShort()
				if got := ended.Load(); got < before {
					t.Errorf("a drain returned before short operation %d had ended; the last that ended is %d", before, got)
					return
				}
			}
		})
	}
	all.Wait()
	stop.Store(true)
	current.Wait()
	if v := s.word.Load() & (oneNumber - 1); v != 0 {
		t.Errorf("word %#x at the end", v)
	}
}

// TestShared: a shared stream is never known to be idle, and its caller never alone, whatever is
// known of the operations that have a number.
func TestShared(t *testing.T) {
	s := newTestStream(nil)
	queue(&s.Stream, Read, false)
	s.Complete(1)
	s.Enter()
	if !s.Idle() || !s.Alone() || s.Shared() {
		t.Error("not idle, not alone or shared before Share")
	}
	s.Share()
	if s.Idle() || s.Alone() || !s.Shared() {
		t.Error("idle, alone or not shared after Share")
	}
	if !s.Completed(1) || s.Completed(2) {
		t.Error("Share changes what is known of operations with a number")
	}
	s.Leave()
}

// TestDrainSleeps: a long call, such as one that runs code of the program, costs no processor time
// in Drain. In a bubble of synctest time goes on only while every goroutine sleeps or is blocked.
func TestDrainSleeps(t *testing.T) {
	var spins atomic.Bool
	s := newTestStream(nil)
	s.Enter()
	rescue := time.AfterFunc(20*time.Second, func() { // outside of the bubble: a Drain that never sleeps stops its clock
		spins.Store(true)
		s.Leave()
	})
	synctest.Test(t, func(t *testing.T) {
		s.Close()
		drained := make(chan struct{})
		go func() { s.Drain(); close(drained) }()
		time.Sleep(time.Second)
		if !spins.Load() {
			s.Leave()
		}
		<-drained
	})
	if rescue.Stop(); spins.Load() {
		t.Error("Drain spins while a call uses the stream")
	}
}
