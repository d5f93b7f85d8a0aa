package simt

import (
	"github.com/ferrygpu/ferry/ptx"
)

// execPure runs an instruction that only computes, for some of the lanes or for all. Inactive lanes
// compute, too. Only the active ones keep their result.
func execPure(w *warp, in *inst) {
	if !w.full {
		execMasked(w, in)
		return
	}
	f := w.f
	ka, kb, kc := f.tags[in.a].kind, f.tags[in.b].kind, f.tags[in.c].kind
	if ka&kKnown != 0 && kb&kKnown != 0 && kc&kKnown != 0 && w.scalar && f.few(int(in.d), int(in.a), int(in.b), int(in.c), in.vec, in.aff) {
		return
	}
	if ka&kLanes == 0 {
		f.expand(in.a)
	}
	if kb&kLanes == 0 {
		f.expand(in.b)
	}
	if kc&kLanes == 0 {
		f.expand(in.c)
	}
	in.vec(&f.regs[in.d], &f.regs[in.a], &f.regs[in.b], &f.regs[in.c], w.n)
	f.tags[in.d].kind = kLanes
}

func execMasked(w *warp, in *inst) {
	f := w.f
	a, b, c := f.expand(in.a), f.expand(in.b), f.expand(in.c)
	in.vec(&w.k.tmp, a, b, c, span(w.active))
	w.keep(in.d)
}

// keep writes the worker's scratch register to the active lanes of register d.
func (w *warp) keep(d int32) {
	r := w.f.expand(d)
	w.f.tags[d] = tag{kind: kLanes}
	simd.keep(r, &w.k.tmp, w.active)
}

// write does the same as keep, but a full warp takes a faster path.
func (w *warp) write(d int32) {
	if w.full {
		w.f.regs[d] = w.k.tmp
		w.f.tags[d] = tag{kind: kLanes}
		return
	}
	w.keep(d)
}

// writeUniform writes one value to the active lanes of register d.
func (w *warp) writeUniform(d int32, v uint64) {
	if w.full && w.scalar {
		w.f.regs[d][0] = v
		w.f.tags[d] = tag{kind: kUniform}
		return
	}
	for i := range w.k.tmp {
		w.k.tmp[i] = v
	}
	w.write(d)
}

// dest returns the register that an operation for all lanes writes. Every lane is
// stored.
func (w *warp) dest(d int32) *lanes {
	if w.full {
		w.f.tags[d] = tag{kind: kLanes}
		return &w.f.regs[d]
	}
	return w.f.expandFor(d)
}

// combine is what a comparison does with its result.
type combine struct {
	op    string // "and", "or", "xor" with predicate c, or ""
	c     int32
	cNot  uint32
	order uint8 // for integers: which of less, equal and greater make the comparison true
	typ   ptx.Type
}

const (
	less = 1 << iota
	equal
	greater
)

// execSetp compares and writes one or two predicates.
func execSetp(w *warp, in *inst) {
	m, c := w.compare(in), in.aux.(*combine)
	not := ^m
	if c.op != "" {
		p := w.f.preds[c.c] ^ c.cNot
		m, not = c.join(m, p), c.join(not, p)
	}
	active := w.active
	p := &w.f.preds[in.p]
	*p = *p&^active | m&active
	if in.q >= 0 {
		q := &w.f.preds[in.q]
		*q = *q&^active | not&active
	}
}

func (c *combine) join(m, p uint32) uint32 {
	switch c.op {
	case "and":
		return m & p
	case "or":
		return m | p
	}
	return m ^ p
}

// compare returns the mask of the lanes for which the comparison holds.
func (w *warp) compare(in *inst) uint32 {
	f := w.f
	ta, tb := &f.tags[in.a], &f.tags[in.b]
	n := span(w.active)
	if w.full && w.scalar {
		if ta.kind&tb.kind&kUniform != 0 {
			return -in.cmp(&f.regs[in.a], &f.regs[in.b], 1)
		}
		if c := in.aux.(*combine); c.order != 0 && ta.kind&(kUniform|kAffine) != 0 && tb.kind&(kUniform|kAffine) != 0 {
			if m, ok := w.compareEnds(in, c); ok {
				return m
			}
		}
	}
	return in.cmp(f.expand(in.a), f.expand(in.b), n)
}

// compareEnds compares affine integers by their first and last lanes.
func (w *warp) compareEnds(in *inst, c *combine) (uint32, bool) {
	var first, last int64
	switch c.typ {
	case ptx.S32, ptx.U32, ptx.B32:
		a, sa, ok := w.affine32(in.a, c.typ == ptx.S32)
		b, sb, ok2 := w.affine32(in.b, c.typ == ptx.S32)
		if !ok || !ok2 {
			return 0, false
		}
		first = a - b
		last = first + (sa-sb)*int64(w.n-1)
	default:
		return 0, false
	}
	switch {
	case first < 0 && last < 0:
		return mask(c.order&less != 0), true
	case first > 0 && last > 0:
		return mask(c.order&greater != 0), true
	case first == 0 && last == 0:
		return mask(c.order&equal != 0), true
	case c.order == less|equal|greater:
		return allLanes, true
	}
	return 0, false
}

// writeSelected writes yes to the active lanes in m and no to the other active lanes.
func (w *warp) writeSelected(d int32, m uint32, yes, no uint64) {
	if v := m & w.active; v == w.active {
		w.writeUniform(d, yes)
		return
	} else if v == 0 {
		w.writeUniform(d, no)
		return
	}
	for i := range w.k.tmp {
		if m>>i&1 != 0 {
			w.k.tmp[i] = yes
		} else {
			w.k.tmp[i] = no
		}
	}
	w.write(d)
}
