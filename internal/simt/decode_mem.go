package simt

import (
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// spaces are the modifiers that name a state space.
var spaces = map[string]ptx.Space{
	"global": ptx.GlobalSpace, "const": ptx.ConstSpace, "shared": ptx.SharedSpace,
	"local": ptx.LocalSpace, "param": ptx.ParamSpace,
}

// space is the state space that the modifiers name, generic when they name none.
func (d *decoder) space() ptx.Space {
	for _, m := range d.in.Mods {
		name, _, _ := strings.Cut(m, "::")
		if s, ok := spaces[name]; ok {
			return s
		}
		if strings.HasPrefix(m, "const[") {
			return ptx.ConstSpace
		}
	}
	return ptx.Generic
}

// vector is how many elements the modifiers ask for.
func (d *decoder) vector() int {
	switch d.hasAny("v2", "v4", "v8") {
	case "v2":
		return 2
	case "v4":
		return 4
	case "v8":
		return 8
	}
	return 1
}

// address makes an access of an operand: [register+offset], [symbol+offset] or
// [offset]. The slot that it gives holds the base.
func (d *decoder) address(op ptx.Operand, space ptx.Space) (m *access, slot int32, err error) {
	m = &access{space: space, id: d.f.program.accesses % cachedRefs}
	d.f.program.accesses++
	mem, ok := op.(ptx.Mem)
	if !ok {
		return nil, 0, missing("an address of this form (%T) is not supported", op)
	}
	if len(mem.Args) > 0 {
		return nil, 0, missing("addresses of several parts are not supported")
	}
	m.off = uint64(mem.Offset)
	if mem.Base == "" {
		return m, 0, nil
	}
	if mem.IsReg {
		if slot, err = d.value(ptx.Reg{Name: mem.Base}, ptx.U64); err != nil {
			return nil, 0, err
		}
		r := d.f.regs[mem.Base]
		m.addr32 = r.typ.Size() == 4
		return m, slot, nil
	}
	v, kind := d.f.find(mem.Base)
	switch {
	case v == nil:
		return nil, 0, missing("no variable %s", mem.Base)
	case kind == ptx.ParamSpace && d.f.args[mem.Base] != nil:
		m.off += uint64(d.f.args[mem.Base].Offset)
		m.space = ptx.ParamSpace
		return m, 0, nil
	case kind == ptx.LocalSpace || kind == ptx.ParamSpace:
		m.off += uint64(d.f.local[v.Name])
		m.frameRel = true
		m.space = ptx.LocalSpace
		return m, 0, nil
	}
	if slot, err = d.symbol(mem.Base, 0); err != nil {
		return nil, 0, err
	}
	if space == ptx.Generic && kind == ptx.SharedSpace {
		m.space = ptx.SharedSpace
	}
	return m, slot, nil
}

// find is the variable that a name stands for, and its space.
func (f *function) find(name string) (*ptx.Var, ptx.Space) {
	if a := f.args[name]; a != nil {
		for _, v := range f.src.Params {
			if v.Name == name {
				return v, ptx.ParamSpace
			}
		}
	}
	if v := f.vars[name]; v != nil {
		return v, v.Space
	}
	if v := f.program.module.Var(name); v != nil {
		return v, v.Space
	}
	return nil, ptx.Generic
}

// symbol is the slot of the address of a variable or function, in its own space.
func (d *decoder) symbol(name string, off int64) (int32, error) {
	f := d.f
	v, space := f.find(name)
	if v == nil {
		if fn := f.program.funcs[name]; fn != nil {
			f.takes(fn)
			return f.constSlot(fn.address()), nil
		}
		return 0, missing("no variable or function %s", name)
	}
	switch space {
	case ptx.SharedSpace:
		f.useShared(v)
		return f.addConst(constant{launch: func(x *execution) uint64 {
			return x.l.Kernel.shared[v] + uint64(off)
		}}), nil
	case ptx.LocalSpace, ptx.ParamSpace:
		if a := f.args[name]; a != nil {
			return f.constSlot(uint64(a.Offset) + uint64(off)), nil
		}
		slot := d.temp()
		d.emit(inst{d: slot, exec: execLocalAddress, aux: uint64(f.local[v.Name]) + uint64(off)})
		return slot, nil
	}
	addr, ok := f.program.addr(name)
	if !ok {
		return 0, missing("variable %s has no address", name)
	}
	return f.constSlot(addr + uint64(off)), nil
}

func execLocalAddress(w *warp, in *inst) { w.writeUniform(in.d, w.f.local+in.aux.(uint64)) }

func (f *function) useShared(v *ptx.Var) {
	for _, u := range f.shared {
		if u == v {
			return
		}
	}
	f.shared = append(f.shared, v)
}

// takes notes that f calls fn or takes its address.
func (f *function) takes(fn *function) {
	for _, c := range f.callees {
		if c == fn {
			return
		}
	}
	f.callees = append(f.callees, fn)
}

// strong is true of accesses that order others around them.
func (d *decoder) strong() bool {
	return d.hasAny("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio") != ""
}

func decodeLoad(d *decoder) error {
	m, slot, err := d.accessOf(1, 0)
	if err != nil {
		return err
	}
	if m.space == ptx.ParamSpace && slot == 0 && d.in.Guard == "" {
		return d.loadParam(m)
	}
	if d.in.Op == "ld" && m.space == ptx.ConstSpace || d.has("nc") || d.in.Op == "ldu" {
		m.strong = false
	}
	for i, e := range d.elements(0) {
		if m.slots[i], err = d.destOf(e); err != nil {
			return err
		}
	}
	d.emit(inst{exec: execLoad, a: slot, mem: m})
	return nil
}

func decodeStore(d *decoder) error {
	m, slot, err := d.accessOf(0, 1)
	if err != nil {
		return err
	}
	m.write = true
	for i, e := range d.elements(1) {
		if m.slots[i], err = d.value(e, m.typ); err != nil {
			return err
		}
	}
	d.emit(inst{exec: execStore, a: slot, mem: m})
	return nil
}

// accessOf decodes what loads and stores have in common: operand at is the
// address, operand val the register or vector.
func (d *decoder) accessOf(at, val int) (*access, int32, error) {
	if err := d.want(2); err != nil {
		return nil, 0, err
	}
	m, slot, err := d.address(d.in.Operands[at], d.space())
	if err != nil {
		return nil, 0, err
	}
	n := d.vector()
	m.typ = d.typ(len(d.types) - 1)
	if m.typ.Size() == 0 || m.typ.Size() > 8 || m.typ == ptx.Pred {
		return nil, 0, missing("accesses of type %v are not supported", m.typ)
	}
	if got := len(d.elements(val)); got != n {
		return nil, 0, missing("%d registers for a vector of %d", got, n)
	}
	m.size = uint64(m.typ.Size())
	m.bytes = m.size * uint64(n)
	if m.bytes > 32 {
		return nil, 0, missing("accesses of %d bytes are not supported", m.bytes)
	}
	m.slots = make([]int32, n)
	m.strong = d.strong()
	return m, slot, nil
}

// elements are the parts of operand i if it is a vector, else the operand itself.
func (d *decoder) elements(i int) []ptx.Operand {
	op := d.in.Operands[i]
	if v, ok := op.(ptx.Vec); ok {
		return v.Elems
	}
	if n := d.vector(); n > 1 {
		if parts, err := d.components(op, n); err == nil {
			return parts
		}
	}
	return []ptx.Operand{op}
}

// loadParam makes a kernel's argument a constant of the launch: the register
// becomes a name of it if nothing else writes it.
func (d *decoder) loadParam(m *access) error {
	for i, e := range d.elements(0) {
		src := d.f.paramSlot(int(m.off)+i*int(m.size), m.typ)
		if err := d.copyTo(e, src); err != nil {
			return err
		}
	}
	return nil
}

// copyTo gives a register the value of a slot that never changes, by another
// name for the slot where that does.
func (d *decoder) copyTo(op ptx.Operand, src int32) error {
	if _, ok := op.(ptx.Sink); ok {
		return d.elide()
	}
	r, ok := op.(ptx.Reg)
	if ok && d.in.Guard == "" && d.defs[regName(r)] == 1 && d.f.constant(src) {
		if reg, ok := d.f.regs[regName(r)]; ok && !reg.pred && reg.typ.Size() <= 8 {
			d.f.alias[regName(r)] = src
			return d.elide()
		}
	}
	dst, err := d.destOf(op)
	if err != nil {
		return err
	}
	d.emit(inst{d: dst, a: src, exec: execPure, vec: vecMove, aff: affMove})
	return nil
}

// constant is true of slots that no instruction writes.
func (f *function) constant(slot int32) bool { return f.fixed[slot] }
