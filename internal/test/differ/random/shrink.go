package random

import "slices"

// Shrink returns a smaller program for which wrong is still true. It removes nodes, and
// replaces branches and loops by their contents. wrong must be true for p.
func Shrink(p *Program, wrong func(*Program) bool) *Program {
	for {
		smaller, ok := step(p, wrong)
		if !ok {
			return p
		}
		p = smaller
	}
}

// step returns the first smaller program that is still wrong.
func step(p *Program, wrong func(*Program) bool) (*Program, bool) {
	for n := len(p.body) / 2; n > 0; n /= 2 { // many nodes at once, because most do not matter
		for i := 0; i+n <= len(p.body); i += n {
			q := &Program{Seed: p.Seed, body: slices.Delete(slices.Clone(p.body), i, i+n)}
			if wrong(q) {
				return q, true
			}
		}
	}
	for _, body := range smaller(p.body) {
		if q := (&Program{Seed: p.Seed, body: body}); wrong(q) {
			return q, true
		}
	}
	return p, false
}

// smaller returns variants of nodes. In each, one node is removed, has no guard, or is
// replaced by the nodes in it.
func smaller(all []node) [][]node {
	var out [][]node
	with := func(i int, by ...node) {
		out = append(out, slices.Concat(all[:i], by, all[i+1:]))
	}
	for i, n := range all {
		with(i)
		if n.text != "" {
			if n.guard != "" {
				with(i, node{text: n.text})
			}
			continue
		}
		with(i, n.inner...)
		with(i, n.rest...)
		for _, inner := range smaller(n.inner) {
			m := n
			m.inner = inner
			with(i, m)
		}
		for _, rest := range smaller(n.rest) {
			m := n
			m.rest = rest
			with(i, m)
		}
	}
	return out
}
