package launchrace

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/vclock"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// rig is a check whose operations a test queues in streams.
type rig struct {
	*Check
	t      *testing.T
	id     uint64
	races  []*Race
	gaveUp map[string]int
}

// stream orders its operations.
type stream struct{ last *queued }

// queued is an operation that has been submitted.
type queued struct {
	*Track
	op   Operation
	next []*Track
	done bool
}

func newRig(t *testing.T) *rig {
	x := &rig{t: t, gaveUp: map[string]int{}}
	any := func(uint64) bool { return true }
	x.Check = New(Memory{Compared: any, OnHost: any, Place: func(addr uint64) (string, uint64, uint64) { return "memory", addr, 0 }},
		func(what string, n int) { x.gaveUp[what] += n })
	return x
}

func of(tracks ...*Track) iter.Seq[*Track] { return slices.Values(tracks) }

// submit queues a launch in a stream.
func (x *rig) submit(s *stream, kernel string) *queued {
	x.id++
	q := &queued{op: Operation{ID: x.id, Kernel: kernel, Kind: cu.GraphNodeTypeKernel}}
	switch {
	case s.last == nil:
		q.Track = x.Submit(true, of())
	case s.last.done:
		q.Track = x.Submit(true, of(s.last.Track))
	default:
		q.Track = x.Submit(true, of())
		s.last.next = append(s.last.next, q.Track)
	}
	s.last = q
	return q
}

// run runs what was queued.
func (x *rig) run(q *queued, touched *kernelrace.Footprint) {
	x.Begin(q.Track)
	x.races = append(x.races, x.End(q.Track, &q.op, touched, nil)...)
	x.races = append(x.races, x.Stop(q.Track)...)
	x.Done(q.Track, of(q.next...))
	q.done = true
}

func (x *rig) launch(s *stream, kernel string, touched *kernelrace.Footprint) {
	x.run(x.submit(s, kernel), touched)
}

// sync lets the host wait for a stream.
func (x *rig) sync(s *stream) { x.HostFollows(s.last.Track) }

// access returns the footprint of an access to n bytes.
func access(addr, n uint64, kind kernelrace.Kind) *kernelrace.Footprint {
	f := &kernelrace.Footprint{Pages: map[uint64]kernelrace.Page{}}
	f.Add(addr, n, kind)
	return f
}

var strongWrite = (kernelrace.Write | kernelrace.Strong).With(kernelrace.System)

// release returns the footprint of a write to data, and the release of a word in another page.
func release(data, word uint64) *kernelrace.Footprint {
	f := access(data, 4, kernelrace.Write)
	f.Add(word, 4, strongWrite)
	return f
}

// TestKept: what launches have touched is kept as long as others may conflict with it, not longer.
func TestKept(t *testing.T) {
	x, a, b := newRig(t), new(stream), new(stream)
	most := func(kept, weight int) {
		t.Helper()
		if s := x.Stats(); s.Kept > kept || s.Weight > weight || s.Chains > 4 {
			t.Errorf("%+v is kept, want at most %d operations with weight %d in 4 chains", s, kept, weight)
		}
		x.checkWeight()
	}
	const p, q, r = 1 << 20, 2 << 20, 3 << 20
	for i := range uint64(4000) { // other memory each time
		x.launch(a, "put", access(p+i%8192/4*4, 128, kernelrace.Write))
		x.launch(b, "put", access(q+i%8192/4*4, 128, kernelrace.Write))
		x.launch(a, "release", release(r+i%1024*4, r+pageSize+i%1024*4))
		if i%10 == 9 {
			x.sync(a)
			x.sync(b)
		}
	}
	most(2*leastLimit/footprintWeight, 2*leastLimit)
	for range 4000 { // the same memory, and no wait
		x.launch(a, "put", access(p, 128, kernelrace.Write))
		x.launch(b, "put", access(q, 128, kernelrace.Write))
	}
	most(2*leastLimit/footprintWeight, 2*leastLimit)
	if len(x.gaveUp) > 0 {
		t.Errorf("gave up %v", x.gaveUp)
	}
	x.most, x.limit = 1000, 1000
	for i := range uint64(500) { // other memory each time, and no wait
		x.launch(a, "put", access(p+i*16, 128, kernelrace.Write))
		x.launch(b, "put", access(q+i*16, 128, kernelrace.Write))
	}
	most(2*leastLimit/footprintWeight, 2*leastLimit)
	if len(x.races) > 0 {
		t.Errorf("reported: %v", x.races)
	}
	if len(x.gaveUp) != 1 || x.gaveUp[gaveUpLaunches] == 0 {
		t.Errorf("launches were forgotten, and the check says that it gave up %v", x.gaveUp)
	}
}

// TestKeptForQueued: what a launch has touched is kept for another one that was queued before the
// host waited, and that runs later.
func TestKeptForQueued(t *testing.T) {
	x, a, b := newRig(t), new(stream), new(stream)
	const p, q = 1 << 20, 2 << 20
	get := x.submit(b, "get")
	x.launch(a, "put", access(p, 128, kernelrace.Write))
	x.sync(a)
	x.limit = 0
	x.launch(a, "put", access(q, 128, kernelrace.Write))
	x.sync(a)
	x.run(get, access(p, 128, 0))
	if len(x.races) != 1 || x.races[0].First.Kernel != "get" || x.races[0].Bytes != 128 {
		t.Errorf("%d races, want one of get and put: %v", len(x.races), x.races)
	}
}

