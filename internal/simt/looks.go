package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// looksAt reports whether a thread looks at what a load or an atomic operation finds. It does
// not if the result is only copied between registers and stored to global memory: whatever
// it is, the thread does the same. All uses in the function count, in whatever order.
func (f *function) looksAt(in *ptx.Instr) bool {
	if in.Op == "red" || len(in.Operands) == 0 {
		return false
	}
	found := map[string]bool{}
	registersOf(in.Operands[0], func(name string) { found[name] = true })
	for grown := true; grown; {
		grown = false
		for i := range f.src.Body {
			u := &f.src.Body[i]
			if !readsAny(u, found) {
				continue
			}
			if u.Op != "mov" && u.Op != "cvt" || found[u.Guard] {
				return true
			}
			registersOf(u.Operands[0], func(name string) { grown = grown || !found[name]; found[name] = true })
		}
	}
	return false
}

// withoutResult are instructions whose first operand may be a register that they read.
var withoutResult = []string{"call", "brx", "bar", "barrier", "nanosleep", "st"}

// readsAny reports whether an instruction reads one of some registers, other than to store it to
// global memory.
func readsAny(in *ptx.Instr, regs map[string]bool) (yes bool) {
	reads := func(name string) { yes = yes || regs[name] }
	reads(in.Guard)
	for i, o := range in.Operands {
		_, address := o.(ptx.Mem)
		switch {
		case in.Op == "st" && slices.Contains(in.Mods, "global") && !address:
		case i == 0 && !address && !slices.Contains(withoutResult, in.Op):
			// the result
		default:
			registersOf(o, reads)
		}
	}
	return yes
}
