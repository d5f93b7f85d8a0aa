package inflight

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
)

// pick is a random element of a list that model.mu guards.
func pick[T any](m *model, r *rand.Rand, list *[]T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return (*list)[r.IntN(len(*list))]
}

// act makes one random call.
func (m *model) act(r *rand.Rand) {
	switch n := r.IntN(100); {
	case n < 40:
		m.operate(r, pick(m, r, &m.streams), nil)
	case n < 48:
		m.copyDirect(r, pick(m, r, &m.streams))
	case n < 60:
		m.hostUse(r)
	case n < 70:
		m.closeResource(r, pick(m, r, &m.resources))
	case n < 73:
		m.closeStream(r)
	case n < 78:
		m.capture(r)
	case n < 84:
		m.launch(r)
	case n < 87:
		m.closeGraph(r)
	case n < 92:
		m.record(r)
	case n < 96:
		m.ask(r)
	default:
		m.query(r, pick(m, r, &m.streams))
	}
}

// yield lets another goroutine run, sometimes.
func yield(r *rand.Rand) {
	if r.IntN(4) == 0 {
		runtime.Gosched()
	}
}

// begin begins an operation of either kind. It is false if the stream is closed.
func begin(r *rand.Rand, op *Op, s *modelStream) bool {
	if r.IntN(3) == 0 {
		return op.BeginLong(&s.Stream)
	}
	return op.Begin(&s.Stream)
}

// access is a random one.
func access(r *rand.Rand) Access { return Access(r.IntN(2)) }

// operate runs an operation on a few resources. It may fail before the driver has it.
// A graph gets what is captured; else it is nil.
func (m *model) operate(r *rand.Rand, s *modelStream, g *modelGraph) {
	var op Op
	if !begin(r, &op, s) {
		return
	}
	defer op.End()
	uses := map[*resource]Access{}
	defer func() { m.leave(uses) }() // before End
	for range 1 + r.IntN(4) {
		x, a := pick(m, r, &m.resources), access(r)
		generation, wasShut := m.look(r, x)
		yield(r)
		if !op.Acquire(&x.Tracker, a, generation) {
			return
		}
		m.enter(x, generation, wasShut)
		if _, twice := uses[x]; twice {
			m.leave(map[*resource]Access{x: a})
		}
		uses[x] = max(uses[x], a)
		if g != nil {
			m.own(g, x, a)
		}
	}
	if r.IntN(5) == 0 {
		return
	}
	yield(r)
	op.Queued()
	if g != nil {
		return
	}
	w := m.give(s, uses)
	yield(r)
	m.leave(uses)
	clear(uses)
	op.End()
	m.returned(w)
}

// copyDirect is an operation without an Op, on two resources.
func (m *model) copyDirect(r *rand.Rand, s *modelStream) {
	if !s.BeginShort() {
		return
	}
	w := m.copyShort(r, s)
	s.EndShort(w != nil)
	m.returned(w)
}

// copyShort is copyDirect during the short operation.
func (m *model) copyShort(r *rand.Rand, s *modelStream) *work {
	dst, src := pick(m, r, &m.resources), pick(m, r, &m.resources)
	if dst == src {
		return nil
	}
	g1, shut1 := m.look(r, dst)
	g2, shut2 := m.look(r, src)
	to, from := dst.UseOf(&s.Stream), src.UseOf(&s.Stream)
	yield(r)
	if !dst.OpenIn(g1) || !src.OpenIn(g2) {
		return nil
	}
	m.enter(dst, g1, shut1)
	m.enter(src, g2, shut2)
	uses := map[*resource]Access{src: Read, dst: Write}
	w := m.give(s, uses)
	n := s.Next()
	to.Record(Write, n)
	from.Record(Read, n)
	yield(r)
	m.leave(uses)
	return w
}

// hostUse uses a resource outside of streams, and waits for it.
func (m *model) hostUse(r *rand.Rand) {
	x := pick(m, r, &m.resources)
	generation, shut := m.look(r, x)
	yield(r)
	if !x.EnterIn(generation) {
		return
	}
	m.enter(x, generation, shut)
	m.wait(x, access(r), false)
	yield(r)
	m.leave(map[*resource]Access{x: Read})
	x.Leave()
}

// closeResource closes a resource in its generation. The last of its graphs, or this
// call, disposes of it and opens the next generation.
func (m *model) closeResource(r *rand.Rand, x *resource) {
	generation, _ := m.look(r, x)
	if !x.CloseIn(generation) {
		return
	}
	m.mu.Lock()
	if x.generation != generation {
		m.errorf("closed in another generation")
	}
	x.shut = true
	m.mu.Unlock()
	if r.IntN(2) == 0 || !x.Drained() {
		x.Drain()
	}
	m.mu.Lock()
	if x.drained = true; x.users != 0 {
		m.errorf("Drain returned while %d calls use the resource", x.users)
	}
	m.mu.Unlock()
	_ = x.AfterOwners(func() error { m.dispose(x); return nil })
}

