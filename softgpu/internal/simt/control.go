package simt

import (
	"fmt"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

func decodeBra(d *decoder) error {
	s, ok := d.operand(0).(ptx.Sym)
	if !ok {
		return missing("the target must be a label")
	}
	at, ok := d.f.src.Labels[s.Name]
	if !ok {
		return missing("no label %s", s.Name)
	}
	d.emit(inst{kind: kindBranch, target: int32(at)})
	return nil
}

func decodeBrx(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	s, ok := d.in.Operands[1].(ptx.Sym)
	if !ok {
		return missing("the targets must be the label of a .branchtargets")
	}
	out := inst{kind: kindIndexed}
	var err error
	if out.table, err = d.table(s.Name); err != nil {
		return err
	}
	if out.a, err = d.source(0, ptx.U32); err != nil {
		return err
	}
	d.emit(out)
	return nil
}

// table returns the instructions of the labels of a table, as indices into the body. Branches of
// one table share them.
func (d *decoder) table(name string) ([]int32, error) {
	if t, ok := d.tables[name]; ok {
		return t, nil
	}
	labels, ok := d.f.src.Tables[name]
	if !ok {
		return nil, missing("no .branchtargets %s", name)
	}
	table := make([]int32, len(labels))
	for i, n := range labels {
		at, ok := d.f.src.Labels[n]
		if !ok {
			return nil, missing("no label %s", n)
		}
		table[i] = int32(at)
	}
	d.tables[name] = table
	return table, nil
}

func decodeRet(d *decoder) error {
	d.emit(inst{kind: kindRet})
	return nil
}

func decodeExit(d *decoder) error {
	d.emit(inst{kind: kindExit})
	return nil
}

// decodeYield decodes nanosleep.
func decodeYield(d *decoder) error {
	ns, err := d.source(0, ptx.U32)
	if err != nil {
		return err
	}
	d.emit(inst{kind: kindYield, a: ns})
	return nil
}

// decodeNop decodes hints, which have no effect.
func decodeNop(d *decoder) error { return d.elide() }

// decodeTrap decodes trap and brkpt. Without a debugger, hardware faults at both.
func decodeTrap(d *decoder) error {
	d.emit(inst{exec: func(w *warp, in *inst) {
		w.trap(in, w.active, cu.ErrorLaunchFailed, 0, 0)
	}})
	return nil
}

// decodeCreatePolicy decodes createpolicy. Nothing reads the cache policy.
func decodeCreatePolicy(d *decoder) error {
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	d.emit(inst{exec: execPure, d: dst, vec: vecMove, aff: affMove})
	return nil
}

const (
	maxDepth = 4096      // frames per thread
	maxLocal = 512 << 10 // bytes per thread, as on hardware
)

// callSite is a call. Arguments and results are passed in local memory, where .param
// variables are, or from register to register.
type callSite struct {
	fn      *function // nil for an indirect call
	args    []place
	results []place
	builtin func(w *warp, in *inst)
}

// place is where an argument or a result is in a frame: a local variable or a
// register.
type place struct {
	local int
	reg   int32
	isReg bool
	size  int
}

// call calls a function for the active lanes.
func (w *warp) call(in *inst) {
	c := in.call
	if c.builtin != nil {
		c.builtin(w, in)
		return
	}
	fn := c.fn
	if fn == nil {
		if fn = w.callee(in); fn == nil {
			return
		}
	}
	up := w.f
	stack := up.stackOf(in, fn)
	if !w.stackFits(in, stack, fn.name) {
		return
	}
	local := uint64(alignUp(up.stackTop(), 16))
	if f := w.enteredBefore(fn, in, local); f != nil {
		w.enter(f)
		return
	}
	if up.depth >= maxDepth || int(local)+fn.localBytes > maxLocal {
		w.trap(in, w.active, cu.ErrorHardwareStackError, 0, 0)
		w.fault.Why = fmt.Sprintf("%d nested calls with %d bytes of local memory, at most %d calls and %d bytes are possible: is there an end to the recursion?",
			up.depth, local, maxDepth, maxLocal)
		return
	}
	if w.k.stack > w.k.x.stack/w.k.x.workers {
		w.trap(in, w.active, cu.ErrorHardwareStackError, 0, 0)
		w.fault.Why = fmt.Sprintf("the call frames of all threads take over %d MiB: is there an end to the recursion?", w.k.x.stack>>20)
		return
	}
	w.needLocal(int(local) + fn.localBytes)
	f := w.k.newFrame(fn)
	if w.tr.block != nil {
		f.follow()
	}
	f.parent, f.ret, f.call, f.depth, f.local = up, w.pc, in, up.depth+1, local
	f.stack, f.folds = up.stackUsed()+stack, up.folds && stack == 0
	w.enter(f)
	w.setSpecials()
}

// enter makes the active lanes begin a function in frame f.
func (w *warp) enter(f *frame) {
	w.move(w.f, f.call.call.args, f, f.fn.paramPlaces)
	f.lanes |= w.active
	w.f, w.pc = f, 0
	w.setActive(w.active)
	w.budget -= 16
	w.setLimit()
}

// enteredBefore returns the frame of lanes that made the same call before and are still in
// it, nil if there is none. Lanes that share a frame can meet at an instruction for the whole
// warp, whatever the order in which they called.
func (w *warp) enteredBefore(fn *function, in *inst, local uint64) *frame {
	for i := range w.others {
		for f := w.others[i].f; f != nil && f.depth > w.f.depth; f = f.parent {
			if f.parent == w.f && f.call == in && f.fn == fn && f.local == local {
				return f
			}
		}
	}
	return nil
}

// callee returns the function that an indirect call calls. Lanes that call another
// function stay behind as a group and repeat the instruction later. If there is no
// such function, callee records a fault and returns nil.
func (w *warp) callee(in *inst) *function {
	lane := bits.TrailingZeros32(w.active)
	addr := w.f.lane(in.a, lane)
	var rest uint32
	for m := w.active; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros32(m); w.f.lane(in.a, i) != addr {
			rest |= 1 << i
		}
	}
	if rest != 0 {
		w.others = append(w.others, group{f: w.f, pc: w.pc - 1, mask: rest, ran: w.turn})
		w.setActive(w.active &^ rest)
	}
	list := w.f.fn.program.list
	id := (addr - codeWindow) / codeStep
	if addr < codeWindow || id >= uint64(len(list)) || list[id].src.Entry {
		w.trap(in, w.active, cu.ErrorInvalidPC, addr, 0)
		return nil
	}
	fn := list[id]
	if len(fn.paramPlaces) != len(in.call.args) || len(fn.resultPlaces) != len(in.call.results) {
		w.trap(in, w.active, cu.ErrorInvalidPC, 0, 0)
		w.fault.Why = fmt.Sprintf("the address is that of function %s, which takes %s and returns %s; the call passes %d and wants %d",
			fn.name, plural(len(fn.paramPlaces), "argument"), plural(len(fn.resultPlaces), "value"), len(in.call.args), len(in.call.results))
		return nil
	}
	return fn
}

