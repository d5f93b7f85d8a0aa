package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// A register is an alias if its only definition copies a constant of the launch: a number,
// the address of a variable, a parameter, or such a special register. Then it has no place
// in the frame, and every use reads the constant. The value of a register before its
// definition is undefined, so the constant is right there too.
//
// A use may stand above the definition in the text, because the order of execution is that
// of the branches. So all aliases are found before other instructions are decoded.

// early is a copy of a constant that was decoded before its turn.
type early struct {
	code []inst // empty if the destination became an alias
	cost uint32 // instructions dropped after code
}

// findAliases decodes the instructions that copy constants to registers with one
// definition. A copy of a register waits until that register is an alias.
func (d *decoder) findAliases() {
	d.early = map[int]early{}
	waiting := map[string][]int{}
	var ready []int
	for i := range d.f.src.Body {
		in := &d.f.src.Body[i]
		if !d.mayAlias(in) {
			continue
		}
		switch src := in.Operands[1].(type) {
		case ptx.Reg:
			if src.Special {
				ready = append(ready, i)
			} else {
				waiting[regName(src)] = append(waiting[regName(src)], i)
			}
		default:
			if !namesRegister(src) {
				ready = append(ready, i)
			}
		}
	}
	for next := 0; next < len(ready); next++ {
		for _, name := range d.decodeEarly(ready[next]) {
			ready = append(ready, waiting[name]...)
			delete(waiting, name)
		}
	}
}

// namesRegister reports whether an operand, or a part of it, is a register.
func namesRegister(o ptx.Operand) (found bool) {
	registersOf(o, func(string) { found = true })
	return found
}

// mayAlias reports whether an instruction could make one of its destinations an alias.
func (d *decoder) mayAlias(in *ptx.Instr) bool {
	if in.Guard != "" || len(in.Operands) != 2 {
		return false
	}
	switch in.Op {
	case "mov", "cvta":
		return d.flow.definedOnce(in.Operands[0])
	case "ld":
		d.in = in
		return d.space() == ptx.ParamSpace && slices.ContainsFunc(d.elements(0), d.flow.definedOnce)
	}
	return false
}

// decodeEarly decodes an instruction that [decoder.mayAlias] names and keeps its code. It
// returns the registers that became aliases. An instruction with an error is decoded again
// at its turn, which reports the error.
func (d *decoder) decodeEarly(i int) (aliases []string) {
	n := len(d.f.code)
	d.use(i)
	d.aliasing = true
	err := d.decodeOne(i)
	d.aliasing = false
	if err == nil {
		d.early[i] = early{slices.Clone(d.f.code[n:]), d.cost}
	}
	d.f.code, d.cost = d.f.code[:n], 0
	for _, op := range d.elements(0) {
		if r, ok := op.(ptx.Reg); ok {
			if _, ok := d.f.alias[regName(r)]; ok {
				aliases = append(aliases, regName(r))
			}
		}
	}
	return aliases
}

// emitEarly appends what decodeEarly has decoded.
func (d *decoder) emitEarly(e early) {
	if len(e.code) == 0 {
		d.cost += e.cost
		return
	}
	e.code[0].cost += d.cost
	d.f.code = append(d.f.code, e.code...)
	d.cost = e.cost
}

// makeAlias makes a register another name of a constant register, if it may be one.
func (d *decoder) makeAlias(op ptx.Operand, src int32) bool {
	if !d.aliasing || !d.flow.definedOnce(op) || !d.f.constant(src) {
		return false
	}
	name := regName(op.(ptx.Reg))
	r, ok := d.f.regs[name]
	if !ok || r.pred || r.typ.Size() > 8 {
		return false
	}
	d.f.alias[name] = src
	return true
}

// firstUse returns the error of the first instruction in the text that names a variable.
func (f *function) firstUse(variable string) *unsupported {
	for i := range f.src.Body {
		in := &f.src.Body[i]
		if slices.ContainsFunc(in.Operands, func(o ptx.Operand) bool { return mentions(o, variable) }) {
			return &unsupported{in: f, pos: in.Pos, op: opText(in), what: "variable " + variable + " has no address"}
		}
	}
	return &unsupported{in: f, pos: f.src.Pos, op: ".func", what: "variable " + variable + " has no address"}
}

// mentions reports whether an operand names a variable.
func mentions(o ptx.Operand, variable string) bool {
	within := func(list []ptx.Operand) bool {
		return slices.ContainsFunc(list, func(o ptx.Operand) bool { return mentions(o, variable) })
	}
	switch o := o.(type) {
	case ptx.Sym:
		return o.Name == variable
	case ptx.Mem:
		return !o.IsReg && o.Base == variable || within(o.Args)
	case ptx.Vec:
		return within(o.Elems)
	case ptx.List:
		return within(o.Elems)
	}
	return false
}
