package pin

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// flight is the owner of a block that is in flight until done is closed.
type flight struct {
	done chan struct{}
	lazy bool   // it is done when somebody waits for it
	idle func() // called by Idle
}

func (f *flight) Idle() bool {
	if f.idle != nil {
		f.idle()
	}
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}
func (f *flight) Retire() {}
func (f *flight) Waiter() func(context.Context) error {
	done := f.done
	return func(ctx context.Context) error {
		if f.lazy {
			close(done)
		}
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fullBlock is the size of the blocks in these tests: a pool of fullPool bytes has four.
const fullBlock, fullPool = 64 << 10, 256 << 10

// newFullPool makes a pool of four blocks, and takes them.
func newFullPool(t *testing.T) (*Pool, []*Block) {
	set := DefaultSettings()
	set.SegmentBytes = fullPool
	p := NewPool(newSource().source(fullPool), set)
	var all []*Block
	for range fullPool / fullBlock {
		all = append(all, get(t, p, fullBlock))
	}
	return p, all
}

func mayWait() error { return nil }

// waiter is a request that waits.
type waiter struct {
	b    *Block
	err  error
	done atomic.Bool
	end  context.CancelFunc
}

// start begins a request, and returns when it waits or has ended.
func start(p *Pool, n uintptr) *waiter {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiter{end: cancel}
	go func() { w.b, w.err = p.GetWait(ctx, n, nil, mayWait); w.done.Store(true) }()
	synctest.Wait()
	return w
}

// TestGetWait: requests at the limit get what comes back in the order in which they came, however it
// comes back. Others leave the queue when their context ends.
func TestGetWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p, blocks := newFullPool(t)
		var all []*waiter
		for range 5 {
			all = append(all, start(p, fullBlock))
		}
		served := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			for i, w := range all {
				if is := slices.Contains(want, i); w.done.Load() != is {
					t.Errorf("%s: request %d is served: %t (%v)", when, i, w.done.Load(), w.err)
				}
			}
		}
		served("nothing came back")
		_ = p.Put(blocks[0])
		served("one block", 0)
		all[2].end() // not the first
		served("a context has ended", 0, 2)
		all[1].end() // the first
		served("the context of the first has ended", 0, 1, 2)
		for _, i := range []int{1, 2} {
			if err := all[i].err; !errors.Is(err, context.Canceled) {
				t.Errorf("request %d: %v", i, err)
			}
		}
		if !errors.Is(all[1].err, cu.ErrorOutOfMemory) {
			t.Errorf("the first: %v", all[1].err)
		}
		f := &flight{done: make(chan struct{})}
		blocks[1].Owner = f
		p.PutInFlight(blocks[1])
		synctest.Wait()
		served("a block in flight", 0, 1, 2)
		close(f.done)
		served("it is done", 0, 1, 2, 3)
		large := start(p, 2*fullBlock)
		all = append(all, large)
		_ = p.Put(blocks[2])
		served("a block", 0, 1, 2, 3, 4)
		_ = p.Put(blocks[3])
		served("half of what a larger request needs", 0, 1, 2, 3, 4)
		all = append(all, start(p, fullBlock))
		served("a smaller request does not overtake", 0, 1, 2, 3, 4)
		_ = p.Put(all[4].b)
		_ = p.Put(all[3].b)
		_ = p.Put(all[0].b)
		served("all", 0, 1, 2, 3, 4, 5, 6)
		if large.err != nil {
			t.Errorf("the larger request: %v", large.err)
		}
		if d := time.Since(begin); d > 0 {
			t.Errorf("a request waited for a timer, %v in all", d)
		}
		_ = p.Put(large.b)
		_ = p.Put(all[6].b)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestGetWaitAtOnce: a request that can never succeed fails at once, as one that must not wait does, and
// Close of the pool ends all.
func TestGetWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, blocks := newFullPool(t)
		first := start(p, fullBlock)
		for _, n := range []uintptr{0, fullPool + 1, maxBlock + 1} {
			if w := start(p, n); !w.done.Load() || w.err == nil {
				t.Errorf("%d bytes: %v", n, w.err)
			}
		}
		if _, err := p.GetWait(context.Background(), fullBlock, nil, func() error { return cu.ErrorNotPermitted }); !errors.Is(err, cu.ErrorNotPermitted) {
			t.Errorf("where it must not wait: %v", err)
		}
		second := start(p, fullBlock)
		if first.done.Load() || second.done.Load() {
			t.Error("they do not wait")
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !errors.Is(first.err, errClosed) || !errors.Is(second.err, errClosed) {
			t.Errorf("after Close: %v, %v", first.err, second.err)
		}
		for _, b := range blocks {
			_ = p.Put(b)
		}
		if s := p.Stats(); s.Pinned != 0 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// TestGetWaitStalled: a block in flight in a stream that does not advance holds up no request for
// which another one is done.
func TestGetWaitStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, blocks := newFullPool(t)
		var flights []*flight
		for _, b := range blocks {
			f := &flight{done: make(chan struct{})}
			b.Owner, flights = f, append(flights, f)
			p.PutInFlight(b)
		}
		flights[2].lazy = true
		w := start(p, fullBlock)
		if w.done.Load() {
			t.Fatal("it got a block in flight")
		}
		time.Sleep(4 * awaitBlock)
		synctest.Wait()
		if !w.done.Load() || w.b != blocks[2] {
			t.Errorf("not served: %v", w.err)
		}
		for _, i := range []int{0, 1, 3} {
			close(flights[i].done)
		}
	})
}

