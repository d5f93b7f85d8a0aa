package simt

import (
	"fmt"
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
)

// addressed returns the functions whose address is in a variable, or is an operand of an
// instruction that does not call them.
func (p *Program) addressed() (list []*function) {
	seen := newBitset(len(p.list))
	add := func(name string) {
		if fn := p.funcs[name]; fn != nil && !fn.src.Entry && !seen.has(int32(fn.id)) {
			seen.add(int32(fn.id))
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
	case f.src.Entry: // an entry has no caller whose registers it must save
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
	fl := newFlow(f)
	l := fl.liveness(false)
	if l == nil {
		return f.pressure, true
	}
	of := fl.words(1)
	for r := range fl.recomputed() {
		of[r] = 0
	}
	set, all := newBitset(len(of)), newBitset(len(of))
	most, calls, work := 0, 0, 0
	l.eachNeeded(func(i int, live bitset) {
		if f.at(i).Op != "call" || work > livenessWords {
			return
		}
		work += len(set)
		l.over(set, live, &l.names[i])
		all.union(set)
		if n := set.words(of); n > 0 {
			most = max(most, n)
			calls++
		}
	})
	if work > livenessWords {
		return f.pressure, true
	}
	return min(all.words(of), most+apartWords), calls > 1
}

// over sets set to the registers that have a value before a call and are needed after it. live are
// the registers that are needed after it.
func (l *liveness) over(set, live bitset, call *named) {
	copy(set, live)
	if call.guarded { // the old value may stay
		return
	}
	for _, r := range call.writes {
		set.remove(r)
	}
}

// recomputed returns the registers whose value a compiler makes again behind a call and does
// not save: constants, addresses of variables, and sums of these.
func (fl *flow) recomputed() map[int32]bool {
	again := map[int32]bool{}
	for i := range fl.src.Body {
		in, a := &fl.src.Body[i], &fl.names[i]
		if a.guarded || len(in.Operands) < 2 || !slices.Contains([]string{"mov", "cvta", "add"}, in.Op) || !fl.definedOnce(in.Operands[0]) {
			continue
		}
		constant := !slices.ContainsFunc(a.reads, func(r int32) bool { return !again[r] })
		for _, o := range in.Operands[1:] {
			switch o := o.(type) {
			case ptx.Imm, ptx.Float, ptx.Sym:
			case ptx.Reg:
				constant = constant && !o.Special
			default:
				constant = false
			}
		}
		if constant {
			again[a.writes[0]] = true
		}
	}
	return again
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

// stackFits reports whether the stack of the threads has room for more bytes. If it has not,
// it records a fault. what names the thing that needs the bytes.
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
