package pin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// TestSizes: every block is large enough, and not an eighth too large. The test tries all
// sizes up to 1 MiB, and the limits of every class beyond.
func TestSizes(t *testing.T) {
	check := func(n uintptr) {
		c := classOf(n)
		size := sizeOf(c)
		if size < n || size%quantum != 0 || c > 0 && sizeOf(c-1) >= n || size-n >= max(quantum, (n+7)/8) {
			t.Fatalf("%d bytes: class %d of %d bytes, after a class of %d", n, c, size, sizeOf(max(c-1, 0)))
		}
		if w := classWithin(size); w != c {
			t.Fatalf("%d bytes hold class %d, want %d", size, w, c)
		}
		if c+1 < classes && classWithin(sizeOf(c+1)-quantum) != c {
			t.Fatalf("%d bytes hold class %d, want %d", sizeOf(c+1)-quantum, classWithin(sizeOf(c+1)-quantum), c)
		}
	}
	for n := uintptr(1); n <= 1<<20; n++ {
		check(n)
	}
	for c := range classes {
		for d := range uintptr(3) {
			if n := sizeOf(c) + d - 1; n <= maxBlock {
				check(n)
			}
		}
	}
	if sizeOf(classes-1) != maxBlock {
		t.Errorf("the largest class has %d bytes, want %d", sizeOf(classes-1), uintptr(maxBlock))
	}
}

// fakeSegment is a range of addresses without memory.
type fakeSegment struct {
	s     *fakeSource
	start address
	bytes uintptr
}