// plural returns "1 argument" or "2 arguments".
func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// ret returns some of the active lanes to their caller.
func (w *warp) ret(taken uint32) {
	f := w.f
	up := f.parent
	rest := w.active &^ taken
	active := w.active
	w.active = taken
	w.move(f, f.fn.resultPlaces, up, f.call.call.results)
	w.active = active
	f.lanes &^= taken
	pc := f.ret
	switch {
	case f.lanes == 0:
		w.k.freeFrame(f)
		w.f, w.pc = up, pc
		w.setActive(taken)
		w.reconverge()
	case rest != 0:
		w.others = append(w.others, group{f: up, pc: pc, mask: taken, ran: w.turn})
		w.setActive(rest)
	default:
		w.others = append(w.others, group{f: up, pc: pc, mask: taken, ran: w.turn})
		w.active = 0
		w.next()
	}
}

// move copies values of the active lanes from one frame to another.
func (w *warp) move(from *frame, src []place, to *frame, dst []place) {
	for i := range min(len(src), len(dst)) {
		s, d := src[i], dst[i]
		switch {
		case s.isReg && d.isReg:
			a, r := from.expand(s.reg), to.expandFor(d.reg)
			for m := w.active; m != 0; m &= m - 1 {
				l := bits.TrailingZeros32(m)
				r[l] = a[l]
			}
		case !s.isReg && !d.isReg:
			for m := w.active; m != 0; m &= m - 1 {
				l := w.lane(bits.TrailingZeros32(m))
				copy(l[int(to.local)+d.local:][:min(s.size, d.size)], l[int(from.local)+s.local:][:s.size])
			}
		case s.isReg:
			a := from.expand(s.reg)
			for m := w.active; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m)
				storeBytes(w.lane(i)[int(to.local)+d.local:][:d.size], a[i])
			}
		default:
			r := to.expandFor(d.reg)
			for m := w.active; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m)
				r[i] = loadBytes(w.lane(i)[int(from.local)+s.local:][:s.size])
			}
		}
	}
}

