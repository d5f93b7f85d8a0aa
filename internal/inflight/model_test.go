package inflight

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

var modelSeed = flag.Uint64("model.seed", 0, "seed of the only program that TestModel runs, again and again; 0 is a new seed for each")

// TestModel runs random programs: goroutines use a few resources on a few streams of a
// device that finishes its work late, and wait, close, reopen, capture, and launch
// graphs. A reference, whose state a mutex guards, knows what each call must have done.
func TestModel(t *testing.T) {
	limit := time.Duration(sample.Count(500, 2000)) * time.Millisecond
	programs := 0
	for begin := time.Now(); time.Since(begin) < limit && !t.Failed(); programs++ {
		seed := *modelSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		runModel(t, seed)
	}
	t.Logf("%d programs", programs)
}

// model is the reference and the device of one program.
type model struct {
	t    *testing.T
	seed uint64

	mu        sync.Mutex
	streams   []*modelStream // open ones, replaced when they are closed
	closed    []*modelStream
	resources []*resource
	events    []*modelEvent
	graphs    []*modelGraph
}

// modelStream is a stream of the device. model.mu guards all but the Stream.
type modelStream struct {
	Stream
	m         *model
	works     []*work // what the device has not finished, in order
	given     int     // works so far
	finished  int
	destroyed int
}

// work is an operation that the device has.
type work struct {
	done   bool
	queued bool // its call has returned, so that later waits must wait for it
}

// resource is a Tracker and what must be true of it. model.mu guards all but the Tracker.
type resource struct {
	Tracker
	generation uint32
	shut       bool // CloseIn has returned in this generation
	drained    bool // then Drain has
	users      int  // operations between Acquire and End, and calls between Enter and Leave
	owners     int  // graphs
	disposals  int
	works      [2][]*work // by Access, not finished at the last check
}

// modelEvent is an event of the device. model.mu guards all but the Event.
type modelEvent struct {
	Event
	stream *modelStream // recorded in last
	at     int          // works of the stream before it
}

// modelGraph is a graph. turn is held while a call uses it.
type modelGraph struct {
	turn sync.Mutex
	uses []GraphUse
	of   map[*resource]captured // model.mu guards it during the capture
	gone bool
}

// captured is a resource of a graph: the access, and how often it was disposed of then.
type captured struct {
	access    Access
	disposals int
}

func (m *model) errorf(format string, args ...any) {
	m.t.Errorf("-model.seed=%d: "+format, append([]any{m.seed}, args...)...)
}

func runModel(t *testing.T, seed uint64) {
	hang := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("-model.seed=%d hangs", seed)) })
	defer hang.Stop()
	m := &model{t: t, seed: seed}
	for range 3 {
		m.streams = append(m.streams, m.newStream(nil))
		m.events = append(m.events, new(modelEvent))
	}
	for range 4 {
		x := new(resource)
		x.Init()
		m.resources = append(m.resources, x)
	}
	var all sync.WaitGroup
	for i := range uint64(5) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, i))
			for range 150 {
				m.act(r)
			}
		})
	}
	all.Wait()
	m.end(rand.New(rand.NewPCG(seed, 99)))
}

func (m *model) newStream(recorder *Recorder) *modelStream {
	s := &modelStream{m: m}
	s.Init(s, recorder)
	return s
}

// Wait is that of an Owner: the device finishes all that it has.
func (s *modelStream) Wait(context.Context) error {
	n := s.Issued()
	s.m.mu.Lock()
	s.finish(len(s.works))
	s.m.mu.Unlock()
	s.Complete(n)
	return nil
}

// Unused is called for a closed stream without users.
func (s *modelStream) Ask() {}

func (s *modelStream) Unused() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.destroyed++
}

// finish finishes the first n works. model.mu is held.
func (s *modelStream) finish(n int) {
	for _, w := range s.works[:n] {
		w.done = true
	}
	s.works = s.works[n:]
	s.finished += n
}

