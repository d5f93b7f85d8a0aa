package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// lifetime is the part of a function in which a register has a value: from the first
// instruction that names it to the last one, as indices into the body.
type lifetime struct{ first, last int }

// loopWork bounds the loops times registers that textPressure looks at.
const loopWork = 1 << 24

// findPressure estimates how many 32-bit registers a thread of the function needs at once: the
// most that hold a value which the code can still read, by the paths of the branches.
// Predicates count nothing. A compiler moves instructions, so its number differs.
func (fl *flow) findPressure() (most int) {
	l, words := fl.liveness(false), fl.words(0)
	if l == nil {
		return fl.textPressure(words)
	}
	live := newBitset(len(words))
	for k := range l.blocks {
		most = max(most, l.pressureOf(k, l.after(k, live), words))
	}
	return most
}

// words returns the 32-bit registers that each declared register takes. predicate is for a
// predicate.
func (f *function) words(predicate int) []int {
	words := make([]int, f.regIDs())
	for _, r := range f.regs {
		if words[f.regID(r)] = predicate; !r.pred {
			words[f.regID(r)] = (r.typ.Size() + 3) / 4
		}
	}
	return words
}

// pressureOf returns the most words of registers that one instruction of a block needs. These are
// the registers that it names, and those with a value that a later instruction reads. live are
// the registers that are needed after the block.
func (l *liveness) pressureOf(k int, live bitset, words []int) int {
	now := live.words(words)
	add := func(list []int32) {
		for _, r := range list {
			if !live.has(r) {
				live.add(r)
				now += words[r]
			}
		}
	}
	remove := func(list []int32) {
		for _, r := range list {
			if live.has(r) {
				live.remove(r)
				now -= words[r]
			}
		}
	}
	most := now
	for i := l.blocks[k].end - 1; i >= l.blocks[k].first; i-- {
		a := &l.names[i]
		add(a.reads)
		add(a.writes)
		most = max(most, now)
		remove(a.writes)
		add(a.reads)
		if a.guarded {
			add(a.writes)
		}
	}
	return most
}

// textPressure is findPressure from the order of the text, for large functions. It counts the
// registers whose lifetimes in the text overlap. A register that has a value before a loop
// and is named in the loop keeps its value until the loop ends.
func (fl *flow) textPressure(words []int) (most int) {
	lives := fl.lifetimes()
	fl.extend(lives)
	change := make([]int, len(fl.names)+1)
	for r, l := range lives {
		change[l.first] += words[r]
		change[l.last+1] -= words[r]
	}
	now := 0
	for _, c := range change {
		now += c
		most = max(most, now)
	}
	return most
}

// lifetimes returns the lifetime of each register that an instruction names. It ignores loops.
func (fl *flow) lifetimes() map[int32]*lifetime {
	lives := map[int32]*lifetime{}
	for i := range fl.names {
		for _, list := range [][]int32{fl.names[i].writes, fl.names[i].reads} {
			for _, r := range list {
				if lives[r] == nil {
					lives[r] = &lifetime{first: i}
				}
				lives[r].last = i
			}
		}
	}
	return lives
}

// extend makes registers that a loop needs last until its end. Loops come in the order
// of their ends, so inner loops come before those around them.
func (fl *flow) extend(lives map[int32]*lifetime) {
	for end, work := 0, 0; end < len(fl.src.Body) && work < loopWork; end++ {
		if fl.src.Body[end].Op != "bra" {
			continue
		}
		to := fl.jumps(end)
		if len(to) == 0 || to[0] > end {
			continue
		}
		work += len(lives)
		for _, l := range lives {
			if l.first < to[0] && l.last >= to[0] && l.last < end {
				l.last = end
			}
		}
	}
}

// findBarriers returns how many barriers of a block the function can use: one more than
// the highest number, or all if a number is in a register.
func (f *function) findBarriers() int {
	n := 0
	for i := range f.src.Body {
		in := &f.src.Body[i]
		if in.Op != "bar" && in.Op != "barrier" || len(in.Operands) == 0 || slices.Contains(in.Mods, "warp") || slices.Contains(in.Mods, "cluster") {
			continue
		}
		at := in.Operands[0]
		if slices.Contains(in.Mods, "red") && len(in.Operands) > 1 {
			at = in.Operands[1]
		}
		id, ok := at.(ptx.Imm)
		if !ok {
			return barriers
		}
		n = max(n, min(int(id.Value&0xff)+1, barriers))
	}
	return n
}
