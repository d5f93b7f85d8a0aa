package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// use is an operand that reads a register.
type use struct {
	at      int // index into the body
	operand int // -1 for the guard and for a return
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
	*flow
	dropped bitset                        // the registers that instructions read on which nothing depends
	fences  int                           // seen so far
	of      []*definition                 // by instruction, nil if it does not write one register
	factors map[int]map[int32]*definition // of multiplications: what they read, by register, in the same basic block
}

// findUses returns the uses in a function, nil for a function that is too large.
func (fl *flow) findUses() *uses {
	l := fl.liveness(true)
	if l == nil {
		return nil
	}
	u := &uses{flow: fl, of: make([]*definition, len(fl.names)), factors: map[int]map[int32]*definition{}}
	needed := make([]bool, len(fl.names))
	l.eachNeeded(func(i int, _ bitset) { needed[i] = true })
	u.findDropped(needed)
	after := newBitset(fl.regIDs())
	for k := range fl.blocks {
		u.block(&fl.blocks[k], needed, l.after(k, after))
	}
	return u
}

// findDropped finds the registers that instructions read which are not needed. A compiler
// drops such instructions. Here they run, and an address among them must be the right one.
func (u *uses) findDropped(needed []bool) {
	u.dropped = newBitset(u.regIDs())
	for i := range u.names {
		if needed[i] {
			continue
		}
		for _, r := range u.names[i].reads {
			u.dropped.add(r)
		}
	}
}

// block finds the uses in a basic block. after is the registers that are needed after it.
func (u *uses) block(b *basicBlock, needed []bool, after bitset) {
	now := map[int32]*definition{} // by register
	for i := b.first; i < b.end; i++ {
		if !needed[i] {
			continue
		}
		in := u.at(i)
		if separates(in) {
			u.fences++
		}
		u.eachAccess(in, func(reg int32, operand int, write bool) {
			if !write {
				u.read(i, now[reg], reg, operand)
			}
		})
		for _, reg := range u.names[i].writes {
			d := &definition{at: i, fences: u.fences, other: in.Guard != ""}
			if old := now[reg]; old != nil {
				old.other = old.other || d.other
			}
			now[reg], u.of[i] = d, d
		}
	}
	for reg, d := range now {
		d.other = d.other || after.has(reg)
	}
}

// read adds instruction i to the uses of d, the definition of a register in the same block. d
// is nil if there is none.
func (u *uses) read(i int, d *definition, reg int32, operand int) {
	if d == nil {
		return
	}
	d.uses = append(d.uses, use{i, operand})
	d.other = d.other || d.fences != u.fences
	if multiplies(u.at(i)) {
		if u.factors[i] == nil {
			u.factors[i] = map[int32]*definition{}
		}
		u.factors[i][reg] = d
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
		r, ok := u.regs[regName(o)]
		if !ok {
			return false
		}
		at := u.only[u.regID(r)]
		if d := u.factors[i][u.regID(r)]; d != nil {
			at = d.at
		}
		if at < 0 {
			return false
		}
		in := u.at(at)
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
