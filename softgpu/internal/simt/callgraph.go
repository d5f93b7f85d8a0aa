package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// components finds the strongly connected components of a graph by the algorithm of Tarjan:
// nodes that all reach each other. What holds for a node can then be found from what holds for
// those behind it, each node once: the time is in proportion to the edges.
type components struct {
	next  func(n int32, fn func(c int32)) // calls fn with the nodes behind a node
	done  func(component []int32)         // called with each component, after those behind it
	index []int32                         // in the order of the visits, from 1; 0 if a node was not visited
	low   []int32                         // the least index of an open node that a node is known to reach
	open  []int32                         // nodes whose component is not complete, in the order of the visits
	count int32
}

// closed is the low of nodes whose component is complete.
const closed = 1<<31 - 1

// eachComponent calls done with the components of the nodes 0 to n-1.
func eachComponent(n int, next func(n int32, fn func(c int32)), done func(component []int32)) {
	s := &components{next: next, done: done, index: make([]int32, n), low: make([]int32, n)}
	for i := range s.index {
		if s.index[i] == 0 {
			s.visit(int32(i))
		}
	}
}

// visit looks at a node and those behind it. It nests as deeply as the path is long.
func (s *components) visit(n int32) {
	first := len(s.open)
	s.open = append(s.open, n)
	s.count++
	s.index[n], s.low[n] = s.count, s.count
	s.next(n, func(c int32) {
		if s.index[c] == 0 {
			s.visit(c)
		}
		s.low[n] = min(s.low[n], s.low[c])
	})
	if s.low[n] < s.index[n] {
		return
	}
	for _, c := range s.open[first:] {
		s.low[c] = closed
	}
	s.done(s.open[first:])
	s.open = s.open[:first]
}

// callGraph is which functions of a program may call which. A node is a function.id. One more
// node is a call through a pointer.
type callGraph struct {
	p         *Program
	addressed []*function
	recurses  []bool  // a call can lead to another call of the same function
	bounded   []bool  // nothing that it reaches recurses or calls alloca
	order     []int32 // what a node calls comes before it, but for recursions
}

// newCallGraph looks at all functions of a program, which are decoded.
func newCallGraph(p *Program) *callGraph {
	n := len(p.list) + 1
	g := &callGraph{p: p, addressed: p.addressed(), recurses: make([]bool, n), bounded: make([]bool, n)}
	eachComponent(n, g.eachNext, g.complete)
	return g
}

// eachNext calls fn with what a node may call next. A call through a pointer may be of every
// function whose address is taken.
func (g *callGraph) eachNext(n int32, fn func(c int32)) {
	next := g.addressed
	if int(n) < len(g.p.list) {
		f := g.p.list[n]
		if next = f.direct; f.indirect {
			fn(int32(len(g.p.list)))
		}
	}
	for _, c := range next {
		fn(int32(c.id))
	}
}

// complete finds what holds for the functions of a component. A compiler knows how much stack
// a kernel needs if it is bounded.
func (g *callGraph) complete(component []int32) {
	recurses, bounded := len(component) > 1, true
	for _, n := range component {
		bounded = bounded && (int(n) == len(g.p.list) || !g.p.list[n].alloca)
		g.eachNext(n, func(c int32) {
			recurses = recurses || c == n
			bounded = bounded && g.bounded[c] // not yet true within the component
		})
	}
	for _, n := range component {
		g.recurses[n], g.bounded[n] = recurses, bounded && !recurses
	}
	g.order = append(g.order, component...)
}

// findStacks predicts the stack of the functions that kernels reach whose need is not bounded.
// It adds to the stack of a kernel what the functions need that it calls by name and that do
// not recurse: a compiler makes them part of it. The kernel has room for the largest chain of
// them, whether the calls happen or not.
func (g *callGraph) findStacks() {
	reached := newReach(g.p)
	for _, f := range g.p.list {
		if f.src.Entry && !g.bounded[f.id] {
			reached.visit(f)
		}
	}
	for _, f := range reached.list {
		f.stack, f.folds = f.findStack(), !f.src.Entry && !g.recurses[f.id]
	}
	for _, n := range g.order {
		if int(n) == len(g.p.list) {
			continue
		}
		f := g.p.list[n]
		for _, c := range f.direct {
			if c.folds {
				f.folded = max(f.folded, c.stack+c.folded)
			}
		}
	}
}

// needs is what a function and all that it calls need.
type needs struct {
	registers, barriers int
	heap                bool
	bad                 *unsupported // the first instruction that cannot run, in the order of the calls
	shared              []*ptx.Var   // in the order of declaration
}

// findNeeds returns the needs of each function, by function.id. A call through a pointer counts
// as one of every function that is not an entry.
func (p *Program) findNeeds() []needs {
	all := make([]needs, len(p.list)+1)
	next := func(n int32, fn func(c int32)) {
		if int(n) == len(p.list) {
			p.eachDevice(func(f *function) { fn(int32(f.id)) })
			return
		}
		for _, c := range p.list[n].callees {
			if c == nil {
				fn(int32(len(p.list)))
			} else {
				fn(int32(c.id))
			}
		}
	}
	eachComponent(len(all), next, func(component []int32) {
		var sum needs
		for _, n := range component {
			if int(n) < len(p.list) {
				sum.add(p, p.list[n].needs())
			}
		}
		for _, n := range component {
			next(n, func(c int32) { sum.add(p, all[c]) })
		}
		for _, n := range component {
			all[n] = sum
		}
	})
	return all
}

// eachDevice calls fn with each function that is not an entry.
func (p *Program) eachDevice(fn func(f *function)) {
	for _, f := range p.list {
		if !f.src.Entry {
			fn(f)
		}
	}
}

// needs returns what the function itself needs.
func (f *function) needs() needs {
	return needs{f.pressure, f.barriers, f.heap, f.firstUnsupported(), f.program.sortShared(f.shared)}
}

// add adds the needs of a function that is called.
func (n *needs) add(p *Program, c needs) {
	n.registers = max(n.registers, c.registers)
	n.barriers = max(n.barriers, c.barriers)
	n.heap = n.heap || c.heap
	if n.bad == nil {
		n.bad = c.bad
	}
	switch {
	case len(n.shared) == 0:
		n.shared = c.shared
	case len(c.shared) > 0 && &n.shared[0] != &c.shared[0]: // long chains have one list
		n.shared = p.sortShared(slices.Concat(n.shared, c.shared))
	}
}

// sortShared returns shared variables in the order of declaration, each once.
func (p *Program) sortShared(list []*ptx.Var) []*ptx.Var {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *ptx.Var) int { return p.declared[a] - p.declared[b] })
	return slices.Compact(list)
}

// reach collects functions and all that they call, in the order of the calls. An indirect call
// counts as a call of every function that is not an entry.
type reach struct {
	p    *Program
	list []*function
	seen bitset // by function.id
	any  bool   // it has every function that is not an entry
}

func newReach(p *Program) *reach { return &reach{p: p, seen: newBitset(len(p.list))} }

// visit adds a function and what it calls.
func (r *reach) visit(f *function) {
	if r.seen.has(int32(f.id)) {
		return
	}
	r.seen.add(int32(f.id))
	r.list = append(r.list, f)
	for _, c := range f.callees {
		if c != nil {
			r.visit(c)
		} else if !r.any {
			r.any = true
			r.p.eachDevice(r.visit)
		}
	}
}

// reachable returns fn and all functions that it calls, in the order of the calls.
func reachable(fn *function) []*function {
	r := newReach(fn.program)
	r.visit(fn)
	return r.list
}
