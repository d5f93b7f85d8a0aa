package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// flow is what is known about the body of a function before it is decoded: its basic blocks,
// and the registers that instructions read and write. The order of execution is that of the
// branches, so nothing that is found from blocks depends on their order in the text.
type flow struct {
	*function
	names  []named      // by instruction of the body; the last is the return behind it
	blocks []basicBlock // nil if there are too many branches
	only   []int        // by register: the instruction that alone writes it, -1 if there is none
}

// basicBlock is a part of a body. No branch enters it but at its first instruction, and none
// leaves it but at its last one. A label to which no branch jumps begins no block, and
// neither does a branch to the next instruction.
type basicBlock struct {
	first, end int   // instructions first to end-1
	next, prev []int // the blocks that may follow, and those that may come before
}

// maxEdges bounds the branches between blocks, for functions that are made to cost much.
// Compilers stay far below.
const maxEdges = 1 << 18

// newFlow analyses a function.
func newFlow(f *function) *flow {
	fl := &flow{function: f, names: f.named(), blocks: f.basicBlocks()}
	fl.findOnly()
	return fl
}

// findOnly finds the registers with one definition. A call writes a parameter that is a
// register, and a return reads such a result from the frame.
func (fl *flow) findOnly() {
	fl.only = make([]int, fl.regIDs())
	count := make([]uint8, len(fl.only))
	for i := range fl.names {
		for _, r := range fl.names[i].writes {
			count[r], fl.only[r] = min(count[r]+1, 2), i
		}
	}
	for _, list := range [][]*ptx.Var{fl.src.Params, fl.src.Returns} {
		for _, v := range list {
			fl.eachID(v.Name, func(r int32) { count[r] = 2 })
		}
	}
	for r, n := range count {
		if n != 1 {
			fl.only[r] = -1
		}
	}
}

// definedOnce reports whether an operand is a register that one instruction writes.
func (fl *flow) definedOnce(o ptx.Operand) bool {
	r, ok := o.(ptx.Reg)
	if !ok || r.Special {
		return false
	}
	n, once := 0, true
	fl.eachID(regName(r), func(id int32) { n, once = n+1, once && fl.only[id] >= 0 })
	return n > 0 && once
}

// basicBlocks returns the blocks of a function in the order of the text, nil if there are too
// many branches. The last block is the return behind the body.
func (f *function) basicBlocks() []basicBlock {
	end := len(f.src.Body)
	starts := make([]bool, end+1)
	starts[0], starts[end] = true, true
	edges := 0
	for i := range f.src.Body {
		to := f.jumps(i)
		if edges += len(to); edges > maxEdges {
			return nil
		}
		for _, at := range to {
			starts[at] = true
		}
		starts[i+1] = starts[i+1] || f.leaves(i)
	}
	var all []basicBlock
	number := make([]int, end+1) // of the block of each instruction
	for i, start := range starts {
		if start {
			all = append(all, basicBlock{first: i})
		}
		number[i] = len(all) - 1
		all[len(all)-1].end = i + 1
	}
	for k := range all[:len(all)-1] {
		last := all[k].end - 1
		to := f.jumps(last)
		if !f.leaves(last) || f.src.Body[last].Guard != "" {
			to = append(to, last+1)
		}
		slices.Sort(to)
		for _, at := range slices.Compact(to) {
			all[k].next = append(all[k].next, number[at])
			all[number[at]].prev = append(all[number[at]].prev, k)
		}
	}
	return all
}

// leaves reports whether instruction i may continue elsewhere than at the next one.
func (f *function) leaves(i int) bool {
	switch f.src.Body[i].Op {
	case "bra", "brx":
		return !f.passes(i)
	case "ret", "exit", "trap", "brkpt":
		return true
	}
	return false
}

// passes reports whether instruction i is a branch to the next instruction.
func (f *function) passes(i int) bool {
	in := &f.src.Body[i]
	if in.Op != "bra" || len(in.Operands) == 0 {
		return false
	}
	s, ok := in.Operands[0].(ptx.Sym)
	return ok && f.src.Labels[s.Name] == i+1
}

// jumps returns where the branch at i may jump. It has no targets if it is no branch, or jumps
// to the next instruction.
func (f *function) jumps(i int) (to []int) {
	in := &f.src.Body[i]
	if in.Op != "bra" && in.Op != "brx" || f.passes(i) {
		return nil
	}
	for _, o := range in.Operands {
		s, ok := o.(ptx.Sym)
		if !ok {
			continue
		}
		names := []string{s.Name}
		if in.Op == "brx" {
			names = f.src.Tables[s.Name]
		}
		for _, name := range names {
			if at, ok := f.src.Labels[name]; ok {
				to = append(to, at)
			}
		}
	}
	return to
}
