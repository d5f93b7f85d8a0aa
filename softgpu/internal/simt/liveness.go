package simt

import (
	"math/bits"
	"slices"
)

// bitset is a set of registers.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (s bitset) has(i int32) bool { return s[i>>6]>>(i&63)&1 != 0 }
func (s bitset) add(i int32)      { s[i>>6] |= 1 << (i & 63) }
func (s bitset) remove(i int32)   { s[i>>6] &^= 1 << (i & 63) }

func (s bitset) union(other bitset) {
	for w, v := range other {
		s[w] |= v
	}
}

// words returns the sum of the words of the registers in the set.
func (s bitset) words(of []int) (n int) {
	for w, v := range s {
		for ; v != 0; v &= v - 1 {
			n += of[w*64+bits.TrailingZeros64(v)]
		}
	}
	return n
}

// Bounds for functions that are made to cost much. Compilers stay far below.
const (
	livenessWords = 1 << 21 // of a set of registers for each block: 16 MiB
	livenessWork  = 1 << 26 // words and instructions that liveness looks at
)

// liveness says which registers have a value on entry to each block that is needed there or
// later.
type liveness struct {
	*flow
	drops bool // what a pure instruction reads is needed only if its result is
	entry []bitset
}

// liveness finds which registers are needed. With drops, a value is needed if something with
// an effect depends on it: a store, or a branch. Without, every instruction needs what it
// reads. It returns nil if that takes too long.
func (fl *flow) liveness(drops bool) *liveness {
	words := len(newBitset(fl.regIDs()))
	if len(fl.blocks)*words > livenessWords {
		return nil
	}
	l := &liveness{fl, drops, make([]bitset, len(fl.blocks))}
	waits, list := make([]bool, len(fl.blocks)), make([]int, len(fl.blocks))
	for k := range fl.blocks {
		l.entry[k], waits[k], list[k] = make(bitset, words), true, k
	}
	live := make(bitset, words)
	for work := 0; len(list) > 0; {
		k := list[len(list)-1]
		list, waits[k] = list[:len(list)-1], false
		b := &fl.blocks[k]
		if work += words*(2+len(b.next)) + b.end - b.first; work > livenessWork {
			return nil
		}
		l.after(k, live)
		l.walk(k, live, nil)
		if slices.Equal(live, l.entry[k]) {
			continue
		}
		copy(l.entry[k], live)
		for _, p := range b.prev {
			if !waits[p] {
				waits[p], list = true, append(list, p)
			}
		}
	}
	return l
}

// after sets live to the registers that are needed after a block, and returns it.
func (l *liveness) after(k int, live bitset) bitset {
	clear(live)
	for _, n := range l.blocks[k].next {
		live.union(l.entry[n])
	}
	return live
}

// walk goes through a block from its end. live is the registers that are needed there, and
// becomes those that are needed at its start. needed is called with each instruction that is
// needed itself, while live is what is needed after it.
func (l *liveness) walk(k int, live bitset, needed func(i int)) {
	for i := l.blocks[k].end - 1; i >= l.blocks[k].first; i-- {
		a := &l.names[i]
		if l.drops && a.pure && !slices.ContainsFunc(a.writes, live.has) {
			continue
		}
		if needed != nil {
			needed(i)
		}
		if !a.guarded {
			for _, r := range a.writes {
				live.remove(r)
			}
		}
		for _, r := range a.reads {
			live.add(r)
		}
	}
}

// eachNeeded calls fn with each instruction that is needed, and the registers that are needed
// after it. fn must not change or keep them.
func (l *liveness) eachNeeded(fn func(i int, live bitset)) {
	live := newBitset(l.regIDs())
	for k := range l.blocks {
		l.walk(k, l.after(k, live), func(i int) { fn(i, live) })
	}
}
