package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// looksAt reports whether a thread looks at what a load or an atomic operation finds. It does
// not if the result is only copied between registers and stored to global memory: whatever
// it is, the thread does the same. All uses in the function count, in whatever order.
func (f *function) looksAt(in *ptx.Instr) (yes bool) {
	f.findLooked.Do(func() { f.looked = f.lookedAt() })
	f.eachAccess(in, func(reg int32, _ int, write bool) { yes = yes || write && f.looked.has(reg) })
	return yes
}

// lookedAt returns the registers whose values decide what a thread does.
func (f *function) lookedAt() bitset {
	looked := newBitset(f.regIDs())
	var list []int32
	look := func(r int32) {
		if !looked.has(r) {
			looked.add(r)
			list = append(list, r)
		}
	}
	from := map[int32][]int32{} // by register: those that are copied to it
	for i := range f.src.Body {
		in := &f.src.Body[i]
		copies := in.Op == "mov" || in.Op == "cvt"
		var to []int32
		f.eachAccess(in, func(reg int32, operand int, write bool) {
			switch {
			case write:
				to = append(to, reg)
			case copies:
				for _, t := range to {
					from[t] = append(from[t], reg)
				}
			case operand <= 0 || in.Op != "st" || !slices.Contains(in.Mods, "global"):
				look(reg)
			}
		})
	}
	f.eachAccess(endOfBody, func(reg int32, _ int, _ bool) { look(reg) })
	for len(list) > 0 {
		r := list[len(list)-1]
		list = list[:len(list)-1]
		for _, source := range from[r] {
			look(source)
		}
	}
	return looked
}
