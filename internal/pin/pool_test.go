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

// TestSizes: every block is large enough, and not an eighth too large. All sizes are
// tried up to 1 MiB, and the edges of every class beyond.
func TestSizes(t *testing.T) {
	one := func(n uintptr) {
		c := classOf(n)
		size := sizeOf(c)
		if size < n || size%quantum != 0 || c > 0 && sizeOf(c-1) >= n || size-n >= max(quantum, (n+7)/8) {
			t.Fatalf("%d bytes: class %d of %d bytes, after one of %d", n, c, size, sizeOf(max(c-1, 0)))
		}
		if w := within(size); w != c {
			t.Fatalf("%d bytes hold class %d, want %d", size, w, c)
		}
		if c+1 < classes && within(sizeOf(c+1)-quantum) != c {
			t.Fatalf("%d bytes hold class %d, want %d", sizeOf(c+1)-quantum, within(sizeOf(c+1)-quantum), c)
		}
	}
	for n := uintptr(1); n <= 1<<20; n++ {
		one(n)
	}
	for c := range classes {
		for d := range uintptr(3) {
			if n := sizeOf(c) + d - 1; n <= largest {
				one(n)
			}
		}
	}
	if sizeOf(classes-1) != largest {
		t.Errorf("the largest class has %d bytes, want %d", sizeOf(classes-1), uintptr(largest))
	}
}

// fakeChunk is a run of addresses without memory.
type fakeChunk struct {
	s     *fakeSource
	start address
	bytes uintptr
}

func (c *fakeChunk) Start() cu.HostPtr { return c.start }
func (c *fakeChunk) Bytes() uintptr    { return c.bytes }
func (c *fakeChunk) Cuts() []uintptr {
	var cuts []uintptr
	for off := uintptr(8 << 20); off < c.bytes; off += 8 << 20 {
		cuts = append(cuts, off)
	}
	return cuts
}
func (c *fakeChunk) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.keep != nil {
		return c.s.keep
	}
	c.s.pinned -= c.bytes
	c.s.closed++
	return nil
}

// fakeSource gives addresses.
type fakeSource struct {
	mu            sync.Mutex
	next          address
	pinned, max   uintptr
	taken, closed int
	keep          error
	asking        atomic.Int32
	clock         atomic.Int64
	trouble       error
}

func newSource() *fakeSource { return &fakeSource{next: far()} }

func (s *fakeSource) source(max uintptr) Source {
	return Source{Take: s.take, Max: max, Site: func() string { return fmt.Sprintf("line %d", s.taken%2) },
		Now: func() time.Duration { return time.Duration(s.clock.Load()) }}
}

