package simt

import (
	"math/bits"
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// basicBlock is a part of the body without a branch or a label inside: a basic block.
type basicBlock struct {
	first, end int   // instructions first to end-1
	next, prev []int // the blocks that may follow, and those that may come before
	read       bitset
	written    bitset // before any read
	live       bitset // on entry
}

// bitset is a set of registers.
type bitset []uint64

func (s bitset) has(i int32) bool { return s[i>>6]>>(i&63)&1 != 0 }
func (s bitset) add(i int32)      { s[i>>6] |= 1 << (i & 63) }
func (s bitset) remove(i int32)   { s[i>>6] &^= 1 << (i & 63) }

// Bounds for functions that are made to cost much. Compilers stay far below.
const (
	livenessEdges = 1 << 18 // branches between blocks
	livenessWords = 1 << 19 // of a set of registers for each block: 4 MiB
	livenessWork  = 1 << 26 // words that liveness computes
)

// basicBlocks returns the blocks of a function, nil if there are too many branches. The
// order of execution is that of the branches, so nothing that is found from blocks depends
// on their order in the text.
func (f *function) basicBlocks() []*basicBlock {
	body := f.src.Body
	starts := f.targets()
	starts[0] = true
	for i := range body {
		if endsBlock(&body[i]) {
			starts[i+1] = true
		}
	}
	at := make([]int, len(body)+1) // the block of each instruction that begins one
	var all []*basicBlock
	for i := range body {
		if starts[i] {
			at[i] = len(all)
			all = append(all, &basicBlock{first: i})
		}
		all[len(all)-1].end = i + 1
	}
	edges := 0
	for i, b := range all {
		to := f.followers(b)
		if edges += len(to); edges > livenessEdges {
			return nil
		}
		for _, to := range to {
			if to < len(body) {
				b.next = append(b.next, at[to])
				all[at[to]].prev = append(all[at[to]].prev, i)
			}
		}
	}
	return all
}

// endsBlock reports whether the instruction after in need not follow it.
func endsBlock(in *ptx.Instr) bool {
	switch in.Op {
	case "bra", "brx", "ret", "exit", "trap":
		return true
	}
	return false
}

// followers returns the instructions that may follow a block.
func (f *function) followers(b *basicBlock) []int {
	in := &f.src.Body[b.end-1]
	var to []int
	if in.Guard != "" || !endsBlock(in) {
		to = append(to, b.end)
	}
	for _, o := range in.Operands {
		s, ok := o.(ptx.Sym)
		switch {
		case !ok || in.Op != "bra" && in.Op != "brx":
		case in.Op == "bra":
			to = append(to, f.src.Labels[s.Name])
		default:
			for _, name := range f.src.Tables[s.Name] {
				to = append(to, f.src.Labels[name])
			}
		}
	}
	return to
}

// readsFirst are operations whose first operand is read if it is a register.
var readsFirst = []string{"bar", "barrier", "brx", "call", "nanosleep", "stackrestore", "setmaxnreg"}

// writesFirst reports whether an instruction writes its first operand.
func writesFirst(in *ptx.Instr) bool {
	if len(in.Operands) == 0 {
		return false
	}
	switch in.Operands[0].(type) {
	case ptx.Mem:
		return false
	case ptx.List: // the results of a call
		return true
	}
	return !slices.Contains(readsFirst, in.Op) || slices.Contains(in.Mods, "red")
}

// named has the registers that an instruction reads, and those that it writes. A register
// that it writes under a predicate is read as well: it keeps its value where the predicate is
// false. Registers are counted from 0.
type named struct{ reads, writes []int32 }

// named returns the registers of each instruction of the body.
func (f *function) named() []named {
	all := make([]named, len(f.src.Body))
	list := make([]int32, 0, 4*len(all))
	add := func(name string) {
		if r, ok := f.regs[name]; ok && !r.pred {
			list = append(list, r.index-f.firstReg)
		}
	}
	for i := range all {
		in := &f.src.Body[i]
		writes, from := writesFirst(in), len(list)
		if writes {
			registersOf(in.Operands[0], add)
		}
		read := len(list)
		for j, o := range in.Operands {
			if j > 0 || !writes {
				registersOf(o, add)
			}
		}
		all[i] = named{reads: list[read:len(list):len(list)], writes: list[from:read:read]}
		if in.Guard != "" {
			all[i].reads = list[from:len(list):len(list)]
		}
	}
	return all
}

// liveness finds which registers have a value on entry to each block that the code can
// still read. n is the number of registers. It reports false if that takes too long.
func liveness(blocks []*basicBlock, names []named, n int) bool {
	words := (n + 63) / 64
	for _, b := range blocks {
		b.read, b.written, b.live = make(bitset, words), make(bitset, words), make(bitset, words)
		for _, in := range names[b.first:b.end] {
			for _, r := range in.reads {
				if !b.written.has(r) {
					b.read.add(r)
				}
			}
			for _, r := range in.writes {
				b.written.add(r)
			}
		}
	}
	var list []int
	waits := make([]bool, len(blocks))
	push := func(i int) {
		if !waits[i] {
			waits[i] = true
			list = append(list, i)
		}
	}
	for i := range blocks {
		push(i)
	}
	for work := 0; len(list) > 0; {
		i := list[len(list)-1]
		list = list[:len(list)-1]
		waits[i] = false
		b := blocks[i]
		if work += words * (1 + len(b.next)); work > livenessWork {
			return false
		}
		if b.update(blocks) {
			for _, p := range b.prev {
				push(p)
			}
		}
	}
	return true
}

// update computes live anew from the blocks that may follow. It reports whether it changed.
func (b *basicBlock) update(blocks []*basicBlock) (changed bool) {
	for w := range b.live {
		after := uint64(0)
		for _, n := range b.next {
			after |= blocks[n].live[w]
		}
		v := b.read[w] | after&^b.written[w]
		changed = changed || v != b.live[w]
		b.live[w] = v
	}
	return changed
}

// pressureOf returns the most words that are needed at one instruction of a block: those of
// the registers that have a value which is read later, and of those that it names.
func (b *basicBlock) pressureOf(blocks []*basicBlock, names []named, words []int) int {
	live := make(bitset, len(b.live))
	for _, n := range b.next {
		for w := range live {
			live[w] |= blocks[n].live[w]
		}
	}
	now := 0
	for w := range live {
		for m := live[w]; m != 0; m &= m - 1 {
			now += words[w*64+bits.TrailingZeros64(m)]
		}
	}
	add := func(list []int32) {
		for _, r := range list {
			if !live.has(r) {
				live.add(r)
				now += words[r]
			}
		}
	}
	most := now
	for i := b.end - 1; i >= b.first; i-- {
		add(names[i].reads)
		add(names[i].writes)
		most = max(most, now)
		for _, r := range names[i].writes {
			if live.has(r) {
				live.remove(r)
				now -= words[r]
			}
		}
		add(names[i].reads)
	}
	return most
}
