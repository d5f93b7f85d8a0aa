package simt

import (
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// decodeMove decodes mov: between registers, of constants and addresses, and of
// vectors that are packed into one register or unpacked from it.
func decodeMove(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	t := d.typ(0)
	if t == ptx.Pred {
		return d.movePredicate()
	}
	if t == ptx.B128 {
		return missing("128-bit registers are not supported")
	}
	dst, src := d.in.Operands[0], d.in.Operands[1]
	dv, dVec := dst.(ptx.Vec)
	sv, sVec := src.(ptx.Vec)
	switch {
	case d.vector() > 1:
		return d.moveVector()
	case dVec && sVec:
		return missing("a move from vector to vector is not supported")
	case dVec:
		return d.unpack(dv.Elems, src, t)
	case sVec:
		return d.pack(dst, sv.Elems, t)
	}
	s, err := d.value(src, t)
	if err != nil {
		return err
	}
	return d.copyTo(dst, s)
}

// moveVector decodes mov of vectors, as old PTX has it.
func (d *decoder) moveVector() error {
	n := d.vector()
	dst, err := d.components(d.in.Operands[0], n)
	if err != nil {
		return err
	}
	src, err := d.components(d.in.Operands[1], n)
	if err != nil {
		return err
	}
	temps := make([]int32, n)
	for i, s := range src {
		reg, err := d.value(s, d.typ(0))
		if err != nil {
			return err
		}
		temps[i] = d.temp()
		d.emit(inst{d: temps[i], a: reg, exec: execPure, vec: vecMove, aff: affMove})
	}
	for i, o := range dst {
		reg, err := d.destOf(o)
		if err != nil {
			return err
		}
		d.emit(inst{d: reg, a: temps[i], exec: execPure, vec: vecMove, aff: affMove})
	}
	return nil
}

// components returns the n parts of a vector in braces or of a vector register.
func (d *decoder) components(op ptx.Operand, n int) ([]ptx.Operand, error) {
	switch op := op.(type) {
	case ptx.Vec:
		if len(op.Elems) == n {
			return op.Elems, nil
		}
	case ptx.Reg:
		out := make([]ptx.Operand, n)
		for i := range out {
			if op.Special {
				out[i] = ptx.Reg{Name: op.Name + "." + "xyzw"[i&3:i&3+1], Special: true}
			} else {
				out[i] = ptx.Reg{Name: op.Name, Comp: "xyzw"[i&3]}
			}
		}
		return out, nil
	}
	return nil, missing("this operand is not a vector of %d elements", n)
}

// pack decodes mov of a vector into one register. The first element is the lowest.
func (d *decoder) pack(dst ptx.Operand, elems []ptx.Operand, t ptx.Type) error {
	width := 8 * t.Size() / max(len(elems), 1)
	if t.Size() == 0 || width == 0 || width*len(elems) != 8*t.Size() {
		return missing("%d elements into %v is not supported", len(elems), t)
	}
	reg, err := d.destOf(dst)
	if err != nil {
		return err
	}
	acc := int32(0)
	for i, e := range elems {
		s, err := d.value(e, widthType(width))
		if err != nil {
			return err
		}
		to := reg
		if i < len(elems)-1 {
			to = d.temp()
		}
		shift, mask := width*i, uint64(1)<<width-1
		d.emit(inst{d: to, a: s, b: acc, exec: execPure, vec: func(d, a, b, _ *lanes, n int) {
			for i := range d[:n] {
				d[i] = a[i]&mask<<shift | b[i]
			}
		}})
		acc = to
	}
	return nil
}

func (d *decoder) unpack(elems []ptx.Operand, src ptx.Operand, t ptx.Type) error {
	width := 8 * t.Size() / max(len(elems), 1)
	if t.Size() == 0 || width == 0 || width*len(elems) != 8*t.Size() {
		return missing("%v into %d elements is not supported", t, len(elems))
	}
	s, err := d.value(src, t)
	if err != nil {
		return err
	}
	// The source may be one of the destinations.
	temp := d.temp()
	d.emit(inst{d: temp, a: s, exec: execPure, vec: vecMove, aff: affMove})
	for i, e := range elems {
		if _, ok := e.(ptx.Sink); ok {
			continue
		}
		reg, err := d.destOf(e)
		if err != nil {
			return err
		}
		shift, mask := width*i, uint64(1)<<width-1
		d.emit(inst{d: reg, a: temp, exec: execPure, vec: func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				d[i] = a[i] >> shift & mask
			}
		}})
	}
	return nil
}

