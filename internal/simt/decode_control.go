package simt

import (
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
		return missing("the targets must be a label")
	}
	names, ok := d.f.src.Tables[s.Name]
	if !ok {
		return missing("no .branchtargets %s", s.Name)
	}
	out := inst{kind: kindIndexed}
	for _, n := range names {
		at, ok := d.f.src.Labels[n]
		if !ok {
			return missing("no label %s", n)
		}
		out.table = append(out.table, int32(at))
	}
	var err error
	if out.a, err = d.source(0, ptx.U32); err != nil {
		return err
	}
	d.emit(out)
	return nil
}

func decodeRet(d *decoder) error {
	d.emit(inst{kind: kindRet})
	return nil
}

func decodeExit(d *decoder) error {
	d.emit(inst{kind: kindExit})
	return nil
}

// decodeYield is nanosleep.
func decodeYield(d *decoder) error {
	ns, err := d.source(0, ptx.U32)
	if err != nil {
		return err
	}
	d.emit(inst{kind: kindYield, a: ns})
	return nil
}

// decodeNop is for hints.
func decodeNop(d *decoder) error { return d.elide() }

// decodeTrap faults. Without a debugger, hardware does the same for brkpt.
func decodeTrap(d *decoder) error {
	d.emit(inst{exec: func(w *warp, in *inst) {
		w.trap(in, w.active, cu.ErrorLaunchFailed, 0, 0)
	}})
	return nil
}

// decodeCreatePolicy gives a cache policy that nobody looks at.
func decodeCreatePolicy(d *decoder) error {
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	d.emit(inst{exec: execPure, d: dst, vec: vecMove, aff: affMove})
	return nil
}

func decodeFence(d *decoder) error {
	if d.has("proxy") || d.hasAny("mbarrier_init") != "" {
		return missing("fences between proxies are not supported")
	}
	d.emit(inst{exec: func(w *warp, _ *inst) { w.k.fullFence() }})
	return nil
}

// decodeBar is bar and barrier in all forms.
func decodeBar(d *decoder) error {
	if d.has("warp") {
		return d.barWarp()
	}
	if d.has("cluster") {
		return missing("barriers of clusters are not supported")
	}
	op := &barrierOp{arrive: d.has("arrive")}
	out := inst{kind: kindBarrier, aux: op}
	args := d.in.Operands
	if d.has("red") {
		op.red = d.hasAny("popc", "and", "or")
		if err := d.want(3); err != nil {
			return err
		}
		var err error
		if op.red == "popc" {
			out.d, err = d.dest(0)
		} else {
			out.q, err = d.predicateDest(args[0])
		}
		if err != nil {
			return err
		}
		if out.p, out.pNot, err = d.predicate(args[len(args)-1]); err != nil {
			return err
		}
		args = args[1 : len(args)-1]
	}
	var err error
	if len(args) > 0 {
		if out.a, err = d.value(args[0], ptx.U32); err != nil {
			return err
		}
	}
	if len(args) > 1 {
		op.hasN = true
		if out.b, err = d.value(args[1], ptx.U32); err != nil {
			return err
		}
	}
	d.emit(out)
	return nil
}

func (d *decoder) barWarp() error {
	members, err := d.source(0, ptx.B32)
	if err != nil {
		return err
	}
	d.emit(inst{kind: kindSync, c: members, exec: func(*warp, *inst) {}})
	return nil
}

// decodeCall is a call of a function of the module, of one of the system's, or
// by address.
func decodeCall(d *decoder) error {
	var results, args []ptx.Operand
	ops := d.in.Operands
	if len(ops) > 0 {
		if l, ok := ops[0].(ptx.List); ok {
			results, ops = l.Elems, ops[1:]
		}
	}
	if len(ops) == 0 {
		return missing("a call of nothing")
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
			d.f.takes(fn)
			if len(fn.src.Params) != len(args) || len(fn.src.Returns) != len(results) {
				return missing("%s takes %d arguments and gives %d results", t.Name, len(fn.src.Params), len(fn.src.Returns))
			}
		} else if b := builtins[t.Name]; b != nil {
			c.builtin = b
		} else {
			return missing("function %s is not in this module", t.Name)
		}
	case ptx.Reg:
		s, err := d.value(t, ptx.U64)
		if err != nil {
			return err
		}
		out.a = s
		for _, fn := range d.f.program.list {
			if !fn.src.Entry {
				d.f.takes(fn)
			}
		}
	default:
		return missing("a call of this form (%T) is not supported", target)
	}
	var err error
	if c.args, err = d.places(args, false); err != nil {
		return err
	}
	if c.results, err = d.places(results, true); err != nil {
		return err
	}
	d.emit(out)
	return nil
}

// places are where the arguments or results of a call are.
func (d *decoder) places(ops []ptx.Operand, write bool) ([]place, error) {
	out := make([]place, len(ops))
	for i, op := range ops {
		if s, ok := op.(ptx.Sym); ok {
			if v := d.f.vars[s.Name]; v != nil && (v.Space == ptx.ParamSpace || v.Space == ptx.LocalSpace) {
				out[i] = place{local: d.f.local[v.Name], size: v.Size()}
				continue
			}
		}
		var slot int32
		var err error
		if write {
			slot, err = d.destOf(op)
		} else {
			slot, err = d.value(op, ptx.B64)
		}
		if err != nil {
			return nil, err
		}
		out[i] = place{slot: slot, reg: true, size: 8}
	}
	return out, nil
}