// TestForget: what was done to memory that is freed is forgotten, and nothing else.
func TestForget(t *testing.T) {
	x, a := newRig(t), new(stream)
	const p = 1 << 20
	x.launch(a, "put", access(p, 1<<20, kernelrace.Write))
	x.Forget(p+pageSize, 3*pageSize)
	if got, want := x.Stats().Pages, 1<<20/pageSize-3; got != want {
		t.Errorf("%d pages are kept, want %d", got, want)
	}
	x.launch(new(stream), "put", access(p+2*pageSize, 8, kernelrace.Write))
	if len(x.races) > 0 {
		t.Errorf("memory that is freed conflicts: %v", x.races[0])
	}
	x.launch(new(stream), "put", access(p+5*pageSize, 8, kernelrace.Write))
	if len(x.races) != 1 || x.races[0].Addr != p+5*pageSize {
		t.Errorf("got %v, want a race at %#x", x.races, p+5*pageSize)
	}
	x.checkWeight()
}

// TestWeightAtRandom: the weight is that of what is kept, whatever operations do.
func TestWeightAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	x, streams := newRig(t), make([]stream, 4)
	x.limit, x.most = 200, 1000
	for i := range 3000 {
		s := &streams[rng.IntN(len(streams))]
		addr := rng.Uint64N(16*pageSize) &^ 3
		switch rng.IntN(6) {
		case 0:
			x.launch(s, "release", release(addr, 32*pageSize+rng.Uint64N(2048)*4))
		case 1:
			f := access(addr, 4, 0)
			f.Add(32*pageSize+rng.Uint64N(2048)*4, 4, kernelrace.Strong)
			f.Acquires, f.Released = true, nil
			x.launch(s, "acquire", f)
		case 2:
			if s.last != nil {
				x.sync(s)
			}
		case 3:
			x.Forget(addr, rng.Uint64N(2*pageSize))
		default:
			x.launch(s, "put", access(addr, 1+rng.Uint64N(3*pageSize), kernelrace.Kind(rng.IntN(2))*kernelrace.Write))
		}
		if i%50 == 0 {
			x.checkWeight()
		}
	}
	x.checkWeight()
	if x.gaveUp[gaveUpLaunches] == 0 || len(x.races) == 0 {
		t.Errorf("%d races, gave up %v: the program does too little", len(x.races), x.gaveUp)
	}
}

// checkWeight compares the weight of what is kept with what is there.
func (x *rig) checkWeight() {
	x.t.Helper()
	c, sum := x.Check, 0
	for f := range c.kept {
		sum += footprintWeight
		for number, p := range f.Pages {
			sum += weightOf(&p)
			if !slices.Contains(c.pages[number], f) {
				x.t.Errorf("page %#x does not name a launch that has touched it", number)
			}
		}
		for _, addr := range f.Released {
			if _, ok := c.words[addr/pageSize][addr][f]; !ok {
				x.t.Errorf("word %#x does not name a launch that has released it", addr)
			}
		}
	}
	for number, words := range c.words {
		for addr, list := range words {
			for f := range list {
				if _, kept := c.kept[f]; !kept || addr/pageSize != number || !slices.Contains(f.Released, addr) {
					x.t.Errorf("word %#x names a launch that has not released it, or is not kept", addr)
				}
			}
		}
	}
	if sum != c.weight {
		x.t.Errorf("the weight is %d, but what is kept has %d", c.weight, sum)
	}
}

// TestGaveUpCounts: each bound of the check counts what it drops.
func TestGaveUpCounts(t *testing.T) {
	given := map[string]int{}
	fresh := func() (*Check, *Track) {
		c := New(Memory{}, func(what string, n int) { given[what] += n })
		running := &Track{at: vclock.Point{Chain: 0, N: 1}}
		c.running[running] = struct{}{}
		return c, running
	}
	c, _ := fresh()
	for range mostAcquired + 1 {
		c.keepAcquired(&footprint{Footprint: &kernelrace.Footprint{Acquires: true}, standing: new(standing)})
	}
	c, _ = fresh()
	for range mostEdges + 1 {
		c.addEdge(vclock.Point{Chain: 0, N: 2}, vclock.Clock{1})
	}
	c.tidyEdges()
	c, running := fresh()
	found := make([]*waiting, mostWaiting+3)
	for i := range found {
		found[i] = &waiting{first: &standing{at: running.at}, second: &standing{at: vclock.Point{Chain: 1, N: 1}}}
	}
	c.judge(found)
	for what, want := range map[string]int{gaveUpAcquired: mostAcquired / 2, gaveUpEdges: mostEdges/2 + 1, gaveUpConflicts: 3} {
		if given[what] != want {
			t.Errorf("%s: %d, want %d", what, given[what], want)
		}
	}
}
