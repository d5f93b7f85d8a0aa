package pin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// level is an amount and the highest value that it has had.
type level struct{ now, most atomic.Int64 }

func (l *level) add(n int64) {
	v := l.now.Add(n)
	for m := l.most.Load(); v > m && !l.most.CompareAndSwap(m, v); m = l.most.Load() {
	}
}

// storm is many goroutines that get blocks of one size and give them back. At most atOnce
// goroutines have a block at the same time, so the blocks go from one to the other.
type storm struct {
	p                        *Pool
	block                    uintptr
	goroutines, rounds       int
	atOnce                   chan struct{}
	flights                  int          // of 16 times a block is in flight when it is put
	used                     level        // blocks in use or in flight
	gets, flown, asked, fail atomic.Int64 // asked counts calls of Idle
}

// stormOwner is the owner of a block in a storm. The block counts as used until the pool
// knows that it is idle.
type stormOwner struct {
	*storm
	busy atomic.Bool
}

func (o *stormOwner) Retire() {}
func (o *stormOwner) Waiter() func(context.Context) error {
	panic("nobody waits")
}
func (o *stormOwner) Idle() bool {
	o.asked.Add(1)
	if o.busy.Load() {
		return false
	}
	o.used.add(-1)
	return true
}

func (s *storm) run() {
	var all sync.WaitGroup
	for g := range s.goroutines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			var before *Block
			for range s.rounds {
				s.atOnce <- struct{}{}
				before = s.once(r, before)
				<-s.atOnce
			}
		})
	}
	all.Wait()
}

// once gets a block and puts it.
func (s *storm) once(r *rand.Rand, before *Block) *Block {
	s.used.add(1)
	b, err := s.p.Get(context.Background(), s.block, before)
	if err != nil {
		s.used.add(-1)
		s.fail.Add(1)
		return before
	}
	s.gets.Add(1)
	if b.Owner == nil {
		b.Owner = &stormOwner{storm: s}
	}
	o := b.Owner.(*stormOwner)
	for range r.IntN(4) {
		runtime.Gosched()
	}
	if r.IntN(16) >= s.flights {
		if s.p.Put(b) != nil {
			s.fail.Add(1)
		}
		s.used.add(-1)
		return b
	}
	s.flown.Add(1)
	o.busy.Store(true)
	s.p.PutInFlight(b)
	runtime.Gosched()
	o.busy.Store(false)
	return b
}

