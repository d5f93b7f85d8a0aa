package hostmap

import (
	"math/rand/v2"
	"weak"
)

// part is the range of addresses of an owner, from its claim until it has released its last
// entry. If the owner was lost without Close, its pointer is nil, and the part remains.
//
// It is a node of a treap: a search tree by rising start, which is a heap by random
// priorities, and so has a depth of about log n. Map.mu guards all fields.
type part struct {
	start, end uint64
	owner      weak.Pointer[Owner]
	number     uint64 // rises with each part: the order of the claims
	entries    int    // of the owner, that are not released

	left, right *part
	priority    uint32
	furthest    uint64 // the largest end in this tree
}

// parts are the parts of a Map. They may overlap.
type parts struct {
	root *part
	last uint64 // the number of the newest part
}

// add adds an owner, which then has some entries.
func (s *parts) add(o *Owner, entries int) *part {
	s.last++
	p := &part{start: o.Start, end: o.End, owner: weak.Make(o), number: s.last, entries: entries, priority: rand.Uint32()}
	before, after := split(s.root, p)
	s.root = join(join(before, p.update()), after)
	return p
}

// release notes that the owner of a part has one entry less. The part ends with the last one.
func (s *parts) release(p *part) {
	if p.entries--; p.entries == 0 {
		s.root = without(s.root, p)
	}
}

// visit calls f for the parts that share bytes with a range, by rising start, and returns how
// many parts it has looked at.
func (s *parts) visit(start, end uint64, f func(p *part)) int { return s.root.visit(start, end, f) }

func (p *part) visit(start, end uint64, f func(p *part)) int {
	if p == nil || p.furthest <= start {
		return 1
	}
	n := 1 + p.left.visit(start, end, f)
	if p.start >= end {
		return n
	}
	if p.end > start {
		f(p)
	}
	return n + p.right.visit(start, end, f)
}

// before reports whether p stands before q in a tree.
func (p *part) before(q *part) bool {
	return p.start < q.start || p.start == q.start && p.number < q.number
}

// update computes what depends on the children, and returns p.
func (p *part) update() *part {
	p.furthest = p.end
	for _, child := range [...]*part{p.left, p.right} {
		if child != nil {
			p.furthest = max(p.furthest, child.furthest)
		}
	}
	return p
}

// split divides a tree into the parts before q and the others.
func split(p, q *part) (before, after *part) {
	switch {
	case p == nil:
		return nil, nil
	case p.before(q):
		p.right, after = split(p.right, q)
		return p.update(), after
	}
	before, p.left = split(p.left, q)
	return before, p.update()
}

// join makes one tree of two. All parts of the first stand before those of the second.
func join(p, q *part) *part {
	switch {
	case p == nil:
		return q
	case q == nil:
		return p
	case p.priority > q.priority:
		p.right = join(p.right, q)
		return p.update()
	}
	q.left = join(p, q.left)
	return q.update()
}

// without removes q from a tree.
func without(p, q *part) *part {
	switch {
	case p == nil:
		return nil
	case p == q:
		return join(p.left, p.right)
	case q.before(p):
		p.left = without(p.left, q)
	default:
		p.right = without(p.right, q)
	}
	return p.update()
}
