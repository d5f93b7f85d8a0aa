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
	names  []named // by instruction of the body; the last is the return behind it
	blocks []basicBlock
	only   []int // by register: the instruction that alone writes it, -1 if there is none
}

// basicBlock is a part of a body. No branch enters it but at its first instruction, and none
// leaves it but at its last one. A label to which no branch jumps begins no block, and
// neither does a branch to the next instruction.
type basicBlock struct {
	first, end int   // instructions first to end-1
	next, prev []int // the blocks that may follow, and those that may come before
}

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

// basicBlocks returns the blocks of a function in the order of the text. The last of these is the
// return behind the body. An empty block follows for each table of labels: all its branches lead
// there, and it to the labels, so branches times labels cost nothing.
func (f *function) basicBlocks() []basicBlock {
	var all []basicBlock
	starts := f.blockStarts()
	number := make([]int, len(starts)) // of the block of each instruction
	for i, start := range starts {
		if start {
			all = append(all, basicBlock{first: i})
		}
		number[i] = len(all) - 1
		all[len(all)-1].end = i + 1
	}
	tables := map[string]int{} // their blocks
	for k := range number[len(starts)-1] {
		last := all[k].end - 1
		var next []int
		for _, at := range f.jumps(last) {
			next = append(next, number[at])
		}
		if name := f.tableOf(last); name != "" {
			if tables[name] == 0 {
				tables[name] = len(all)
				all = append(all, basicBlock{first: len(starts), end: len(starts)})
				linkBlocks(all, tables[name], f.blocksOf(name, number))
			}
			next = append(next, tables[name])
		}
		if !f.leaves(last) || f.src.Body[last].Guard != "" {
			next = append(next, number[last+1])
		}
		linkBlocks(all, k, next)
	}
	return all
}

// linkBlocks records which blocks may follow block k.
func linkBlocks(all []basicBlock, k int, next []int) {
	slices.Sort(next)
	all[k].next = slices.Compact(next)
	for _, n := range all[k].next {
		all[n].prev = append(all[n].prev, k)
	}
}

// blocksOf returns the blocks of the labels of a table. number is the block of each instruction.
func (f *function) blocksOf(table string, number []int) (all []int) {
	for _, label := range f.src.Tables[table] {
		if at, ok := f.src.Labels[label]; ok {
			all = append(all, number[at])
		}
	}
	return all
}

// blockStarts reports which instructions begin a block.
func (f *function) blockStarts() []bool {
	end := len(f.src.Body)
	starts, tables := make([]bool, end+1), map[string]bool{}
	starts[0], starts[end] = true, true
	for i := range f.src.Body {
		for _, at := range f.jumps(i) {
			starts[at] = true
		}
		starts[i+1] = starts[i+1] || f.leaves(i)
		name := f.tableOf(i)
		if name == "" || tables[name] {
			continue
		}
		tables[name] = true
		for _, label := range f.src.Tables[name] {
			if at, ok := f.src.Labels[label]; ok {
				starts[at] = true
			}
		}
	}
	return starts
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

// jumps returns where the branch at i jumps, but for the branches of a table. It has no targets
// if it is no branch, or jumps to the next instruction.
func (f *function) jumps(i int) (to []int) {
	in := &f.src.Body[i]
	if in.Op != "bra" || f.passes(i) {
		return nil
	}
	for _, o := range in.Operands {
		if s, ok := o.(ptx.Sym); ok {
			if at, ok := f.src.Labels[s.Name]; ok {
				to = append(to, at)
			}
		}
	}
	return to
}

// tableOf returns the name of the table of labels of the branch at i, "" if it has none.
func (f *function) tableOf(i int) string {
	in := &f.src.Body[i]
	if in.Op != "brx" || len(in.Operands) < 2 {
		return ""
	}
	s, _ := in.Operands[1].(ptx.Sym)
	return s.Name
}