// TestGetWaitBesidePoll: a request that looks while another goroutine has the only block in flight out of
// the pool, to ask for it, waits for that block afterwards.
func TestGetWaitBesidePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p, blocks := newFullPool(t)
		asked, answer := make(chan bool, 1), make(chan struct{})
		f := &flight{done: make(chan struct{})}
		f.idle = func() { f.idle = nil; asked <- true; <-answer }
		blocks[0].Owner = f
		p.PutInFlight(blocks[0])
		go func() { _, _ = p.Get(context.Background(), fullBlock, nil) }() // it polls
		<-asked
		w := start(p, fullBlock)
		close(answer)
		synctest.Wait()
		close(f.done)
		synctest.Wait()
		if !w.done.Load() || w.err != nil || time.Since(begin) > 0 {
			t.Errorf("not served: %v, after %v", w.err, time.Since(begin))
		}
	})
}

// TestGetWaitBesideTrim: a request that looks while Trim gives memory back to the source is served when
// that is done. So is one for a block that no cache takes.
func TestGetWaitBesideTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		set := DefaultSettings()
		set.SegmentBytes = fullPool
		p := NewPool(s.source(fullPool), set)
		_ = p.Put(get(t, p, fullBlock))
		closing, goOn := make(chan bool, 1), make(chan struct{})
		s.closing = func() { s.closing = nil; closing <- true; <-goOn }
		go func() { _ = p.Trim(0) }()
		<-closing
		w := start(p, fullBlock)
		if w.done.Load() {
			t.Fatalf("served: %v", w.err)
		}
		close(goOn)
		synctest.Wait()
		if !w.done.Load() || w.err != nil {
			t.Fatalf("after Trim: %v", w.err)
		}
		_ = p.Put(w.b)

		set.SegmentBytes = fullPool / 4
		p = NewPool(newSource().source(fullPool), set)
		first := get(t, p, fullPool)
		w = start(p, fullPool)
		_ = p.Put(first)
		synctest.Wait()
		if !w.done.Load() || w.err != nil {
			t.Errorf("a block that no cache takes: %v", w.err)
		}
	})
}

// TestGetWaitRoom: a limit outside of the pool is waited for.
func TestGetWaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, room := newSource(), make(chan struct{})
		source := s.source(0)
		source.Room = func() <-chan struct{} { return room }
		full := &Limited{&Error{1, AnyNode, "full", "wait", cu.ErrorOutOfMemory}, true}
		s.takeErr = full
		p := NewPool(source, DefaultSettings())
		w := start(p, 1000)
		if w.done.Load() {
			t.Fatal(w.err)
		}
		s.mu.Lock()
		s.takeErr = nil
		s.mu.Unlock()
		close(room)
		synctest.Wait()
		if !w.done.Load() || w.err != nil {
			t.Errorf("not served: %v", w.err)
		}
		s.takeErr = full.Err // the machine lacks memory
		if w := start(p, 64<<20); !w.done.Load() || !errors.Is(w.err, cu.ErrorOutOfMemory) {
			t.Errorf("it waits for memory of the machine: %v", w.err)
		}
	})
}

// TestGetWaitStorm: many goroutines share a small pool, of blocks of several sizes, in flight or not.
// Some do not wait, some give up. Nobody waits for ever: then the test would end with a deadlock. And
// nobody waits for a timer, which would hide that.
func TestGetWaitStorm(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			set := DefaultSettings()
			set.SegmentBytes, set.PollBlocks = fullPool, 2
			p := NewPool(newSource().source(2*fullPool), set)
			var all sync.WaitGroup
			var used, got, ended atomic.Int64
			for i := range 32 {
				all.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					var before *Block
					for range 60 {
						ctx, cancel := context.WithCancel(context.Background())
						if r.IntN(8) == 0 {
							go func() { runtime.Gosched(); cancel() }()
						}
						n := uintptr(fullBlock) << r.IntN(3)
						var b *Block
						var err error
						if r.IntN(8) == 0 {
							b, err = p.Get(ctx, n, before)
						} else if b, err = p.GetWait(ctx, n, before, mayWait); err != nil && ctx.Err() == nil {
							t.Errorf("%v", err)
						}
						if err != nil {
							ended.Add(1)
							cancel()
							continue
						}
						got.Add(1)
						if now := used.Add(int64(b.Bytes)); now > 2*fullPool {
							t.Errorf("%d bytes are in use", now)
						}
						for range r.IntN(4) {
							runtime.Gosched()
						}
						bytes := int64(b.Bytes)
						used.Add(-bytes)
						if before = b; r.IntN(2) == 0 {
							_ = p.Put(b)
						} else {
							f := &flight{done: make(chan struct{})}
							b.Owner = f
							p.PutInFlight(b)
							go func() { runtime.Gosched(); close(f.done) }()
						}
						cancel()
					}
				})
			}
			all.Wait()
			synctest.Wait()
			if d := time.Since(begin); d > 0 || got.Load() < 1000 {
				t.Errorf("%d blocks, %d gave up, waited %v for timers", got.Load(), ended.Load(), d)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if s := p.Stats(); s.Used != 0 || s.InFlight != 0 || s.Pinned != 0 || p.queue.waiting.Load() != 0 {
				t.Errorf("in the end: %+v", s)
			}
		})
	}
}
