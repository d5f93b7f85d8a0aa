package simt

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// A GPU gives each thread a stack. Where a compiler knows the depth of all calls, the driver
// makes the stack as large as they need. Where it does not, because of a recursion or a call
// through a pointer, the stack has the size of a limit of the context, 1 KiB by default. This
// file predicts what ptxas makes of each function. It was fitted to an H200: see
// docs/SEMANTICS.md.

const (
	// savedAlways are the words that a function with calls saves besides its values: the
	// return address has two.
	savedAlways = 3
	// argumentWords is how many words of arguments are in registers. Two words are counted
	// for each further one: it is on the stack, and passes through a saved register.
	argumentWords = 12
	// pressureShare is the part of the registers above freeWords that a function with calls
	// saves beyond what must be: a compiler moves instructions over calls.
	pressureShare = 4
	// apartWords is how many words the values over different calls take beyond the most
	// over one call.
	apartWords = 3
	// unsureWords is added where the compiler's choice varies: with several calls over which values last, and with
	// structures as parameters.
	unsureWords = 2
	// freeWords is how many words a function without calls has in registers that it need not
	// save. savedWords is how many registers belong to the caller.
	freeWords, savedWords = 12, 16
	wordBytes             = 4
	// alignedAlways is the alignment of every frame. More needs a word for the old end of the
	// stack.
	alignedAlways = 8
	// stackLivenessWork bounds the instructions times words of registers that findLive looks at.
	stackLivenessWork = 1 << 24
)

// boundedStack reports whether a compiler knows how much stack a kernel needs: no function
// calls itself, by way of others or not, and none calls alloca. A call through a pointer may
// be of every function whose address is taken.
func boundedStack(kernel *function, addressed []*function) bool {
	const open, done = 1, 2
	state := map[*function]int{}
	var visit func(f *function) bool
	visit = func(f *function) bool {
		if state[f] != 0 {
			return state[f] == done
		}
		state[f] = open
		if f.alloca {
			return false
		}
		for _, c := range f.direct {
			if !visit(c) {
				return false
			}
		}
		for _, c := range addressed {
			if f.indirect && !visit(c) {
				return false
			}
		}
		state[f] = done
		return true
	}
	return visit(kernel)
}

// addressed returns the functions whose address is in a variable, or is an operand of an
// instruction that does not call them.
func (p *Program) addressed() (list []*function) {
	add := func(name string) {
		if fn := p.funcs[name]; fn != nil && !fn.src.Entry && !slices.Contains(list, fn) {
			list = append(list, fn)
		}
	}
	for _, v := range p.module.Vars {
		for _, r := range v.Relocs {
			add(r.Symbol)
		}
	}
	for _, f := range p.list {
		for i := range f.src.Body {
			in := &f.src.Body[i]
			if in.Op == "call" {
				continue
			}
			for _, o := range in.Operands {
				if s, ok := o.(ptx.Sym); ok {
					add(s.Name)
				}
			}
		}
	}
	return list
}

// findStack predicts the bytes of stack that a call of the function takes.
func (f *function) findStack() int {
	bytes, align := f.localVariables()
	words := 0
	switch calls, arguments := f.calls(); {
	case f.src.Entry: // nobody's registers to save
	case calls:
		over, several := f.savedOverCalls()
		if several || f.addressedParameters() {
			words = unsureWords
		}
		words += over + savedAlways + max(0, f.pressure-freeWords)/pressureShare + 2*max(0, arguments-argumentWords)
	case bytes > 0: // its loops over the variables are unrolled
		words = savedWords
	default:
		words = min(max(f.pressure-freeWords, 0), savedWords)
	}
	if align > alignedAlways {
		words++
	}
	return alignUp(bytes+words*wordBytes, max(align, alignedAlways))
}

// localVariables returns the bytes of the local variables of the function, and their largest
// alignment. A parameter of a device function is one if its address is taken.
func (f *function) localVariables() (bytes, align int) {
	align = 1
	add := func(v *ptx.Var) {
		bytes = alignUp(bytes, max(v.Align, 1)) + v.Size()
		align = max(align, v.Align)
	}
	for _, v := range f.src.Vars {
		if v.Space == ptx.LocalSpace {
			add(v)
		}
	}
	if f.src.Entry {
		return bytes, align
	}
	for _, v := range f.src.Params {
		if v.Space != ptx.RegSpace && f.takesAddress(v.Name) {
			add(v)
		}
	}
	return bytes, align
}

// takesAddress reports whether an instruction moves the address of a variable to a register.
func (f *function) takesAddress(name string) bool {
	for i := range f.src.Body {
		in := &f.src.Body[i]
		if in.Op != "mov" || len(in.Operands) < 2 {
			continue
		}
		if s, ok := in.Operands[1].(ptx.Sym); ok && s.Name == name {
			return true
		}
	}
	return false
}

