package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// named is what an instruction does with the registers that it names. They have the numbers of
// function.regID.
type named struct {
	reads, writes []int32
	guarded       bool // what was in the written registers may stay
	pure          bool // it does nothing but write registers
}

// named returns what each instruction of the body does, and the return behind it.
func (f *function) named() []named {
	all := make([]named, len(f.src.Body)+1)
	list := make([]int32, 0, 4*len(all))
	for i := range all {
		in := f.at(i)
		from, read := len(list), len(list)
		f.eachAccess(in, func(reg int32, _ int, write bool) {
			list = append(list, reg)
			if write {
				read = len(list)
			}
		})
		all[i] = named{reads: list[read:len(list):len(list)], writes: list[from:read:read], guarded: in.Guard != "", pure: pure(in)}
	}
	return all
}

// endOfBody is the return that every function has behind its body.
var endOfBody = &ptx.Instr{Op: "ret"}

// at returns an instruction of the body. The one behind the last is a return.
func (f *function) at(i int) *ptx.Instr {
	if i == len(f.src.Body) {
		return endOfBody
	}
	return &f.src.Body[i]
}

// eachAccess calls fn with each register that an instruction writes, and then with each that
// it reads, and with the number of the operand. That is -1 for the guard, and for what a
// return reads: the results of the function that are registers.
func (f *function) eachAccess(in *ptx.Instr, fn func(reg int32, operand int, write bool)) {
	operand, write := 0, writesFirst(in)
	each := func(name string) { f.eachID(name, func(reg int32) { fn(reg, operand, write) }) }
	for k, o := range in.Operands {
		operand, write = k, k == 0 && write
		registersOf(o, each)
	}
	operand, write = -1, false
	if in.Guard != "" {
		each(in.Guard)
	}
	if in.Op != "ret" {
		return
	}
	for _, v := range f.src.Returns {
		if v.Space == ptx.RegSpace {
			each(v.Name)
		}
	}
}

// writesFirst reports whether an instruction writes its first operand. By the PTX ISA all do
// that have a register there, but for a few. No instruction writes another operand.
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
	switch in.Op {
	case "bar", "barrier": // the number of the barrier, or the mask of bar.warp.sync
		return slices.Contains(in.Mods, "red")
	case "brx", "call", "nanosleep", "stackrestore":
		return false
	}
	return true
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

// regID returns the number of a declared register. Those of data come first, then predicates.
func (f *function) regID(r register) int32 {
	if r.pred {
		return f.endReg - f.firstReg + r.index - 1 // predicate 0 is not declared
	}
	return r.index - f.firstReg
}

// regIDs returns how many numbers regID gives.
func (f *function) regIDs() int { return int(f.endReg - f.firstReg + f.numPreds - 1) }

// eachID calls fn with the number of the declared register of that name. A vector register
// has one for each component.
func (f *function) eachID(name string, fn func(reg int32)) {
	if r, ok := f.regs[name]; ok {
		fn(f.regID(r))
		return
	}
	for _, component := range [...]string{".x", ".y", ".z", ".w"} {
		if r, ok := f.regs[name+component]; ok {
			fn(f.regID(r))
		}
	}
}

// eachRegister calls fn with each register that an instruction names.
func eachRegister(in *ptx.Instr, fn func(name string)) {
	if in.Guard != "" {
		fn(in.Guard)
	}
	for _, o := range in.Operands {
		registersOf(o, fn)
	}
}

func registersOf(o ptx.Operand, fn func(name string)) {
	switch o := o.(type) {
	case ptx.Reg:
		fn(regName(o))
	case ptx.Mem:
		if o.IsReg {
			fn(o.Base)
		}
		for _, a := range o.Args {
			registersOf(a, fn)
		}
	case ptx.Vec:
		for _, e := range o.Elems {
			registersOf(e, fn)
		}
	case ptx.Pair:
		registersOf(o.First, fn)
		registersOf(o.Second, fn)
	case ptx.List:
		for _, e := range o.Elems {
			registersOf(e, fn)
		}
	}
}
