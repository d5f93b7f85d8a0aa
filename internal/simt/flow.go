package simt

import (
	"maps"
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// joinBlock is a part of a function's body. No branch enters it but at its first instruction,
// and none leaves it but at its last one.
type joinBlock struct {
	from, to int   // instructions from to to-1
	next     []int // the blocks that may follow
}

// joinBlocks returns the basic blocks of a function, in the order of the text. A label to
// which no branch jumps begins no block, and neither does a branch to the next instruction.
func joinBlocks(f *ptx.Func) []joinBlock {
	starts := make([]bool, len(f.Body)+1)
	starts[0] = true
	for i := range f.Body {
		to := targets(f, i)
		for _, at := range to {
			starts[at] = true
		}
		starts[i+1] = starts[i+1] || leaves(&f.Body[i]) && !passes(f, i)
	}
	var all []joinBlock
	number := make([]int, len(f.Body)+1)
	for i := range f.Body {
		if starts[i] {
			all = append(all, joinBlock{from: i})
		}
		number[i] = len(all) - 1
		all[len(all)-1].to = i + 1
	}
	for k := range all {
		all[k].next = following(f, all[k].to-1, number)
	}
	return all
}

// leaves reports whether an instruction may continue elsewhere than at the next one.
func leaves(in *ptx.Instr) bool {
	switch in.Op {
	case "bra", "brx", "ret", "exit", "trap", "brkpt":
		return true
	}
	return false
}

// passes reports whether instruction i is a branch to the next instruction.
func passes(f *ptx.Func, i int) bool {
	in := &f.Body[i]
	if in.Op != "bra" || len(in.Operands) == 0 {
		return false
	}
	s, ok := in.Operands[0].(ptx.Sym)
	return ok && f.Labels[s.Name] == i+1
}

// targets returns where the branch at i may jump. It has none if it is no branch, or jumps to
// the next instruction.
func targets(f *ptx.Func, i int) []int {
	if in := &f.Body[i]; !leaves(in) || passes(f, i) {
		return nil
	}
	var to []int
	for _, o := range f.Body[i].Operands {
		s, ok := o.(ptx.Sym)
		if !ok {
			continue
		}
		for _, label := range append([]string{s.Name}, f.Tables[s.Name]...) {
			if at, ok := f.Labels[label]; ok {
				to = append(to, at)
			}
		}
	}
	return to
}

// following returns the blocks that may run after the one with the last instruction i. number
// has the block of each instruction.
func following(f *ptx.Func, i int, number []int) []int {
	to := targets(f, i)
	if in := &f.Body[i]; !leaves(in) || passes(f, i) || in.Guard != "" {
		to = append(to, i+1)
	}
	next := map[int]bool{}
	for _, at := range to {
		if at < len(f.Body) {
			next[number[at]] = true
		}
	}
	return slices.Sorted(maps.Keys(next))
}

// joinLiveness is which registers have a value that is needed: one that a store, a branch or
// another instruction with an effect depends on.
type joinLiveness struct {
	f       *ptx.Func
	blocks  []joinBlock
	numbers map[string]int // of registers
	reads   [][]int        // registers by instruction
	writes  [][]int
	keeps   []bool     // a part of what was in the written registers may stay
	after   [][]uint64 // bits of the registers that are needed after a block
}

// maxLiveness bounds the memory of an analysis: blocks times words of registers. The largest
// functions of compilers need a hundredth of it. maxFlow bounds its work, in instructions.
const (
	maxLiveness = 1 << 22
	maxFlow     = 1 << 26
)

// findLiveness analyses a function. It returns nil for one that is too large.
func findLiveness(f *ptx.Func) *joinLiveness {
	l := &joinLiveness{f: f, blocks: joinBlocks(f), numbers: map[string]int{}, reads: make([][]int, len(f.Body)), writes: make([][]int, len(f.Body)), keeps: make([]bool, len(f.Body))}
	for i := range f.Body {
		in := &f.Body[i]
		eachSource(in, func(name string, _ int) { l.reads[i] = append(l.reads[i], l.number(whole(name))) })
		eachDestination(in, func(name string) {
			l.writes[i] = append(l.writes[i], l.number(whole(name)))
			l.keeps[i] = l.keeps[i] || name != whole(name) || in.Guard != "" || in.Op == "call"
		})
	}
	words := (len(l.numbers) + 63) / 64
	if words*len(l.blocks) > maxLiveness {
		return nil
	}
	l.after = make([][]uint64, len(l.blocks))
	before := make([][]uint64, len(l.blocks))
	for k := range l.blocks {
		l.after[k], before[k] = make([]uint64, words), make([]uint64, words)
	}
	for changed, work := true, 0; changed; work += len(f.Body) {
		if changed = false; work > maxFlow {
			return nil
		}
		for k := len(l.blocks) - 1; k >= 0; k-- {
			for _, n := range l.blocks[k].next {
				for w, bits := range before[n] {
					l.after[k][w] |= bits
				}
			}
			live := slices.Clone(l.after[k])
			l.walk(k, live, nil)
			changed = changed || !slices.Equal(live, before[k])
			before[k] = live
		}
	}
	return l
}

func (l *joinLiveness) number(name string) int {
	n, ok := l.numbers[name]
	if !ok {
		n = len(l.numbers)
		l.numbers[name] = n
	}
	return n
}

// walk goes through a block from its end. live is the registers that are needed there, and
// becomes those that are needed at its start. needed is called with each instruction that is
// needed itself.
func (l *joinLiveness) walk(k int, live []uint64, needed func(i int)) {
	has := func(r int) bool { return live[r/64]>>(r%64)&1 != 0 }
	for i := l.blocks[k].to - 1; i >= l.blocks[k].from; i-- {
		in := &l.f.Body[i]
		if pure(in) && !slices.ContainsFunc(l.writes[i], has) {
			continue
		}
		if !l.keeps[i] {
			for _, r := range l.writes[i] {
				live[r/64] &^= 1 << (r % 64)
			}
		}
		for _, r := range l.reads[i] {
			live[r/64] |= 1 << (r % 64)
		}
		if needed != nil {
			needed(i)
		}
	}
}

// needed reports for each instruction whether something depends on it. A compiler drops the
// others.
func (l *joinLiveness) needed() []bool {
	all := make([]bool, len(l.f.Body))
	for k := range l.blocks {
		l.walk(k, slices.Clone(l.after[k]), func(i int) { all[i] = true })
	}
	return all
}

// neededAfter reports whether a register's value is needed after a block.
func (l *joinLiveness) neededAfter(k int, name string) bool {
	r := l.numbers[name]
	return l.after[k][r/64]>>(r%64)&1 != 0
}

// pure reports whether an instruction does nothing but write registers.
func pure(in *ptx.Instr) bool {
	switch in.Op {
	case "mov", "ld", "ldu", "cvta", "isspacep", "add", "sub", "mul", "mad", "fma", "div", "rem", "abs", "neg", "min", "max",
		"mul24", "mad24", "sad", "dp4a", "dp2a", "and", "or", "xor", "not", "cnot", "shl", "shr", "shf", "lop3", "prmt",
		"bfe", "bfi", "bfind", "brev", "popc", "clz", "fns", "bmsk", "szext", "setp", "set", "selp", "slct",
		"rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "copysign", "testp", "cvt":
	default:
		return false
	}
	return !slices.ContainsFunc(in.Mods, func(m string) bool {
		return m == "cc" || m == "volatile" || m == "relaxed" || m == "acquire" || m == "mmio"
	})
}

// eachSource calls fn with each register that an instruction reads, and the number of its
// operand, -1 for the guard. A call reads the registers of its results, too.
func eachSource(in *ptx.Instr, fn func(name string, operand int)) {
	if in.Guard != "" {
		fn(in.Guard, -1)
	}
	for k, o := range in.Operands {
		if _, address := o.(ptx.Mem); k > 0 || address || !writesOperand(in) || in.Op == "call" {
			registersOf(o, func(name string) { fn(name, k) })
		}
	}
}

// eachDestination calls fn with each register that an instruction writes.
func eachDestination(in *ptx.Instr, fn func(name string)) {
	if len(in.Operands) == 0 || !writesOperand(in) {
		return
	}
	if _, address := in.Operands[0].(ptx.Mem); !address {
		registersOf(in.Operands[0], fn)
	}
}

// writesOperand reports whether the first operand of an instruction is what it writes.
func writesOperand(in *ptx.Instr) bool {
	switch in.Op {
	case "st", "red", "bra", "brx", "ret", "exit", "trap", "brkpt", "membar", "fence", "nanosleep", "stackrestore", "stmatrix":
		return false
	case "bar", "barrier":
		return slices.Contains(in.Mods, "red")
	}
	return true
}