// addressedParameters reports whether the address of a parameter is taken.
func (f *function) addressedParameters() bool {
	return slices.ContainsFunc(f.src.Params, func(v *ptx.Var) bool { return f.takesAddress(v.Name) })
}

// calls reports whether the function calls others, and with how many words of arguments at
// most.
func (f *function) calls() (any bool, arguments int) {
	for i := range f.code {
		c := f.code[i].call
		if c == nil {
			continue
		}
		any = true
		n := 0
		for _, a := range c.args {
			n += (a.size + wordBytes - 1) / wordBytes
		}
		arguments = max(arguments, n)
	}
	return any, arguments
}

// savedOverCalls returns the words of registers that have a value over one of the calls: it is
// needed after the call, and not made by it. A predicate takes a word. Values over different
// calls share few registers. several reports whether there is more than one such call.
func (f *function) savedOverCalls() (words int, several bool) {
	l := newStackLiveness(f)
	if l == nil {
		return f.pressure, true
	}
	l.solve()
	over, most, calls := make([]uint64, len(l.live[0])), 0, 0
	for i := range f.src.Body {
		if f.src.Body[i].Op != "call" {
			continue
		}
		set := l.over(i)
		for w, v := range set {
			over[w] |= v
		}
		if n := l.words(set); n > 0 {
			most = max(most, n)
			calls++
		}
	}
	return min(l.words(over), most+apartWords), calls > 1
}

// over returns what has a value before and behind a call.
func (l *stackLiveness) over(call int) []uint64 {
	set := l.after(call)
	for _, d := range l.defs[call] {
		set[d/64] &^= 1 << (d % 64)
	}
	return set
}

// words returns the words of a set of registers.
func (l *stackLiveness) words(set []uint64) (n int) {
	for w, v := range set {
		for ; v != 0; v &= v - 1 {
			n += l.sizes[w*64+bits.TrailingZeros64(v)]
		}
	}
	return n
}

// stackLiveness says which registers of a function are needed before each instruction.
type stackLiveness struct {
	f     *function
	index map[string]int
	sizes []int      // words of each register
	live  [][]uint64 // by instruction: a bit for each register that is needed before it
	uses  [][]int
	defs  [][]int // that an instruction writes, without a guard
}

// newStackLiveness returns nil for a function that is too large.
func newStackLiveness(f *function) *stackLiveness {
	l := &stackLiveness{f: f, index: map[string]int{}}
	again := recomputed(f.src)
	number := func(name string) (int, bool) {
		r, ok := f.regs[name]
		if !ok || again[name] {
			return 0, false
		}
		i, ok := l.index[name]
		if !ok {
			i = len(l.sizes)
			l.index[name] = i
			l.sizes = append(l.sizes, 1)
			if !r.pred {
				l.sizes[i] = (r.typ.Size() + wordBytes - 1) / wordBytes
			}
		}
		return i, true
	}
	for i := range f.src.Body {
		in := &f.src.Body[i]
		var uses, defs []int
		eachAccess(in, func(name string, write bool) {
			if n, ok := number(name); ok && write {
				defs = append(defs, n)
			} else if ok {
				uses = append(uses, n)
			}
		})
		if in.Guard != "" {
			defs = nil // the old value may stay
		}
		l.uses, l.defs = append(l.uses, uses), append(l.defs, defs)
	}
	row := (len(l.sizes) + 63) / 64
	if row*len(f.src.Body) > stackLivenessWork {
		return nil
	}
	l.live = make([][]uint64, len(f.src.Body)+1)
	for i := range l.live {
		l.live[i] = make([]uint64, row)
	}
	return l
}

// solve goes backwards through the instructions until nothing changes.
func (l *stackLiveness) solve() {
	for changed := true; changed; {
		changed = false
		for i := len(l.f.src.Body) - 1; i >= 0; i-- {
			now := l.after(i)
			for _, d := range l.defs[i] {
				now[d/64] &^= 1 << (d % 64)
			}
			for _, u := range l.uses[i] {
				now[u/64] |= 1 << (u % 64)
			}
			if !slices.Equal(now, l.live[i]) {
				copy(l.live[i], now)
				changed = true
			}
		}
	}
}

// after returns what is needed after an instruction.
func (l *stackLiveness) after(i int) []uint64 {
	in := &l.f.src.Body[i]
	out := make([]uint64, len(l.live[i]))
	join := func(at int) {
		for w, v := range l.live[at] {
			out[w] |= v
		}
	}
	always := in.Guard == ""
	switch in.Op {
	case "bra", "brx":
		for _, at := range l.f.jumpsOf(in) {
			join(at)
		}
	case "ret", "exit", "trap":
	default:
		always = false
	}
	if !always {
		join(i + 1)
	}
	return out
}

