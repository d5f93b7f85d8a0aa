package kernelrace

import (
	"maps"
	"slices"
)

const warpSize = 32

// clock says which intervals of other threads came before. It does not change once
// another thread can see it.
type clock struct {
	block uint32           // the block of part own
	own   part             // its threads
	rest  map[uint32]*part // threads of other blocks; the parts do not change
	late  bool             // a thread has acquired a word that another launch or the host may have released
	word  *word            // the word whose releases made this clock, if it is the clock of one word
}

// part is the clock of the threads of one block. The last interval seen of a thread is
// the highest of three: that of the block, of its warp, and its own.
type part struct {
	all   uint32
	warps []warpPart
}

type warpPart struct {
	all   uint32
	lanes *[warpSize]uint32 // does not change; nil stands for zeros
}

// at returns the last interval seen of thread t.
func (p *part) at(t uint32) uint32 {
	n := p.all
	if w := t / warpSize; w < uint32(len(p.warps)) {
		x := &p.warps[w]
		n = max(n, x.all)
		if x.lanes != nil {
			n = max(n, x.lanes[t%warpSize])
		}
	}
	return n
}

// warp returns warp w for a change. The part must own its slice.
func (p *part) warp(w int) *warpPart {
	for len(p.warps) <= w {
		p.warps = append(p.warps, warpPart{})
	}
	return &p.warps[w]
}

// setLane records that interval n of thread t was seen.
func (p *part) setLane(t int, n uint32) {
	w := p.warp(t / warpSize)
	l := new([warpSize]uint32)
	if w.lanes != nil {
		*l = *w.lanes
	}
	l[t%warpSize] = max(n, l[t%warpSize])
	w.lanes = l
}

// join adds what q has seen.
func (p *part) join(q *part) {
	p.all = max(p.all, q.all)
	for i := range q.warps {
		to, from := p.warp(i), &q.warps[i]
		to.all = max(to.all, from.all)
		switch {
		case from.lanes == nil || from.lanes == to.lanes:
		case to.lanes == nil:
			to.lanes = from.lanes
		default:
			l := *to.lanes
			for j, n := range from.lanes {
				l[j] = max(l[j], n)
			}
			to.lanes = &l
		}
	}
}

func (p *part) clone() part { return part{p.all, slices.Clone(p.warps)} }

// cloneFor returns a copy that may be changed, for threads of a block.
func (c *clock) cloneFor(block uint32) *clock {
	out := &clock{block: block}
	if c != nil {
		out.join(c)
	}
	return out
}

// join adds what o has seen to c. The caller is still the only user of c.
func (c *clock) join(o *clock) {
	c.late = c.late || o.late
	c.joinPart(o.block, &o.own)
	if len(o.rest) > 0 && len(c.rest) == 0 && o.block == c.block {
		c.rest = maps.Clone(o.rest)
		return
	}
	for block, p := range o.rest {
		c.joinPart(block, p)
	}
}

func (c *clock) joinPart(block uint32, p *part) {
	if block == c.block {
		c.own.join(p)
		return
	}
	old := c.rest[block]
	if old == p || p.all == 0 && len(p.warps) == 0 {
		return
	}
	if c.rest == nil {
		c.rest = map[uint32]*part{}
	}
	if old == nil {
		c.rest[block] = p
		return
	}
	sum := old.clone()
	sum.join(p)
	c.rest[block] = &sum
}

// joined returns a clock for threads of a block with what a and b have seen.
func joined(block uint32, a, b *clock) *clock {
	if b == nil || a == b {
		return a
	}
	if a == nil && b.block == block {
		return b
	}
	c := a.cloneFor(block)
	c.join(b)
	return c
}