func decodeCvta(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	space := d.space()
	if space == ptx.ParamSpace && d.stackParam(d.operand(1)) {
		space = ptx.LocalSpace
	}
	window := (&access{space: space}).base()
	if d.has("to") {
		window = -window
	}
	s, err := d.address1(d.in.Operands[1])
	if err != nil {
		return err
	}
	if window == 0 {
		return d.copyTo(d.in.Operands[0], s)
	}
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	d.emit(inst{d: dst, a: s, b: d.f.constReg(window), exec: execPure, vec: vecAdd, aff: affAdd})
	return nil
}

// address1 returns the register of the address of a register or symbol, with or
// without an offset.
func (d *decoder) address1(op ptx.Operand) (int32, error) {
	if m, ok := op.(ptx.Mem); ok && !m.IsReg {
		op = ptx.Sym{Name: m.Base, Offset: m.Offset}
	}
	return d.value(op, ptx.U64)
}

// decodeIsSpace decodes isspacep, which tests whether a generic address is in a
// window.
func decodeIsSpace(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	space := d.space()
	window := (&access{space: space}).base()
	p, err := d.predicateDest(d.in.Operands[0])
	if err != nil {
		return err
	}
	a, err := d.address1(d.in.Operands[1])
	if err != nil {
		return err
	}
	var test compareFunc
	switch space {
	case ptx.GlobalSpace, ptx.ConstSpace:
		// Constant variables lie in global memory here and cannot be told from it.
		global := space == ptx.GlobalSpace
		test = func(a, _ *lanes, n int) (m uint32) {
			for i := range a[:n] {
				if global && a[i] < windows {
					m |= 1 << i
				}
			}
			return m
		}
	default:
		test = func(a, _ *lanes, n int) (m uint32) {
			for i := range a[:n] {
				if a[i]-window < 1<<windowBits {
					m |= 1 << i
				}
			}
			return m
		}
	}
	d.emit(inst{p: p, q: -1, a: a, exec: execSetp, cmp: test, aux: &combine{}})
	return nil
}

func (d *decoder) movePredicate() error {
	src, not, err := d.predicate(d.in.Operands[1])
	if err != nil {
		return err
	}
	dst, err := d.predicateDest(d.in.Operands[0])
	if err != nil {
		return err
	}
	d.emit(inst{p: dst, exec: func(w *warp, in *inst) {
		p := &w.f.preds[dst]
		*p = *p&^w.active | (w.f.preds[src]^not)&w.active
	}})
	return nil
}

// spaces maps a modifier to its state space.
var spaces = map[string]ptx.Space{
	"global": ptx.GlobalSpace, "const": ptx.ConstSpace, "shared": ptx.SharedSpace,
	"local": ptx.LocalSpace, "param": ptx.ParamSpace,
}

// space returns the state space that the modifiers name, Generic if they name none.
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

// vector returns the number of elements that the modifiers ask for.
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

// address decodes an address operand: [register+offset], [symbol+offset] or [offset].
// It returns the access and the register of the base.
func (d *decoder) address(op ptx.Operand, space ptx.Space) (m *access, reg int32, err error) {
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
		if reg, err = d.value(ptx.Reg{Name: mem.Base}, ptx.U64); err != nil {
			return nil, 0, err
		}
		r := d.f.regs[mem.Base]
		m.addr32 = r.typ.Size() == 4
		if space == ptx.ParamSpace && d.onStack() {
			m.space = ptx.LocalSpace
		}
		return m, reg, nil
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
	if reg, err = d.symbol(mem.Base, 0); err != nil {
		return nil, 0, err
	}
	if space == ptx.Generic && kind == ptx.SharedSpace {
		m.space = ptx.SharedSpace
	}
	return m, reg, nil
}

// onStack reports whether a register that the current instruction uses as an address of
// .param space holds an address of local memory. There lie the parameters and results of
// device functions and of calls. Without ::entry and ::func, the address belongs to the
// parameters of the function that has the instruction; a store never belongs to a kernel's.
func (d *decoder) onStack() bool {
	switch {
	case d.has("param::entry"):
		return false
	case d.has("param::func"), d.in.Op == "st":
		return true
	}
	return !d.f.src.Entry
}

// stackParam reports whether op names a parameter or result that lies in local memory.
func (d *decoder) stackParam(op ptx.Operand) bool {
	name := ""
	switch op := op.(type) {
	case ptx.Sym:
		name = op.Name
	case ptx.Mem:
		if !op.IsReg {
			name = op.Base
		}
	}
	_, ok := d.f.local[name]
	return ok && d.f.args[name] == nil
}