func (c *fakeSegment) Start() cu.HostPtr { return c.start }
func (c *fakeSegment) Bytes() uintptr    { return c.bytes }
func (c *fakeSegment) Boundaries() []uintptr {
	var all []uintptr
	for off := uintptr(8 << 20); off < c.bytes; off += 8 << 20 {
		all = append(all, off)
	}
	return all
}
func (c *fakeSegment) Close() error {
	if c.s.closing != nil {
		c.s.closing()
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	switch {
	case c.s.refuse[c.start]:
		return &Stays{cu.ErrorUnknown}
	case c.s.closeErr != nil:
		return c.s.closeErr
	}
	c.s.pinned -= c.bytes
	c.s.closed++
	return nil
}

// fakeSource gives addresses without memory.
type fakeSource struct {
	mu            sync.Mutex
	next          address
	pinned, max   uintptr
	taken, closed int
	closeErr      error            // of segments
	refuse        map[address]bool // segments that stay, by their start
	stayed        int              // calls of Source.Stayed
	closing       func()           // called when a segment is closed
	takeErr       error
	asking        atomic.Int32 // goroutines in take
	clock         atomic.Int64
}

func newSource() *fakeSource { return &fakeSource{next: far()} }

func (s *fakeSource) source(max uintptr) Source {
	return Source{Take: s.take, Max: max, Site: func() string { return fmt.Sprintf("line %d", s.taken%2) },
		Now: func() time.Duration { return time.Duration(s.clock.Load()) }, Stayed: func() { s.stayed++ }}
}

func (s *fakeSource) take(_ context.Context, bytes uintptr) (Segment, error) {
	if s.asking.Add(1) != 1 {
		panic("two goroutines ask the source at once")
	}
	defer s.asking.Add(-1)
	s.clock.Add(int64(time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.takeErr != nil {
		return nil, s.takeErr
	}
	if s.max > 0 && s.pinned+bytes > s.max {
		return nil, cu.ErrorOutOfMemory
	}
	c := &fakeSegment{s, s.next, bytes}
	s.next = at(s.next, bytes+1<<20)
	s.pinned += bytes
	s.taken++
	return c, nil
}

// owner is the owner of a block.
type owner struct {
	inFlight atomic.Bool
	retired  atomic.Bool
}

func (o *owner) Idle() bool { return !o.inFlight.Load() }
func (o *owner) Retire()    { o.retired.Store(true) }

// Waiter returns a function that only the end of ctx ends.
func (o *owner) Waiter() func(context.Context) error {
	return func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
}

// get gets a block and gives it an owner.
func get(t testing.TB, p *Pool, n uintptr) *Block {
	t.Helper()
	b, err := p.Get(context.Background(), n, nil)
	if err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	if b.Owner == nil {
		b.Owner = &owner{}
	}
	return b
}

// TestPoolModel uses a pool at random and keeps a list of the blocks that are out. No byte
// is given twice, none is lost, and in the end all memory can go back to the source.
func TestPoolModel(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		modelRun(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func modelRun(t *testing.T, r *rand.Rand) {
	s := newSource()
	p := NewPool(s.source(0), DefaultSettings())
	var out, inFlight []*Block
	used, flying := uintptr(0), uintptr(0)
	remove := func(list *[]*Block) *Block {
		i := r.IntN(len(*list))
		b := (*list)[i]
		*list = slices.Delete(*list, i, i+1)
		return b
	}
	for range 3000 {
		switch k := r.IntN(10); {
		case k < 5 || len(out) == 0:
			n := 1 + uintptr(r.Uint64())>>(64-r.IntN(27)-1)
			b := get(t, p, n)
			if b.Owner.(*owner).retired.Load() || !b.Owner.Idle() {
				t.Fatal("got a block with an owner that is retired or in flight")
			}
			if b.Bytes != sizeOf(classOf(n)) {
				t.Fatalf("got %d bytes for %d", b.Bytes, n)
			}
			out, used = append(out, b), used+b.Bytes
			wantApart(t, append(slices.Clone(out), inFlight...), b)
		case k < 8:
			b := remove(&out)
			used -= b.Bytes
			if err := p.Put(b); err != nil {
				t.Fatal(err)
			}
		case k < 9:
			b := remove(&out)
			b.Owner.(*owner).inFlight.Store(true)
			used, flying, inFlight = used-b.Bytes, flying+b.Bytes, append(inFlight, b)
			p.PutInFlight(b)
		case len(inFlight) > 0 && r.IntN(3) == 0: // the stream has completed
			for _, b := range inFlight {
				b.Owner.(*owner).inFlight.Store(false)
			}
			inFlight, flying = nil, 0
			if err := p.Poll(); err != nil {
				t.Fatal(err)
			}
		case r.IntN(10) == 0:
			if err := p.Trim(used); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Stats(); got.Used != used || got.InFlight != flying || got.Pinned != s.pinned || got.Pinned < used+flying {
			t.Fatalf("%+v, want %d used, %d in flight, %d pinned", got, used, flying, s.pinned)
		}
	}
	for _, b := range inFlight {
		b.Owner.(*owner).inFlight.Store(false)
	}
	for _, b := range out {
		if err := p.Put(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Trim(0); err != nil || s.pinned != 0 || p.Stats().Pinned != 0 {
		t.Fatalf("%v, %d bytes are left, %+v", err, s.pinned, p.Stats())
	}
}

// wantApart checks that a block shares no byte with others.
func wantApart(t *testing.T, all []*Block, b *Block) {
	t.Helper()
	start, end := number(b.Start), number(b.Start)+b.Bytes
	for _, o := range all {
		if from := number(o.Start); o != b && from < end && start < from+o.Bytes {
			t.Fatalf("%#x, %d bytes, and %#x, %d bytes, overlap", start, b.Bytes, from, o.Bytes)
		}
	}
}

// TestPoolJoins: small blocks that are free again serve a large request. The source is
// not asked.
func TestPoolJoins(t *testing.T) {
	s := newSource()
	set := DefaultSettings()
	p := NewPool(s.source(set.SegmentBytes), set)
	var all []*Block
	for range set.SegmentBytes / 4096 {
		all = append(all, get(t, p, 4096))
	}
	if _, err := p.Get(context.Background(), 4096, nil); !errors.Is(err, cu.ErrorOutOfMemory) || !strings.Contains(err.Error(), "32.0 MiB are pinned already") {
		t.Errorf("beyond the limit: %v", err)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, b := range all {
		if err := p.Put(b); err != nil {
			t.Fatal(err)
		}
	}
	b := get(t, p, set.SegmentBytes)
	if s.taken != 1 || !all[0].Owner.(*owner).retired.Load() {
		t.Errorf("the source was asked %d times, the small blocks are retired: %v", s.taken, all[0].Owner.(*owner).retired.Load())
	}
	if want := []uintptr{8 << 20, 16 << 20, 24 << 20}; !slices.Equal(b.Boundaries(), want) {
		t.Errorf("boundaries %v, want %v", b.Boundaries(), want)
	}
}

// TestPoolGivesBack: if the source has no more, the pool gives back what is free and tries
// again.
func TestPoolGivesBack(t *testing.T) {
	s := newSource()
	s.max = 100 << 20
	p := NewPool(s.source(0), DefaultSettings())
	if err := p.Put(get(t, p, 80<<20)); err != nil {
		t.Fatal(err)
	}
	b := get(t, p, 90<<20)
	if s.closed != 1 || s.pinned != b.Bytes {
		t.Errorf("%d segments given back, %d bytes pinned", s.closed, s.pinned)
	}
	if _, err := p.Get(context.Background(), 20<<20, nil); !errors.Is(err, cu.ErrorOutOfMemory) {
		t.Errorf("got %v", err)
	}
	if got := p.Stats(); got.Calls != 6 || got.Driver != 5*time.Millisecond || got.MostPinned < b.Bytes {
		t.Errorf("%+v, want 6 calls that took 5ms", got)
	}
	s.takeErr = cu.ErrorIllegalAddress
	if _, err := p.Get(context.Background(), 1, nil); !errors.Is(err, cu.ErrorIllegalAddress) {
		t.Errorf("got %v", err)
	}
}

// TestPoolClose: blocks that are out keep their segment until they are put. A host function
// may not give a segment back; a later call does.
func TestPoolClose(t *testing.T) {
	s := newSource()
	p := NewPool(s.source(0), DefaultSettings())
	a, b := get(t, p, 100), get(t, p, 40<<20)
	if err := p.Close(); err != nil || s.pinned == 0 {
		t.Errorf("%v, %d bytes pinned", err, s.pinned)
	}
	if _, err := p.Get(context.Background(), 100, nil); !errors.Is(err, cu.ErrorInvalidValue) {
		t.Errorf("Get of a closed pool: %v", err)
	}
	s.closeErr = cu.ErrorNotPermitted
	if err := p.Put(a); !errors.Is(err, cu.ErrorNotPermitted) {
		t.Errorf("got %v", err)
	}
	s.closeErr = nil
	if err := p.Put(b); err != nil || s.pinned != 0 {
		t.Errorf("%v, %d bytes are left", err, s.pinned)
	}
}

// TestPoolStays: a segment that the source does not take back stays in the pool, which says so,
// and delays no other segment. A later call gives it back.
func TestPoolStays(t *testing.T) {
	for bad := range 5 {
		s := newSource()
		p := NewPool(s.source(0), DefaultSettings())
		for range 5 {
			if err := p.Warm(context.Background(), 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		s.refuse = map[address]bool{at(far(), uintptr(bad)*(2<<20)): true}
		for what, call := range map[string]func() error{"Trim": func() error { return p.Trim(0) }, "Close": p.Close, "Release": p.Release} {
			err := call()
			if _, ok := errors.AsType[*Stays](err); !ok || s.pinned != 1<<20 || p.Stats().Pinned != 1<<20 {
				t.Errorf("segment %d is refused: %s returns %v with %d bytes pinned, want 1 MiB", bad, what, err, s.pinned)
			}
		}
		s.refuse = nil
		if err := p.Release(); err != nil || s.pinned != 0 || s.stayed != 3 {
			t.Errorf("segment %d is taken: %v, %d bytes pinned, Stayed was called %d times, want 3", bad, err, s.pinned, s.stayed)
		}
	}
}

// TestPoolMisuse: sizes that are none are refused, and a context that has ended ends the
// wait for the source.
func TestPoolMisuse(t *testing.T) {
	p := NewPool(newSource().source(0), DefaultSettings())
	for _, n := range []uintptr{0, maxBlock + 1, ^uintptr(0)} {
		if _, err := p.Get(context.Background(), n, nil); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	p.sourceLock <- struct{}{} // another goroutine asks the source
	if _, err := p.Get(ctx, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := p.Warm(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestPoolConcurrent: many goroutines at once get blocks that no other has.
func TestPoolConcurrent(t *testing.T) {
	s := newSource()
	p := NewPool(s.source(0), DefaultSettings())
	var out sync.Map // addresses
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 7))
			var mine []*Block
			for range 500 {
				if len(mine) < 8 && r.IntN(2) == 0 {
					b, err := p.Get(context.Background(), 1+uintptr(r.IntN(1<<20)), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if _, twice := out.LoadOrStore(b.Start, b); twice {
						t.Error("two goroutines have the same block")
					}
					if b.Owner == nil {
						b.Owner = &owner{}
					}
					mine = append(mine, b)
				} else if len(mine) > 0 {
					b := mine[len(mine)-1]
					mine = mine[:len(mine)-1]
					out.Delete(b.Start)
					if r.IntN(8) == 0 {
						p.PutInFlight(b)
					} else if err := p.Put(b); err != nil {
						t.Error(err)
					}
				}
				if r.IntN(100) == 0 {
					if err := p.Trim(0); err != nil {
						t.Error(err)
					}
				}
			}
			for _, b := range mine {
				out.Delete(b.Start)
				if err := p.Put(b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := p.Close(); err != nil || s.pinned != 0 {
		t.Errorf("%v, %d bytes are left", err, s.pinned)
	}
}

// TestSites: Stats names the places for which the source gave memory, the largest first.
func TestSites(t *testing.T) {
	s := newSource()
	p := NewPool(s.source(0), DefaultSettings())
	if err := p.Warm(context.Background(), 10<<20); err != nil {
		t.Fatal(err)
	}
	get(t, p, 50<<20)
	want := []Site{{"line 0", 50 << 20}, {"line 1", 10 << 20}}
	want[0].Bytes = sizeOf(classOf(50 << 20))
	if got := p.Stats().Sites; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// BenchmarkPool gets and puts a block.
func BenchmarkPool(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			p := NewPool(newSource().source(0), DefaultSettings())
			b.ReportAllocs()
			b.SetParallelism(n)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					blk, err := p.Get(context.Background(), 4096, nil)
					if err != nil {
						b.Error(err)
					}
					if blk.Owner == nil {
						blk.Owner = &owner{}
					}
					if err := p.Put(blk); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// TestPoolOwn: users of different caches get blocks of their own while there is memory,
// and those of other caches when there is none.
func TestPoolOwn(t *testing.T) {
	set := DefaultSettings()
	p := NewPool(newSource().source(set.SegmentBytes), set)
	const size, each = 1 << 20, 8
	from := func(shard int) *Block { // a block that was got from a cache before
		b := &Block{}
		b.home.Store(&p.shards[shard])
		return b
	}
	use := func(shard, n int) {
		t.Helper()
		var mine []*Block
		for range n {
			b, err := p.Get(context.Background(), size, from(shard))
			if err != nil {
				t.Fatalf("cache %d: %v", shard, err)
			}
			mine = append(mine, b)
		}
		for _, b := range mine {
			if err := p.Put(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for shard := range 3 {
		use(shard, each)
	}
	for shard := range 3 {
		if got := p.shards[shard].bytes; got != each*size {
			t.Errorf("cache %d has %d bytes, want %d blocks", shard, got, each)
		}
	}
	use(3, int(set.SegmentBytes)/size) // all blocks of the pool
	if s := p.Stats(); s.Calls != 1 || s.Pinned != set.SegmentBytes {
		t.Errorf("%+v, want one call of the driver", s)
	}
}