// lane returns the local memory of one lane.
func (w *warp) lane(i int) []byte {
	return w.local[i*w.localCap : (i+1)*w.localCap]
}

// loadBytes reads up to 8 bytes in little-endian order.
func loadBytes(b []byte) uint64 {
	var v uint64
	for i := range min(len(b), 8) {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

func storeBytes(b []byte, v uint64) {
	for i := range min(len(b), 8) {
		b[i] = byte(v >> (8 * i))
	}
}

// decodeCall decodes a call of a function of the module, of a builtin, or by address.
func decodeCall(d *decoder) error {
	var results, args []ptx.Operand
	ops := d.in.Operands
	if len(ops) > 0 {
		if l, ok := ops[0].(ptx.List); ok {
			results, ops = l.Elems, ops[1:]
		}
	}
	if len(ops) == 0 {
		return missing("the call has no target")
	}
	target := ops[0]
	if len(ops) > 1 {
		if l, ok := ops[1].(ptx.List); ok {
			args = l.Elems
		}
	}
	c := &callSite{}
	out := inst{kind: kindCall, call: c}
	switch t := target.(type) {
	case ptx.Sym:
		if fn := d.f.program.funcs[t.Name]; fn != nil {
			c.fn = fn
			d.f.addCall(fn)
			if len(fn.src.Params) != len(args) || len(fn.src.Returns) != len(results) {
				return missing("%s takes %d arguments and returns %d results", t.Name, len(fn.src.Params), len(fn.src.Returns))
			}
		} else if b := builtins[t.Name]; b != nil {
			c.builtin = b
			d.f.heap = d.f.heap || t.Name == "malloc" || t.Name == "free"
		} else {
			return missing("function %s is not in this module", t.Name)
		}
	case ptx.Reg:
		s, err := d.value(t, ptx.U64)
		if err != nil {
			return err
		}
		out.a, d.f.indirect = s, true
		d.f.addCallee(nil)
	default:
		return missing("a call of this form (%T) is not supported", target)
	}
	var err error
	parameters := d.parametersOf(target, ops[len(ops)-1])
	if c.args, err = d.places(args, func(i int) (int32, error) { return d.argument(args[i], i, parameters) }); err != nil {
		return err
	}
	if c.results, err = d.places(results, func(i int) (int32, error) { return d.destOf(results[i]) }); err != nil {
		return err
	}
	d.emit(out)
	return nil
}

// parametersOf returns the parameters of what a call calls, nil if they are not known. last is
// its last operand: of a call through a pointer, the label of a prototype or of a list of
// functions.
func (d *decoder) parametersOf(target, last ptx.Operand) []*ptx.Var {
	to, ok := target.(ptx.Sym)
	if _, pointer := target.(ptx.Reg); pointer {
		to, ok = last.(ptx.Sym)
		if p := d.f.src.Protos[to.Name]; p != nil {
			return p.Params
		}
		if list := d.f.src.Tables[to.Name]; len(list) > 0 {
			to.Name = list[0]
		}
	}
	if f := d.f.program.module.Func(to.Name); ok && f != nil {
		return f.Params
	}
	return nil
}

// argument returns the register of argument i of a call. A literal has the type of the
// parameter. One of another kind is refused, not converted.
func (d *decoder) argument(op ptx.Operand, i int, parameters []*ptx.Var) (int32, error) {
	t := ptx.B64
	if i < len(parameters) {
		t = parameters[i].Type
	}
	switch op.(type) {
	case ptx.Imm:
		if t.IsFloat() {
			return 0, missing("argument %d is an integer, and the parameter is .%v: write the number with a point, or its bits behind 0f or 0d", i+1, t)
		}
	case ptx.Float:
		if t.IsFloat() && t != ptx.F16 && t != ptx.F32 && t != ptx.F64 || integral(t) && t < ptx.B8 {
			return 0, missing("argument %d is a float, and the parameter is .%v: move the value to a register of that type", i+1, t)
		}
	}
	return d.value(op, t)
}

// places returns where the arguments or results of a call are. register returns the register of
// one that is no variable.
func (d *decoder) places(ops []ptx.Operand, register func(i int) (int32, error)) ([]place, error) {
	out := make([]place, len(ops))
	for i, op := range ops {
		if s, ok := op.(ptx.Sym); ok {
			if v := d.f.vars[s.Name]; v != nil && (v.Space == ptx.ParamSpace || v.Space == ptx.LocalSpace) {
				out[i] = place{local: d.f.local[v.Name], size: v.Size()}
				continue
			}
		}
		reg, err := register(i)
		if err != nil {
			return nil, err
		}
		out[i] = place{reg: reg, isReg: true, size: 8}
	}
	return out, nil
}

// decodeAlloca decodes alloca ptr, size{, align}, which returns an address in local
// memory. The memory lies after the variables of the frame and ends with the frame.
// All lanes of a frame share one stack pointer, which moves by the largest size that
// a lane asks for.
func decodeAlloca(d *decoder) error {
	d.f.alloca = true
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	size, err := d.source(1, ptx.U64)
	if err != nil {
		return err
	}
	align := 16
	if len(d.in.Operands) > 2 {
		a, ok := d.in.Operands[2].(ptx.Imm)
		if !ok || a.Value == 0 || a.Value&(a.Value-1) != 0 || a.Value > 1<<16 {
			return missing("the alignment must be a power of two")
		}
		align = max(align, int(a.Value))
	}
	narrow := d.typ(0).Size() == 4
	d.emit(inst{d: dst, a: size, exec: func(w *warp, in *inst) {
		var n uint64
		for m := w.active; m != 0; m &= m - 1 {
			v := w.f.lane(in.a, bits.TrailingZeros32(m))
			if narrow {
				v &= 0xffffffff
			}
			n = max(n, v)
		}
		at := alignUp(w.f.stackTop(), align)
		if n > maxLocal || at+int(n) > maxLocal {
			w.trap(in, w.active, cu.ErrorHardwareStackError, 0, 0)
			return
		}
		if !w.stackFits(in, at+int(n)-w.f.stackTop(), "alloca") {
			return
		}
		w.f.top = at + int(n)
		w.needLocal(w.f.top)
		w.writeUniform(in.d, uint64(at))
	}})
	return nil
}

func decodeStackSave(d *decoder) error {
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	d.emit(inst{d: dst, exec: func(w *warp, in *inst) { w.writeUniform(in.d, uint64(w.f.stackTop())) }})
	return nil
}

// decodeStackRestore frees what was allocated since the stacksave.
func decodeStackRestore(d *decoder) error {
	src, err := d.source(0, ptx.U64)
	if err != nil {
		return err
	}
	d.emit(inst{a: src, exec: func(w *warp, in *inst) {
		if w.active != w.f.lanes {
			return // other lanes may still use their memory
		}
		at := 0
		for m := w.active; m != 0; m &= m - 1 {
			at = max(at, int(w.f.lane(in.a, bits.TrailingZeros32(m))&0xffffffff))
		}
		w.f.top = min(w.f.top, at)
	}})
	return nil
}
