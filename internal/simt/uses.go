package simt

import (
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// use is an operand that reads a register.
type use struct {
	at      int // index into the body
	operand int // -1 for the guard
}

// definition is a value that an instruction writes into a register.
type definition struct {
	at     int   // index into the body
	uses   []use // in the same basic block
	other  bool  // it has more uses, is only a part of the register's value, or has a use behind a fence
	fences int   // how many fences are before it
}

// uses is which values the instructions of a function read and write. It has only those that
// something depends on.
type uses struct {
	fences  int // seen so far
	f       *ptx.Func
	of      []*definition                  // by instruction, nil if it does not write one register
	factors map[int]map[string]*definition // of multiplications: what they read, by register, in the same basic block
	only    map[string]int                 // registers that one instruction of the function writes, and that instruction
}

// findUses returns the uses in a function, nil for a function that is too large.
func findUses(f *ptx.Func) *uses {
	l := findLiveness(f)
	if l == nil {
		return nil
	}
	u := &uses{f: f, of: make([]*definition, len(f.Body)), factors: map[int]map[string]*definition{}, only: map[string]int{}}
	u.findOnly()
	needed := l.needed()
	for k := range l.blocks {
		u.block(l, k, needed)
	}
	return u
}

// findOnly finds the registers with one definition.
func (u *uses) findOnly() {
	count := map[string]int{}
	for i := range u.f.Body {
		eachDestination(&u.f.Body[i], func(name string) {
			count[name]++
			u.only[name] = i
		})
	}
	for name, n := range count {
		if n > 1 {
			delete(u.only, name)
		}
	}
}

// block finds the uses in a basic block.
func (u *uses) block(l *joinLiveness, k int, needed []bool) {
	now := map[string]*definition{} // by register
	for i := l.blocks[k].from; i < l.blocks[k].to; i++ {
		in := &u.f.Body[i]
		if !needed[i] {
			continue
		}
		if separates(in) {
			u.fences++
		}
		eachSource(in, func(name string, operand int) { u.read(i, now[whole(name)], name, operand) })
		eachDestination(in, func(name string) {
			d := &definition{at: i, fences: u.fences}
			if name != whole(name) || in.Guard != "" {
				d.other = true
				if old := now[whole(name)]; old != nil {
					old.other = true
				}
			}
			now[whole(name)], u.of[i] = d, d
		})
	}
	for name, d := range now {
		d.other = d.other || l.neededAfter(k, name)
	}
}

// read adds instruction i to the uses of d, the definition of a register in the same block. d
// is nil if there is none.
func (u *uses) read(i int, d *definition, name string, operand int) {
	if d == nil {
		return
	}
	d.uses = append(d.uses, use{i, operand})
	d.other = d.other || d.fences != u.fences
	if multiplies(&u.f.Body[i]) {
		if u.factors[i] == nil {
			u.factors[i] = map[string]*definition{}
		}
		u.factors[i][name] = d
	}
}

// separates reports whether an instruction keeps a multiplication before it and an addition
// after it apart. Besides fences, these are operations for which ptxas calls a routine.
func separates(in *ptx.Instr) bool {
	t := lastType(in)
	switch in.Op {
	case "membar", "fence", "pmevent", "call":
		return true
	case "div", "rem":
		return t != ptx.U32 && !slices.Contains(in.Mods, "approx") && !slices.Contains(in.Mods, "full")
	case "sqrt", "rcp", "rsqrt":
		return !slices.Contains(in.Mods, "approx") || in.Op == "rsqrt" && t == ptx.F64
	}
	return false
}

// constant reports whether an operand of multiplication i is a constant: a number, or a
// register that a mov sets to one.
func (u *uses) constant(i int, o ptx.Operand) bool {
	switch o := o.(type) {
	case ptx.Imm, ptx.Float:
		return true
	case ptx.Reg:
		at, ok := u.only[o.Name]
		if d := u.factors[i][o.Name]; d != nil {
			at, ok = d.at, true
		}
		if !ok {
			return false
		}
		in := &u.f.Body[at]
		if in.Op != "mov" || in.Guard != "" || len(in.Operands) != 2 {
			return false
		}
		switch in.Operands[1].(type) {
		case ptx.Imm, ptx.Float:
			return true
		}
	}
	return false
}

// whole returns the register that a name of a register or of a component is about.
func whole(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return name
}
