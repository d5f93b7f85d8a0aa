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

// findPressure estimates how many 32-bit registers a thread of the function needs at once:
// the most that hold a value which the code can still read, by the paths of the branches.
// Predicates count nothing. A compiler moves instructions, so its number differs.
func (f *function) findPressure() int {
	n := int(f.endReg - f.firstReg)
	blocks, names := f.basicBlocks(), f.named()
	if blocks == nil || len(blocks)*(n+63)/64 > livenessWords || !liveness(blocks, names, n) {
		return f.textPressure()
	}
	words := make([]int, n)
	for _, r := range f.regs {
		if !r.pred {
			words[r.index-f.firstReg] = (r.typ.Size() + 3) / 4
		}
	}
	most := 0
	for _, b := range blocks {
		most = max(most, b.pressureOf(blocks, names, words))
	}
	return most
}

// textPressure is findPressure from the order of the text, for large functions. It counts
// the registers whose lifetimes in the text overlap. A register that has a value before a
// loop and is named in the loop keeps its value until the loop ends.
func (f *function) textPressure() int {
	lives := f.lifetimes()
	f.extend(lives)
	change := make([]int, len(f.src.Body)+1)
	for name, l := range lives {
		words := (f.regs[name].typ.Size() + 3) / 4
		change[l.first] += words
		change[l.last+1] -= words
	}
	most, now := 0, 0
	for _, c := range change {
		now += c
		most = max(most, now)
	}
	return most
}

// lifetimes returns the lifetime of each register, without regard to loops.
func (f *function) lifetimes() map[string]*lifetime {
	lives := map[string]*lifetime{}
	for i := range f.src.Body {
		eachRegister(&f.src.Body[i], func(name string) {
			if r, ok := f.regs[name]; !ok || r.pred {
				return
			}
			if l := lives[name]; l != nil {
				l.last = i
			} else {
				lives[name] = &lifetime{i, i}
			}
		})
	}
	return lives
}

// extend makes registers that a loop needs last until its end. Loops come in the order
// of their ends, so inner loops come before those around them.
func (f *function) extend(lives map[string]*lifetime) {
	for end, work := 0, 0; end < len(f.src.Body) && work < loopWork; end++ {
		start, ok := f.loopAt(end)
		if !ok {
			continue
		}
		work += len(lives)
		for _, l := range lives {
			if l.first < start && l.last >= start && l.last < end {
				l.last = end
			}
		}
	}
}

// loopAt returns where the loop begins that instruction end closes with a branch back.
func (f *function) loopAt(end int) (start int, ok bool) {
	in := &f.src.Body[end]
	if in.Op != "bra" || len(in.Operands) == 0 {
		return 0, false
	}
	to, ok := in.Operands[0].(ptx.Sym)
	if !ok {
		return 0, false
	}
	start, ok = f.src.Labels[to.Name]
	return start, ok && start <= end
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
		if o.Comp != 0 {
			fn(o.Name + "." + string(rune(o.Comp)))
			return
		}
		fn(o.Name)
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