// symbol returns a register with the address of a variable or function in its own
// space.
func (d *decoder) symbol(name string, off int64) (int32, error) {
	f := d.f
	v, space := f.find(name)
	if v == nil {
		if fn := f.program.funcs[name]; fn != nil {
			f.addCallee(fn)
			return f.constReg(fn.address()), nil
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
			return f.constReg(uint64(a.Offset) + uint64(off)), nil
		}
		reg := d.temp()
		d.emit(inst{d: reg, exec: execLocalAddress, aux: uint64(f.local[v.Name]) + uint64(off)})
		return reg, nil
	}
	return d.variableAddress(name, off), nil
}

// variableAddress returns a register with the address of a variable of global or constant
// space. It is a constant of the launch, because each load of a module has its own
// variables.
func (d *decoder) variableAddress(name string, off int64) int32 {
	f := d.f
	at := ptx.Sym{Name: name, Offset: off}
	if reg, ok := f.symbols[at]; ok {
		return reg
	}
	i := f.program.variable(name)
	if !slices.Contains(f.uses, i) {
		f.uses = append(f.uses, i)
	}
	f.symbols[at] = f.addConst(constant{launch: func(x *execution) uint64 {
		return x.l.Kernel.addresses[i] + uint64(off)
	}})
	return f.symbols[at]
}

func execLocalAddress(w *warp, in *inst) { w.writeUniform(in.d, w.f.local+in.aux.(uint64)) }

// strong reports whether the access orders the accesses around it.
func (d *decoder) strong() bool {
	return d.hasAny("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio") != ""
}

// releases returns the scope of a release, fenceNone without one.
func (d *decoder) releases() fence {
	if d.hasAny("release", "acq_rel") == "" {
		return fenceNone
	}
	return d.fenceScope()
}

// fenceScope returns whom a fence or a release reaches.
func (d *decoder) fenceScope() fence {
	if d.has("cta") {
		return fenceBlock
	}
	return fenceDevice
}

func decodeLoad(d *decoder) error {
	m, reg, err := d.accessOf(1, 0)
	if err != nil {
		return err
	}
	if m.space == ptx.ParamSpace && reg == 0 && d.in.Guard == "" {
		return d.loadParam(m)
	}
	if d.in.Op == "ld" && m.space == ptx.ConstSpace || d.has("nc") || d.in.Op == "ldu" {
		m.strong = false
	}
	m.uncached = m.strong || uncachedLoad(d.in)
	for i, e := range d.elements(0) {
		if m.regs[i], err = d.destOf(e); err != nil {
			return err
		}
	}
	d.emit(inst{exec: execLoad, a: reg, mem: m, shares: sharesLoad})
	return nil
}

func decodeStore(d *decoder) error {
	m, reg, err := d.accessOf(0, 1)
	if err != nil {
		return err
	}
	m.write = true
	for i, e := range d.elements(1) {
		if m.regs[i], err = d.value(e, m.typ); err != nil {
			return err
		}
	}
	d.emit(inst{exec: execStore, a: reg, mem: m, shares: sharesStore})
	return nil
}

// accessOf decodes what loads and stores have in common. Operand at is the address,
// operand val the register or vector.
func (d *decoder) accessOf(at, val int) (*access, int32, error) {
	if err := d.want(2); err != nil {
		return nil, 0, err
	}
	m, reg, err := d.address(d.in.Operands[at], d.space())
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
	m.regs = make([]int32, n)
	m.strong, m.releases = d.strong(), d.releases()
	return m, reg, nil
}

// elements returns the parts of operand i if it is a vector, otherwise the operand
// itself.
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

// loadParam turns a kernel argument into a constant of the launch.
func (d *decoder) loadParam(m *access) error {
	for i, e := range d.elements(0) {
		src := d.f.paramReg(int(m.off)+i*int(m.size), m.typ)
		if err := d.copyTo(e, src); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies a register to operand op. No instruction is needed if op can become another
// name of the register.
func (d *decoder) copyTo(op ptx.Operand, src int32) error {
	if _, ok := op.(ptx.Sink); ok || d.makeAlias(op, src) {
		return d.elide()
	}
	dst, err := d.destOf(op)
	if err != nil {
		return err
	}
	d.emit(inst{d: dst, a: src, exec: execPure, vec: vecMove, aff: affMove})
	return nil
}