// look is the generation that a caller knows, sometimes an old one, and whether that is
// closed already.
func (m *model) look(r *rand.Rand, x *resource) (generation uint32, shut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.generation > 0 && r.IntN(8) == 0 {
		return x.generation - 1, true
	}
	return x.generation, x.shut
}

// enter is called when a call has got a resource of a generation. shut says that the
// generation was closed before the call.
func (m *model) enter(x *resource, generation uint32, shut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case shut:
		m.errorf("acquired after Close had returned")
	case x.generation != generation || x.drained:
		m.errorf("acquired before Close, but Drain did not wait for the end")
	}
	x.users++
}

// leave is called before calls give resources back.
func (m *model) leave(uses map[*resource]Access) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for x := range uses {
		x.users--
	}
}

// give gives the device an operation.
func (m *model) give(s *modelStream, uses map[*resource]Access) *work {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := new(work)
	s.works = append(s.works, w)
	s.given++
	for x, a := range uses {
		x.works[a] = append(x.works[a], w)
	}
	return w
}

// returned is called when the call that gave an operation has returned.
func (m *model) returned(w *work) {
	if w == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.queued = true
}

// unfinished is the operations that conflict with an access, those that are not queued
// yet only if all is set.
func (m *model) unfinished(x *resource, a Access, all bool) (works []*work) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind := range x.works {
		x.works[kind] = slices.DeleteFunc(x.works[kind], func(w *work) bool { return w.done })
		for _, w := range x.works[kind] {
			if (all || w.queued) && max(a, Access(kind)) == Write {
				works = append(works, w)
			}
		}
	}
	return works
}

// wait waits for a resource and checks that what conflicts is done.
func (m *model) wait(x *resource, a Access, all bool) {
	before := m.unfinished(x, a, all)
	if err := x.Wait(context.Background(), a); err != nil {
		m.errorf("wait: %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range before {
		if !w.done {
			m.errorf("Wait(%d) returned before a conflicting operation was done; closed: %v", a, all)
			return
		}
	}
}

// own is called when a capture has acquired a resource, before the operation ends.
func (m *model) own(g *modelGraph, x *resource, a Access) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, again := g.of[x]
	if !again {
		x.owners++
		c.disposals = x.disposals
	}
	c.access = max(c.access, a)
	g.of[x] = c
}

func (m *model) resourceOf(t *Tracker) *resource {
	return m.resources[slices.IndexFunc(m.resources, func(x *resource) bool { return &x.Tracker == t })]
}

// end closes everything and checks that nothing is in use.
func (m *model) end(r *rand.Rand) {
	for len(m.graphs) > 0 {
		m.closeGraph(r)
	}
	for _, x := range m.resources {
		before := x.disposals
		for range 1000 { // in some of them with the generation before
			if x.disposals == before {
				m.closeResource(r, x)
			}
		}
		if v := x.state.Load(); v&^generationMask != 0 || x.owners != 0 || x.Tracker.owners.Load() != 0 || x.disposals == before {
			m.errorf("a resource has state %#x, %d owners at the end, or was not disposed of", v, x.Tracker.owners.Load())
		}
		if p := pending(&x.Tracker, Write); len(p) != 0 {
			m.errorf("pending after all: %v", p)
		}
	}
	for _, e := range m.events {
		if v := e.word.Load() & (oneRecord - 1); v != 0 {
			m.errorf("an event has word %#x at the end", v)
		}
	}
	for range m.streams {
		m.closeStream(r)
	}
	for _, s := range slices.Concat(m.closed, m.streams) {
		if !s.Closed() {
			m.closeNow(s)
		}
	}
	for _, s := range m.closed {
		if v := s.word.Load() & (oneNumber - 1); v != closedFlag || s.destroyed != 1 {
			m.errorf("a closed stream has word %#x and was destroyed %d times", v, s.destroyed)
		}
	}
}