// dispose waits for a closed resource and opens the next generation.
func (m *model) dispose(x *resource) {
	m.wait(x, Write, true)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !x.drained || x.users != 0 || x.owners != 0 {
		m.errorf("disposed of; drained %v, users %d, owners %d", x.drained, x.users, x.owners)
	}
	if x.disposals++; x.disposals%2 == 0 {
		x.Forget()
	}
	x.generation, x.shut, x.drained = x.Reopen(), false, false
}

// closeStream closes a stream, which others may be using.
func (m *model) closeStream(r *rand.Rand) {
	m.mu.Lock()
	i := r.IntN(len(m.streams))
	s := m.streams[i]
	m.streams[i] = m.newStream(nil)
	m.mu.Unlock()
	m.closeNow(s)
}

func (m *model) closeNow(s *modelStream) {
	if s.Close() {
		s.Unused()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = append(m.closed, s)
}

// capture captures operations of two goroutines and makes them a graph.
func (m *model) capture(r *rand.Rand) {
	recorder := new(Recorder)
	g := &modelGraph{of: map[*resource]captured{}}
	var all sync.WaitGroup
	var streams [2]*modelStream
	for i := range streams {
		streams[i] = m.newStream(recorder)
		seed := r.Uint64()
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for range 1 + r.IntN(3) {
				m.operate(r, streams[i], g)
			}
		})
	}
	if r.IntN(2) == 0 { // else the operations end the capture
		all.Wait()
	}
	for _, s := range streams {
		m.closeNow(s)
		s.Drain()
	}
	all.Wait()
	g.uses = recorder.Uses()
	for _, u := range g.uses {
		x := m.resourceOf(u.Tracker)
		if c, ok := g.of[x]; !ok || c.access != u.Access {
			m.errorf("a graph has access %d to a resource, want %d, %v", u.Access, c.access, ok)
		}
	}
	if len(g.uses) != len(g.of) {
		m.errorf("a graph has %d resources, want %d", len(g.uses), len(g.of))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.graphs = append(m.graphs, g)
}

// launch launches a graph.
func (m *model) launch(r *rand.Rand) {
	m.mu.Lock()
	if len(m.graphs) == 0 {
		m.mu.Unlock()
		return
	}
	g := m.graphs[r.IntN(len(m.graphs))]
	m.mu.Unlock()
	g.turn.Lock()
	defer g.turn.Unlock()
	s := pick(m, r, &m.streams)
	var op Op
	if g.gone || !begin(r, &op, s) {
		return
	}
	uses := map[*resource]Access{}
	for _, u := range g.uses {
		op.AcquireOwned(u.Tracker, u.Access)
		uses[m.resourceOf(u.Tracker)] = u.Access
	}
	yield(r)
	w := m.give(s, uses)
	m.mu.Lock()
	for x := range uses {
		if x.disposals != g.of[x].disposals {
			m.errorf("disposed of a resource that a graph owns")
		}
	}
	m.mu.Unlock()
	op.Queued()
	op.End()
	m.returned(w)
}

// closeGraph closes a graph, if there is one.
func (m *model) closeGraph(r *rand.Rand) {
	m.mu.Lock()
	if len(m.graphs) == 0 {
		m.mu.Unlock()
		return
	}
	i := r.IntN(len(m.graphs))
	g := m.graphs[i]
	m.graphs = slices.Delete(m.graphs, i, i+1)
	m.mu.Unlock()
	g.turn.Lock()
	defer g.turn.Unlock()
	g.gone = true
	m.mu.Lock()
	for x := range g.of {
		x.owners--
	}
	m.mu.Unlock()
	if err := DisownAll(g.uses); err != nil {
		m.errorf("disown: %v", err)
	}
}

// record records an event in a stream. The driver may refuse.
func (m *model) record(r *rand.Rand) {
	e, s := pick(m, r, &m.events), pick(m, r, &m.streams)
	short := s.BeginShort()
	if !short && !s.Enter() {
		return
	}
	var made *Stream
	record, _ := e.BeginRecord(&s.Stream)
	yield(r)
	if r.IntN(8) > 0 {
		made = &s.Stream
		m.mu.Lock()
		e.stream, e.at = s, s.given
		m.mu.Unlock()
	}
	e.EndRecord(record, made)
	if short {
		s.EndShort(false)
	} else {
		s.Leave()
	}
}

// ask asks the driver whether an event has passed.
func (m *model) ask(r *rand.Rand) {
	e := pick(m, r, &m.events)
	meaning := e.StandsFor()
	yield(r)
	m.mu.Lock()
	passed := e.stream != nil && e.stream.finished >= e.at
	m.mu.Unlock()
	yield(r)
	if passed {
		e.Passed(meaning)
	}
}

// query lets the device finish some work of a stream, and asks whether all is done.
func (m *model) query(r *rand.Rand, s *modelStream) {
	if !s.Enter() {
		return
	}
	defer s.Leave()
	n := s.Issued()
	if s.Alone() && !s.Completed(n) {
		m.errorf("alone before all was done")
	}
	yield(r)
	m.mu.Lock()
	s.finish(r.IntN(len(s.works) + 1))
	done := len(s.works) == 0
	m.mu.Unlock()
	yield(r)
	if done {
		s.Complete(n)
	}
}
