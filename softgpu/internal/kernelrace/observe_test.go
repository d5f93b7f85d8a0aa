package kernelrace

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// chain is what a model knows of the strong writes of a word.
type chain struct {
	head     *past
	blind    bool
	observed []*past // by those who know the head
	watchers []*past
}

// knows reports whether the thread of an access knows the head.
func (c *chain) knows(q *past) bool {
	return c.head != nil && (!c.blind && c.head.before(q) || slices.ContainsFunc(c.watchers, func(p *past) bool { return p.before(q) }))
}

// observer runs accesses on a detector, and keeps all of them.
type observer struct {
	d      *Detector
	blocks [modelBlocks]*Block
	phase  [modelBlocks]int
	chains [2]chain
	done   []*past
	saved  int // accesses that would race without observation
}

// TestObserveModel compares the detector with a model that keeps all accesses of two words and
// what strong reads have found: random strong and weak accesses and barriers of few threads.
func TestObserveModel(t *testing.T) {
	saved, programs := 0, uint64(sample.Count(3000, 20000))
	for seed := range programs {
		r := rand.New(rand.NewPCG(seed, 3))
		m := &observer{d: New(2 * warpSize)}
		m.d.Values = noValues{}
		for i := range m.blocks {
			m.blocks[i] = m.d.Block(uint64(i), 0)
		}
		for i := range 30 {
			m.d.spare = 1 << 20
			if r.IntN(8) == 0 {
				block := r.IntN(modelBlocks)
				meet(m.blocks[block])
				m.phase[block]++
				continue
			}
			if p := m.random(r, i); !m.access(p) {
				t.Fatalf("program %d, access %d: %+v", seed, i, *p)
			}
		}
		saved += m.saved
	}
	if t.Logf("%d accesses are ordered by observation", saved); saved < int(programs)/30 {
		t.Error("too few")
	}
}

func (m *observer) random(r *rand.Rand, inst int) *past {
	size := 4 >> r.IntN(2) // of the second word the halves are apart
	p := &past{block: r.IntN(modelBlocks), thread: r.IntN(2) * 40}
	p.Access = Access{Bytes: 4, Inst: inst, Blind: r.IntN(4) == 0, Shared: false}
	if r.IntN(2) == 0 && size == 2 {
		p.Addr, p.Bytes = 4, 2
	}
	switch strong := Strong.With(Device); r.IntN(8) {
	case 0:
		p.Kind = Write
	case 1:
	case 2, 3:
		p.Kind = strong
	case 4:
		p.Kind = strong | Write
	default:
		p.Kind, p.Update = strong|Write|Atomic, true
	}
	return p
}

// access lets the detector and the model check an access. It reports whether they agree.
func (m *observer) access(q *past) bool {
	q.phase = m.phase[q.block]
	c := &m.chains[q.Addr/4]
	known, want, without := c.knows(q), false, false
	for _, p := range m.done {
		if !p.races(q) {
			continue
		}
		without = true
		want = want || !known || !slices.Contains(c.observed, p)
	}
	before := raceCount(m.d)
	m.blocks[q.block].Access(q.thread, &q.Access)
	if without && !want {
		m.saved++
	}
	m.observe(c, q, known)
	return raceCount(m.d) > before == want
}

// observe adds an access to a chain.
func (m *observer) observe(c *chain, q *past, known bool) {
	switch {
	case q.Kind&Strong == 0:
		if c.head != nil && q.Kind&Write != 0 && (known || c.head.before(q)) {
			c.head = nil // a later read finds the weak write
		}
		if q.Kind&Write != 0 && known { // it stands for what its thread has found
			m.done = slices.DeleteFunc(m.done, func(p *past) bool { return slices.Contains(c.observed, p) })
		}
	case q.Kind&Write == 0:
		if !q.Blind && c.head != nil && !known {
			c.watchers = append(c.watchers, q)
		}
	default:
		if !q.Update && !known {
			c.observed = slices.DeleteFunc(c.observed, func(p *past) bool { return !p.before(q) })
		}
		// A strong write stands for the strong accesses before it, and for those that it has found.
		found := q.Update && !q.Blind || known || c.head == nil
		m.done = slices.DeleteFunc(m.done, func(p *past) bool {
			return p.Kind&Strong != 0 && p.Addr == q.Addr && (p.before(q) || found && slices.Contains(c.observed, p))
		})
		*c = chain{head: q, blind: q.Update && !found, observed: append(c.observed, q)}
	}
	m.done = append(m.done, q)
}

// TestObserveWatchers lets a thread find a head, and another one behind a barrier: both know it
// until the next strong write.
func TestObserveWatchers(t *testing.T) {
	d := New(64)
	d.Values = noValues{}
	a, b := d.Block(0, 0), d.Block(1, 0)
	strong := Strong.With(Device)
	a.Access(0, &Access{Bytes: 4, Kind: Write | strong, Inst: 1})
	b.Access(0, &Access{Bytes: 4, Kind: strong, Inst: 2})
	meet(b)
	b.Access(40, &Access{Bytes: 4, Inst: 3})
	if n := raceCount(d); n != 0 || len(d.watchers) != 1 {
		t.Errorf("%d races, %d words with watchers", n, len(d.watchers))
	}
	a.Access(0, &Access{Bytes: 4, Kind: Write | strong, Inst: 4})
	before := raceCount(d)
	if b.Access(0, &Access{Bytes: 4, Inst: 5}); raceCount(d) == before || len(d.watchers) != 0 {
		t.Errorf("no race behind another strong write; %d words with watchers", len(d.watchers))
	}
}
