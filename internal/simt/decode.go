package simt

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// decoder turns one function into dense code.
type decoder struct {
	f     *function
	in    *ptx.Instr
	types []ptx.Type // those among the modifiers, in order
	cost  uint32     // instructions left out since the last one kept
	start []int      // of body index: code index
	defs  map[string]int
}

// decodeError is what an instruction needs and this package lacks.
type decodeError struct{ what string }

func (e *decodeError) Error() string { return e.what }

func missing(format string, args ...any) error {
	return &decodeError{fmt.Sprintf(format, args...)}
}

// number gives registers their slots. Slot 0 and predicate 0 are always zero.
func (f *function) number() {
	f.constSlot(0)
	f.preds = 1
	f.firstReg = f.slots
	f.declareRegisters()
	f.endReg = f.slots
	if !f.src.Entry {
		f.paramPlaces = f.calleePlaces(f.src.Params)
		f.resultPlaces = f.calleePlaces(f.src.Returns)
	}
}

// decode fills f.code. Instructions that cannot be run are noted in f.bad.
func (f *function) decode() {
	d := &decoder{f: f, defs: countDefs(f.src)}
	d.start = make([]int, len(f.src.Body)+1)
	for i := range f.src.Body {
		d.start[i] = len(f.code)
		d.in = &f.src.Body[i]
		d.types = d.types[:0]
		for _, m := range d.in.Mods {
			if t, ok := ptx.ParseType(m); ok {
				d.types = append(d.types, t)
			}
		}
		n := len(f.code)
		if err := d.decodeOne(); err != nil {
			f.code = append(f.code[:n], inst{kind: kindUnsupported, guard: -1, src: d.in})
			f.bad = append(f.bad, &unsupported{pos: d.in.Pos, op: opText(d.in), what: err.Error()})
		}
	}
	d.start[len(f.src.Body)] = len(f.code)
	end := inst{kind: kindRet, guard: -1, src: &ptx.Instr{Op: "ret"}}
	if n := len(f.src.Body); n > 0 {
		end.src = &ptx.Instr{Op: "ret", Pos: f.src.Body[n-1].Pos}
	}
	f.code = append(f.code, end)
	d.link()
}

// link turns the targets of branches from body into code indices.
func (d *decoder) link() {
	for i := range d.f.code {
		in := &d.f.code[i]
		switch in.kind {
		case kindBranch:
			in.target = int32(d.start[in.target])
		case kindIndexed:
			for j, t := range in.table {
				in.table[j] = int32(d.start[t])
			}
		}
	}
}

func (d *decoder) decodeOne() error {
	in := d.in
	op, ok := decoders[in.Op]
	if !ok {
		return missing("%s", refusal(in))
	}
	if err := checkForm(in); err != nil {
		return err
	}
	return op(d)
}

// emit appends an instruction, guarded as the source says.
func (d *decoder) emit(out inst) *inst {
	out.src = d.in
	out.guard = -1
	if d.in.Guard != "" {
		r, ok := d.f.regs[d.in.Guard]
		if ok && r.pred {
			out.guard = r.slot
		} else {
			out.guard = 0
		}
		if d.in.Negate {
			out.guardNot = allLanes
		}
	}
	out.cost = d.cost + 1
	d.cost = 0
	d.f.code = append(d.f.code, out)
	return &d.f.code[len(d.f.code)-1]
}

// elide drops an instruction that costs nothing here.
func (d *decoder) elide() error {
	d.cost++
	return nil
}

func (d *decoder) has(mod string) bool { return slices.Contains(d.in.Mods, mod) }

// hasAny is the first of mods that the instruction has, "" if none.
func (d *decoder) hasAny(mods ...string) string {
	for _, m := range mods {
		if d.has(m) {
			return m
		}
	}
	return ""
}

// typ is the i'th type among the modifiers.
func (d *decoder) typ(i int) ptx.Type {
	if i >= 0 && i < len(d.types) {
		return d.types[i]
	}
	return ptx.NoType
}

func (d *decoder) operand(i int) ptx.Operand {
	if i < len(d.in.Operands) {
		return d.in.Operands[i]
	}
	return nil
}

func (d *decoder) want(n int) error {
	if len(d.in.Operands) < n {
		return missing("%d operands, at least %d expected", len(d.in.Operands), n)
	}
	return nil
}

// regName is the key of a register operand in function.regs.
func regName(r ptx.Reg) string {
	if r.Comp != 0 {
		return r.Name + "." + string(r.Comp)
	}
	return r.Name
}

// source is the slot of operand i, read as t.
func (d *decoder) source(i int, t ptx.Type) (int32, error) {
	if err := d.want(i + 1); err != nil {
		return 0, err
	}
	return d.value(d.in.Operands[i], t)
}

