package pin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// slowOwner is an owner whose block takes long to become a free extent.
type slowOwner struct {
	flight
	entered, goOn chan struct{}
}

func (o *slowOwner) Retire() { close(o.entered); <-o.goOn }

// wantServed checks that a request has memory after what the pool did last.
func wantServed(t *testing.T, w *waiter) {
	t.Helper()
	synctest.Wait()
	if !w.done.Load() || w.err != nil {
		t.Errorf("memory is free, and the request waits: %v", w.err)
	}
	w.end()
	synctest.Wait()
}

// TestTrimTellsRequests: a request that looks while Trim moves blocks from caches to the free extents
// finds nothing, so Trim tells it.
func TestTrimTellsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, blocks := newFullPool(t)
		o := &slowOwner{entered: make(chan struct{}), goOn: make(chan struct{})}
		blocks[0].Owner = o
		if err := p.Put(blocks[0]); err != nil {
			t.Fatal(err)
		}
		go func() { _ = p.Trim(fullPool) }()
		<-o.entered
		w := start(p, fullBlock)
		if w.done.Load() {
			t.Fatalf("served too early: %v", w.err)
		}
		close(o.goOn)
		wantServed(t, w)
	})
}

// slowSegment is a segment whose first Close takes long and fails.
type slowSegment struct {
	Segment
	entered, goOn chan struct{}
	failed        bool
}

func (s *slowSegment) Close() error {
	if s.failed {
		return s.Segment.Close()
	}
	s.failed = true
	close(s.entered)
	<-s.goOn
	return &Stays{Err: cu.ErrorUnknown}
}

// TestStaysTellsRequests: a request that looks while the driver frees a segment finds nothing. If the
// segment stays, it is told.
func TestStaysTellsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := DefaultSettings()
		set.SegmentBytes = fullBlock
		source := newSource().source(fullBlock)
		take, slow := source.Take, &slowSegment{entered: make(chan struct{}), goOn: make(chan struct{})}
		source.Take = func(ctx context.Context, n uintptr) (s Segment, err error) {
			slow.Segment, err = take(ctx, n)
			return slow, err
		}
		p := NewPool(source, set)
		if err := p.Put(get(t, p, fullBlock)); err != nil {
			t.Fatal(err)
		}
		go func() { _ = p.Trim(0) }()
		<-slow.entered
		w := start(p, fullBlock)
		if w.done.Load() {
			t.Fatalf("served too early: %v", w.err)
		}
		close(slow.goOn)
		wantServed(t, w)
	})
}

// TestGetWaitEndsWhileLooking: the error has both the end of the context and the lack of memory, also if
// the context ends while the request looks for memory, or has ended before.
func TestGetWaitEndsWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, blocks := newFullPool(t)
		ctx, cancel := context.WithCancel(context.Background())
		looks := 0
		f := &flight{done: make(chan struct{}), idle: func() {
			if looks++; looks > 8 {
				cancel()
			}
		}}
		defer close(f.done)
		blocks[0].Owner = f
		p.PutInFlight(blocks[0])
		for range 2 {
			_, err := p.GetWait(ctx, fullBlock, nil, mayWait)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cu.ErrorOutOfMemory) {
				t.Errorf("got %v, want the end of the context and the lack of memory", err)
			}
		}
	})
}

// TestWaitAsksNoSource: a request that waits for a block in flight polls it, and asks the source once.
// What the source refuses for a limit is no driver call.
func TestWaitAsksNoSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		source, asked := s.source(0), 0
		source.Take = func(ctx context.Context, n uintptr) (Segment, error) {
			if asked++; s.taken > 0 {
				return nil, &Limited{&Error{n, AnyNode, "full", "wait", cu.ErrorOutOfMemory}, true}
			}
			return s.take(ctx, n)
		}
		set := DefaultSettings()
		set.SegmentBytes = fullBlock
		p := NewPool(source, set)
		b := get(t, p, fullBlock)
		polls := 0
		f := &flight{done: make(chan struct{}), idle: func() { polls++ }}
		b.Owner = f
		p.PutInFlight(b)
		before := p.Stats().Calls
		w := start(p, fullBlock)
		for range 100 {
			time.Sleep(awaitBlock)
		}
		synctest.Wait()
		if polls < 50 || asked > 6 {
			t.Errorf("polled %d times, and asked the source %d times", polls, asked)
		}
		if n := p.Stats().Calls - before; n != 0 {
			t.Errorf("%d calls of the driver counted, and there were none", n)
		}
		close(f.done)
		time.Sleep(2 * awaitBlock)
		wantServed(t, w)
	})
}

// TestSegmentsUnderALimit: of what a limit outside of the pool leaves, the pool takes a quarter at most,
// so that small buffers need few segments and others have room.
func TestSegmentsUnderALimit(t *testing.T) {
	s := newSource()
	source := s.source(0)
	const limit = 16 << 20
	source.Left = func() (int, bool) { return limit - int(s.pinned), true }
	p := NewPool(source, DefaultSettings())
	for range 100 {
		get(t, p, 4<<10)
	}
	if s.taken != 1 || s.pinned != limit/4 {
		t.Errorf("%d segments of together %d bytes, want one of %d", s.taken, s.pinned, limit/4)
	}
	get(t, p, 8<<20)
	if s.pinned != limit/4+8<<20 {
		t.Errorf("%d bytes, want %d: a block larger than a quarter gets what it needs", s.pinned, limit/4+8<<20)
	}
}