// jumpsOf returns where a branch may go.
func (f *function) jumpsOf(in *ptx.Instr) (at []int) {
	for _, o := range in.Operands {
		s, ok := o.(ptx.Sym)
		if !ok {
			continue
		}
		names := []string{s.Name}
		if table, ok := f.src.Tables[s.Name]; ok {
			names = table
		}
		for _, n := range names {
			if i, ok := f.src.Labels[n]; ok {
				at = append(at, i)
			}
		}
	}
	return at
}

// writesNothing are the opcodes whose first operand may be a register that they read.
var writesNothing = []string{"bra", "brx", "bar", "barrier", "nanosleep", "stackrestore", "exit", "ret", "trap", "setmaxnreg", "griddepcontrol"}

// eachAccess calls fn with each register of an instruction, and whether it is written.
func eachAccess(in *ptx.Instr, fn func(name string, write bool)) {
	if in.Guard != "" {
		fn(in.Guard, false)
	}
	read := func(name string) { fn(name, false) }
	for i, o := range in.Operands {
		write := i == 0 && !slices.Contains(writesNothing, in.Op)
		switch o.(type) {
		case ptx.Mem, ptx.Sym:
			write = false
		}
		if in.Op == "bar" && slices.Contains(in.Mods, "red") {
			write = i == 0
		}
		if in.Op == "call" {
			_, list := o.(ptx.List)
			write = i == 0 && list && len(in.Operands) > 1
		}
		if write {
			registersOf(o, func(name string) { fn(name, true) })
		} else {
			registersOf(o, read)
		}
	}
}

// recomputed returns the registers whose value a compiler makes again behind a call and does
// not save: constants, addresses of variables, and sums of these.
func recomputed(src *ptx.Func) map[string]bool {
	defs, again := countDefs(src), map[string]bool{}
	for i := range src.Body {
		in := &src.Body[i]
		if in.Guard != "" || len(in.Operands) < 2 || !slices.Contains([]string{"mov", "cvta", "add"}, in.Op) {
			continue
		}
		d, ok := in.Operands[0].(ptx.Reg)
		if !ok || defs[regName(d)] != 1 {
			continue
		}
		constant := true
		for _, o := range in.Operands[1:] {
			switch o := o.(type) {
			case ptx.Imm, ptx.Float, ptx.Sym:
			case ptx.Reg:
				constant = constant && !o.Special && again[regName(o)]
			default:
				constant = false
			}
		}
		if constant {
			again[regName(d)] = true
		}
	}
	return again
}

// foldStack adds to the stack of a kernel what the functions need that it calls by name and
// that do not recurse: a compiler makes them part of it. The kernel has room for the largest
// chain of them, whether the calls happen or not.
func (p *Program) foldStack(kernel *function, addressed []*function) {
	for _, f := range reachable(kernel) {
		f.folds = !f.src.Entry && !f.recurses(addressed)
	}
	var fold func(f *function) int
	fold = func(f *function) int {
		most := 0
		for _, c := range f.direct {
			if c.folds {
				most = max(most, c.stack+fold(c))
			}
		}
		return most
	}
	kernel.folded = fold(kernel)
}

// recurses reports whether a call of the function can lead to another call of it.
func (f *function) recurses(addressed []*function) bool {
	seen := map[*function]bool{}
	var reaches func(g *function) bool
	reaches = func(g *function) bool {
		next := g.direct
		if g.indirect {
			next = slices.Concat(next, addressed)
		}
		for _, c := range next {
			if c == f {
				return true
			}
			if !seen[c] {
				seen[c] = true
				if reaches(c) {
					return true
				}
			}
		}
		return false
	}
	return reaches(f)
}

// stackOf returns the bytes of stack that a call of fn takes in the frame.
func (f *frame) stackOf(in *inst, fn *function) int {
	if f.folds && fn.folds && in.call.fn == fn {
		return 0
	}
	return fn.stack
}

// stackUsed returns the predicted bytes of stack of the frame and its callers.
func (f *frame) stackUsed() int {
	return f.stack + max(0, f.top-int(f.local)-f.fn.localBytes)
}

// stackFits reports whether the stack of the threads has room for so many bytes more, and
// records a fault if it has not. what needs them.
func (w *warp) stackFits(in *inst, bytes int, what string) bool {
	most, used := w.k.x.stackLimit, w.f.stackUsed()
	if most == 0 || used+bytes <= most {
		return true
	}
	w.trap(in, w.active, cu.ErrorIllegalAddress, 0, 0)
	w.fault.Why = fmt.Sprintf("stack overflow: %s takes %d bytes behind %d nested calls, which use %d of the %d bytes of stack of a thread. "+
		"This kernel's need is not known at compile time, so the limit of the context sets it: raise it with CtxSetLimit and cu.LimitStackSize, or nest less deeply",
		what, bytes, w.f.depth, used, most)
	return false
}