// value is the slot of an operand that is read as t.
func (d *decoder) value(op ptx.Operand, t ptx.Type) (int32, error) {
	switch op := op.(type) {
	case ptx.Reg:
		if op.Special {
			return d.special(op.Name)
		}
		if op.Sel != "" {
			return 0, missing("parts of registers such as .%s are not supported", op.Sel)
		}
		name := regName(op)
		if s, ok := d.f.alias[name]; ok {
			return s, nil
		}
		r, ok := d.f.regs[name]
		if !ok {
			return 0, missing("no register %s", name)
		}
		if r.pred {
			return 0, missing("predicate %s where a value is wanted", name)
		}
		if r.typ == ptx.B128 {
			return 0, missing("128-bit registers are not supported")
		}
		return r.slot, nil
	case ptx.Imm:
		return d.f.constSlot(op.Value), nil
	case ptx.Float:
		return d.f.constSlot(floatBits(op, t)), nil
	case ptx.Sym:
		return d.symbol(op.Name, op.Offset)
	}
	return 0, missing("an operand of this form (%T) is not supported here", op)
}

// dest is the slot of operand i, which is written.
func (d *decoder) dest(i int) (int32, error) {
	if err := d.want(i + 1); err != nil {
		return 0, err
	}
	return d.destOf(d.in.Operands[i])
}

func (d *decoder) destOf(op ptx.Operand) (int32, error) {
	switch op := op.(type) {
	case ptx.Sink:
		return d.temp(), nil
	case ptx.Reg:
		if op.Sel != "" {
			return 0, missing("parts of registers such as .%s are not supported", op.Sel)
		}
		r, ok := d.f.regs[regName(op)]
		switch {
		case !ok:
			return 0, missing("no register %s to write", regName(op))
		case r.pred:
			return 0, missing("predicate %s where a value is written", regName(op))
		case r.typ == ptx.B128:
			return 0, missing("128-bit registers are not supported")
		}
		return r.slot, nil
	}
	return 0, missing("a destination of this form (%T) is not supported here", op)
}

// temp is a fresh slot.
func (d *decoder) temp() int32 {
	d.f.slots++
	return d.f.slots - 1
}

// predicate is the slot of a predicate that is read, and the mask to xor it with.
func (d *decoder) predicate(op ptx.Operand) (slot int32, not uint32, err error) {
	switch op := op.(type) {
	case ptx.Reg:
		r, ok := d.f.regs[regName(op)]
		if !ok || !r.pred {
			return 0, 0, missing("%s is not a predicate", op.Name)
		}
		if op.Negate {
			not = allLanes
		}
		return r.slot, not, nil
	case ptx.Imm:
		if op.Value != 0 {
			not = allLanes
		}
		return 0, not, nil
	}
	return 0, 0, missing("an operand of this form (%T) is no predicate", op)
}

// predicateDest is the slot of a predicate that is written.
func (d *decoder) predicateDest(op ptx.Operand) (int32, error) {
	switch op := op.(type) {
	case ptx.Sink:
		d.f.preds++
		return d.f.preds - 1, nil
	case ptx.Reg:
		if r, ok := d.f.regs[regName(op)]; ok && r.pred {
			return r.slot, nil
		}
		return 0, missing("%s is not a predicate", op.Name)
	}
	return 0, missing("an operand of this form (%T) is no predicate", op)
}

// pure emits an instruction without side effects: operand 0 from the sources.
func (d *decoder) pure(v vec, aff func(*warp, *inst) bool, types ...ptx.Type) error {
	out := inst{exec: execPure, vec: v, aff: aff}
	var err error
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	at := [...]*int32{&out.a, &out.b, &out.c}
	for i, t := range types {
		if *at[i], err = d.source(i+1, t); err != nil {
			return err
		}
	}
	d.emit(out)
	return nil
}

// countDefs counts how often each register is written. It counts what stands
// first in an instruction, whether it is written or not: too many does no harm.
func countDefs(f *ptx.Func) map[string]int {
	defs := map[string]int{}
	var count func(op ptx.Operand)
	count = func(op ptx.Operand) {
		switch op := op.(type) {
		case ptx.Reg:
			defs[regName(op)]++
			if op.Comp == 0 {
				for _, c := range "xyzw" {
					defs[op.Name+"."+string(c)]++
				}
			}
		case ptx.Vec:
			for _, e := range op.Elems {
				count(e)
			}
		case ptx.Pair:
			count(op.First)
			count(op.Second)
		case ptx.List:
			for _, e := range op.Elems {
				count(e)
			}
		}
	}
	for i := range f.Body {
		if ops := f.Body[i].Operands; len(ops) > 0 {
			count(ops[0])
		}
	}
	for _, v := range f.Params {
		defs[v.Name] += 2 // a register parameter of a function is written by the call
	}
	return defs
}