// processors runs a test with n processors. More of them than the machine has make
// goroutines stop anywhere.
func processors(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// TestPoolGrowth: a pool page-locks what was in use or in flight at once, and less than a
// segment more, with any number of goroutines, processors and caches.
func TestPoolGrowth(t *testing.T) {
	processors(t, 16)
	rounds := 8
	if testing.Short() || underRace {
		rounds = 2
	}
	for round := range rounds {
		set := DefaultSettings()
		s := &storm{block: 64 << 10, goroutines: 256, rounds: 300, atOnce: make(chan struct{}, 48), flights: 4 * (round % 2)}
		set.SegmentBytes = 4 * s.block
		set.ShardsPerProcessor *= 1 + 7*(round/2%2)
		s.p = NewPool(newSource().source(0), set)
		s.run()
		most := s.used.most.Load()
		if s.flights > 0 {
			most += 16 // blocks that Idle has called idle, and that are not in a cache yet
		}
		got := s.p.Stats()
		if limit := uintptr(most-1)*s.block + set.SegmentBytes; got.MostPinned > limit || s.fail.Load() > 0 {
			t.Errorf("%d caches, %d of 16 in flight: %d blocks page-locked, want at most %d; %d failed",
				len(s.p.shards), s.flights, got.MostPinned/s.block, limit/s.block, s.fail.Load())
		}
	}
}

// TestPoolFlight: a block that was in flight goes to the next request of its size. A request
// that finds no other memory, or none at all, asks the owner of each block in flight once,
// and a few more.
func TestPoolFlight(t *testing.T) {
	set := DefaultSettings()
	set.SegmentBytes = 64 << 10
	p := NewPool(newSource().source(16*set.SegmentBytes), set)
	s := &storm{block: set.SegmentBytes}
	own := func(b *Block) *stormOwner {
		if b.Owner == nil {
			b.Owner = &stormOwner{storm: s}
		}
		return b.Owner.(*stormOwner)
	}
	for range 15 {
		b := get(t, p, 1) // its owner does not count
		b.Owner = nil
		own(b).busy.Store(true)
		p.PutInFlight(b)
	}
	var b *Block
	ask := func(i int) {
		t.Helper()
		s.asked.Store(0)
		var err error
		if b, err = p.Get(context.Background(), s.block, nil); err == nil {
			own(b)
			p.PutInFlight(b)
		}
		got := p.Stats()
		if n := s.asked.Load(); n > int64(16+set.PollBlocks) || got.InFlight != 15*sizeOf(0)+s.block || got.Used != 0 || got.Hits != uint64(i) {
			t.Fatalf("request %d: %v, owners were asked %d times, %+v", i, err, n, got)
		}
	}
	for i := range 100 {
		ask(i)
	}
	own(b).busy.Store(true)
	p.source.Max = set.SegmentBytes
	ask(99)
	if b != nil {
		t.Error("got a block although all are in flight")
	}
}

// TestPoolLimit: a pool whose limit holds the blocks in use at once refuses none of them.
func TestPoolLimit(t *testing.T) {
	processors(t, 16)
	rounds := 20
	if testing.Short() || underRace {
		rounds = 3
	}
	for range rounds {
		s := &storm{block: 64 << 10, goroutines: 256, rounds: 300, atOnce: make(chan struct{}, 48)}
		s.p = NewPool(newSource().source(48*s.block), DefaultSettings())
		s.run()
		if n := s.fail.Load(); n > 0 {
			t.Errorf("%d of %d requests were refused", n, n+s.gets.Load())
		}
	}
}

// TestPoolGrowthOfSizes: of each size up to 1 MiB, a pool page-locks at most a thirtieth more
// than is in use, and a segment.
func TestPoolGrowthOfSizes(t *testing.T) {
	const total = 200 << 20
	for c := classOf(64 << 10); c <= classOf(1<<20); c++ {
		p := NewPool(newSource().source(0), DefaultSettings())
		used := uintptr(0)
		for ; used < total; used += sizeOf(c) {
			get(t, p, sizeOf(c))
		}
		if got, limit := p.Stats().Pinned, used+used/30+p.set.SegmentBytes; got > limit {
			t.Errorf("blocks of %d bytes: %d bytes page-locked for %d, want at most %d", sizeOf(c), got, used, limit)
		}
	}
}

// TestPoolOrder: goroutines that need more page-locked memory get it in the order of their
// arrival.
func TestPoolOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		source := s.source(0)
		source.Take = func(ctx context.Context, bytes uintptr) (Segment, error) {
			time.Sleep(time.Second) // of the bubble
			return s.take(ctx, bytes)
		}
		p := NewPool(source, DefaultSettings())
		const goroutines = 100
		served := make(chan int, goroutines)
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() {
				get(t, p, p.set.SegmentBytes)
				served <- g // before the next one, which sleeps for a second
			})
			synctest.Wait()
		}
		all.Wait()
		for want := range goroutines {
			if got := <-served; got != want {
				t.Fatalf("goroutine %d was served before %d, which came earlier", got, want)
			}
		}
	})
}

// BenchmarkPoolLoad gets and puts blocks by many goroutines. Of in-flight blocks it also
// counts how often an owner is asked.
func BenchmarkPoolLoad(b *testing.B) {
	for _, flights := range []int{0, 16} {
		for _, bytes := range []uintptr{4 << 10, 64 << 10, 1 << 20} {
			for _, n := range []int{1, 16, 256} {
				b.Run(fmt.Sprintf("inflight=%d/bytes=%d/goroutines=%d", flights/16, bytes, n), func(b *testing.B) {
					s := &storm{block: bytes, goroutines: n, rounds: b.N/n + 1, atOnce: make(chan struct{}, n), flights: flights}
					s.p = NewPool(newSource().source(0), DefaultSettings())
					s.run()
					b.ReportMetric(float64(s.asked.Load())/float64(max(1, s.flown.Load())), "asked/flight")
					b.ReportMetric(float64(s.p.Stats().MostPinned)/float64(bytes), "blocks")
				})
			}
		}
	}
}