func (s *fakeSource) take(_ context.Context, bytes uintptr) (Chunk, error) {
	if s.asking.Add(1) != 1 {
		panic("two ask the source at once")
	}
	defer s.asking.Add(-1)
	s.clock.Add(int64(time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble != nil {
		return nil, s.trouble
	}
	if s.max > 0 && s.pinned+bytes > s.max {
		return nil, cu.ErrorOutOfMemory
	}
	c := &fakeChunk{s, s.next, bytes}
	s.next = at(s.next, bytes+1<<20)
	s.pinned += bytes
	s.taken++
	return c, nil
}

// owner is who has a block, in flight or not.
type owner struct {
	flying  atomic.Bool
	retired atomic.Bool
}

func (o *owner) Passed() bool { return !o.flying.Load() }
func (o *owner) Retire()      { o.retired.Store(true) }

// get is Get of a block with an owner.
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

// TestPoolModel drives a pool at random, beside a list of what is out: no byte is
// given twice, none is lost, and in the end all is one again.
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
	p := NewPool(s.source(0))
	var out, late []*Block
	used, flying := uintptr(0), uintptr(0)
	drop := func(list *[]*Block) *Block {
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
			if b.Owner.(*owner).retired.Load() || !b.Owner.Passed() {
				t.Fatal("a block comes with an owner that is retired, or in flight")
			}
			if b.Bytes != sizeOf(classOf(n)) {
				t.Fatalf("%d bytes for %d", b.Bytes, n)
			}
			out, used = append(out, b), used+b.Bytes
			apart(t, append(slices.Clone(out), late...), b)
		case k < 8:
			b := drop(&out)
			used -= b.Bytes
			if err := p.Put(b); err != nil {
				t.Fatal(err)
			}
		case k < 9:
			b := drop(&out)
			b.Owner.(*owner).flying.Store(true)
			used, flying, late = used-b.Bytes, flying+b.Bytes, append(late, b)
			p.PutLater(b)
		case len(late) > 0 && r.IntN(3) == 0: // the stream has passed
			for _, b := range late {
				b.Owner.(*owner).flying.Store(false)
			}
			late, flying = nil, 0
			if err := p.Poll(); err != nil {
				t.Fatal(err)
			}
		case r.IntN(10) == 0:
			if err := p.Trim(used); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Stats(); got.Used != used || got.Late != flying || got.Pinned != s.pinned || got.Pinned < used+flying {
			t.Fatalf("%+v, want %d used, %d late, %d pinned", got, used, flying, s.pinned)
		}
	}
	for _, b := range late {
		b.Owner.(*owner).flying.Store(false)
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

// apart checks that a block shares no byte with others.
func apart(t *testing.T, all []*Block, b *Block) {
	t.Helper()
	start, end := number(b.Start), number(b.Start)+b.Bytes
	for _, o := range all {
		if from := number(o.Start); o != b && from < end && start < from+o.Bytes {
			t.Fatalf("%#x, %d bytes, and %#x, %d bytes, overlap", start, b.Bytes, from, o.Bytes)
		}
	}
}

// TestPoolJoins: what was cut small serves a large request when it is free again,
// without asking the source.
func TestPoolJoins(t *testing.T) {
	s := newSource()
	p := NewPool(s.source(chunkBytes))
	var all []*Block
	for range chunkBytes / 4096 {
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
	b := get(t, p, chunkBytes)
	if s.taken != 1 || !all[0].Owner.(*owner).retired.Load() {
		t.Errorf("the source was asked %d times, the small blocks are retired: %v", s.taken, all[0].Owner.(*owner).retired.Load())
	}
	if want := []uintptr{8 << 20, 16 << 20, 24 << 20}; !slices.Equal(b.Cuts(), want) {
		t.Errorf("cuts %v, want %v", b.Cuts(), want)
	}
}

// TestPoolGivesBack: where the source has no more, what is free goes back, and the
// request is tried again.
func TestPoolGivesBack(t *testing.T) {
	s := newSource()
	s.max = 100 << 20
	p := NewPool(s.source(0))
	if err := p.Put(get(t, p, 80<<20)); err != nil {
		t.Fatal(err)
	}
	b := get(t, p, 90<<20)
	if s.closed != 1 || s.pinned != b.Bytes {
		t.Errorf("%d chunks given back, %d bytes pinned", s.closed, s.pinned)
	}
	if _, err := p.Get(context.Background(), 20<<20, nil); !errors.Is(err, cu.ErrorOutOfMemory) {
		t.Errorf("got %v", err)
	}
	if got := p.Stats(); got.Calls != 6 || got.Driver != 5*time.Millisecond || got.MostPinned < b.Bytes {
		t.Errorf("%+v, want 6 calls that took 5ms", got)
	}
	s.trouble = cu.ErrorIllegalAddress
	if _, err := p.Get(context.Background(), 1, nil); !errors.Is(err, cu.ErrorIllegalAddress) {
		t.Errorf("got %v", err)
	}
}

// TestPoolClose: blocks that are out keep their chunk until they are put; a host
// function may not give chunks back, somebody later does.
func TestPoolClose(t *testing.T) {
	s := newSource()
	p := NewPool(s.source(0))
	a, b := get(t, p, 100), get(t, p, 40<<20)
	if err := p.Close(); err != nil || s.pinned == 0 {
		t.Errorf("%v, %d bytes pinned", err, s.pinned)
	}
	if _, err := p.Get(context.Background(), 100, nil); !errors.Is(err, cu.ErrorInvalidValue) {
		t.Errorf("of a closed pool: %v", err)
	}
	s.keep = cu.ErrorNotPermitted
	if err := p.Put(a); !errors.Is(err, cu.ErrorNotPermitted) {
		t.Errorf("got %v", err)
	}
	s.keep = nil
	if err := p.Put(b); err != nil || s.pinned != 0 {
		t.Errorf("%v, %d bytes are left", err, s.pinned)
	}
}

func TestPoolMisuse(t *testing.T) {
	p := NewPool(newSource().source(0))
	for _, n := range []uintptr{0, largest + 1, ^uintptr(0)} {
		if _, err := p.Get(context.Background(), n, nil); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	p.turn <- struct{}{} // somebody asks the source
	if _, err := p.Get(ctx, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := p.Warm(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestPoolTogether: many goroutines at once get blocks that nobody else has.
func TestPoolTogether(t *testing.T) {
	s := newSource()
	p := NewPool(s.source(0))
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
						t.Error("two have one block")
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
						p.PutLater(b)
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

func TestSites(t *testing.T) {
	s := newSource()
	p := NewPool(s.source(0))
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

func BenchmarkPool(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			p := NewPool(newSource().source(0))
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

// TestPoolOwn: users of different caches get blocks of their own while there is
// memory, and one another's when there is none.
func TestPoolOwn(t *testing.T) {
	p := NewPool(newSource().source(chunkBytes))
	const size, each = 1 << 20, 8
	at := func(shard int) *Block { // a block that was in a cache before
		b := &Block{}
		b.home.Store(&p.shards[shard])
		return b
	}
	turn := func(shard, n int) {
		t.Helper()
		var mine []*Block
		for range n {
			b, err := p.Get(context.Background(), size, at(shard))
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
		turn(shard, each)
	}
	for shard := range 3 {
		if got := p.shards[shard].bytes; got != each*size {
			t.Errorf("cache %d has %d bytes, want %d blocks", shard, got, each)
		}
	}
	turn(3, chunkBytes/size) // all there is
	if s := p.Stats(); s.Calls != 1 || s.Pinned != chunkBytes {
		t.Errorf("%+v, want one call of the driver", s)
	}
}
