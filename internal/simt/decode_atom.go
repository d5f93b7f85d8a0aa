package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

var atomicOps = []string{"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"}

// decodeAtom is atom, which gives the old value, and red, which does not.
func decodeAtom(d *decoder) error {
	if d.has("async") {
		return missing("asynchronous reductions are not supported")
	}
	space := d.space()
	i := slices.IndexFunc(d.in.Mods, func(m string) bool { return slices.Contains(atomicOps, m) })
	if i < 0 {
		return missing("no operation that is implemented")
	}
	op := d.in.Mods[i]
	t := d.typ(len(d.types) - 1)
	if d.vector() > 1 {
		return missing("vectors are not supported")
	}
	f := atomicOf(op, t, space)
	if f == nil {
		return missing("operation %s of type %v is not supported", op, t)
	}
	at := 1
	if d.in.Op == "red" {
		at = 0
	}
	if err := d.want(at + 2); err != nil {
		return err
	}
	m, slot, err := d.address(d.in.Operands[at], space)
	if err != nil {
		return err
	}
	m.typ, m.size, m.bytes = t, uint64(t.Size()), uint64(t.Size())
	m.write, m.atomic = true, true
	out := inst{exec: execAtom, a: slot, mem: m, aux: &atomicOp{f, op}, d: -1}
	if at == 1 {
		if out.d, err = d.dest(0); err != nil {
			return err
		}
	}
	if out.b, err = d.source(at+1, t); err != nil {
		return err
	}
	if op == "cas" {
		if out.c, err = d.source(at+2, t); err != nil {
			return err
		}
	}
	d.emit(out)
	return nil
}

func execAtom(w *warp, in *inst) {
	f := w.f
	b, c := f.expand(in.b), f.expand(in.c)
	if !w.scattered(in) {
		return
	}
	op := in.aux.(*atomicOp)
	w.k.atomics(op.f, &w.k.tmp, b, c, w.active)
	if op.idle(&w.k.tmp, b, in.mem.size, w.active) {
		w.poll(in.mem)
	}
	if in.d >= 0 {
		w.write(in.d)
	}
}

type atomicOp struct {
	f    atomicFunc
	name string
}

// idle is true if an atomic may have changed nothing, as that of a thread does
// which waits for another.
func (o *atomicOp) idle(old, b *lanes, size uint64, active uint32) bool {
	shift := 64 - 8*size
	for m := active; m != 0; m &= m - 1 {
		i := trailing(m)
		x, y := old[i]<<shift, b[i]<<shift
		switch o.name {
		case "cas":
			if x != y {
				return true
			}
		case "exch":
			if x == y {
				return true
			}
		default:
			if y == 0 {
				return true
			}
		}
	}
	return false
}

// atomicOf is the atomic operation of that name and type, nil if there is none.
func atomicOf(op string, t ptx.Type, space ptx.Space) atomicFunc {
	size := t.Size()
	switch {
	case size == 16 || size < 2:
		return nil
	case op == "cas" && size == 4:
		return atomicCAS32
	case op == "cas" && size == 8:
		return atomicCAS64
	case op == "cas":
		return atomicUpdate(2, func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		})
	case op == "exch" && size == 4:
		return atomicExchange32
	case op == "exch" && size == 8:
		return atomicExchange64
	case t.IsFloat():
		return atomicFloat(op, t, space)
	case size == 2:
		return nil
	case op == "add" && size == 4:
		return atomicAdd32
	case op == "add":
		return atomicAdd64
	case op == "inc" && size == 4:
		return atomicUpdate(4, func(old, b, _ uint64) uint64 {
			if uint32(old) >= uint32(b) {
				return 0
			}
			return old + 1
		})
	case op == "dec" && size == 4:
		return atomicUpdate(4, func(old, b, _ uint64) uint64 {
			if uint32(old) == 0 || uint32(old) > uint32(b) {
				return b
			}
			return old - 1
		})
	}
	f := reduction(op, t)
	if f == nil {
		return nil
	}
	return atomicUpdate(size, func(old, b, _ uint64) uint64 { return f(old, b) })
}

// atomicFloat is add, min and max of floats. Additions of f32 to global memory
// flush denormals.
func atomicFloat(op string, t ptx.Type, space ptx.Space) atomicFunc {
	if op != "add" && (op != "min" && op != "max" || t == ptx.F32 || t == ptx.F64) {
		return nil
	}
	if t == ptx.F64 {
		return atomicUpdate(8, func(old, b, _ uint64) uint64 {
			x, y := f64from(old), f64from(b)
			switch {
			case space == ptx.SharedSpace: // a loop of ordinary additions
				x, y = y, x
			case y != y: // as it is, not made quiet
				return b
			case x != x:
				return old
			}
			return f64bits(arith64("add", x, y, 0, roundNearest))
		})
	}
	if t == ptx.F32 {
		ftz := space != ptx.SharedSpace
		return atomicUpdate(4, func(old, b, _ uint64) uint64 {
			x, y := uint32(old), uint32(b)
			if ftz {
				x, y = flush32(x), flush32(y)
			}
			return finish32(f32bits(f32from(x)+f32from(y)), floatMode{ftz: ftz})
		})
	}
	f := formatOf(t)
	one := packed(t, func(a, b, _ uint64) uint64 {
		x, y := decodeFloat(f, a, false), decodeFloat(f, b, false)
		if op == "add" {
			return encode(f, arith("add", x, y, 0, false), roundNearest)
		}
		return encode(f, pickFloat(op == "max", x, y, false), roundNearest)
	})
	return atomicUpdate(t.Size(), one)
}

// decodeCopy is cp.async, done at once: waiting for it is waiting for nothing.
func decodeCopy(d *decoder) error {
	switch {
	case d.has("mbarrier"):
		return d.arriveCopied()
	case d.hasAny("commit_group", "wait_group", "wait_all") != "":
		return d.elide()
	}
	if err := d.want(3); err != nil {
		return err
	}
	n, ok := d.in.Operands[2].(ptx.Imm)
	if !ok || n.Value != 4 && n.Value != 8 && n.Value != 16 {
		return missing("the size must be 4, 8 or 16")
	}
	dst, a, err := d.address(d.in.Operands[0], ptx.SharedSpace)
	if err != nil {
		return err
	}
	src, b, err := d.address(d.in.Operands[1], ptx.GlobalSpace)
	if err != nil {
		return err
	}
	t, count := ptx.B32, 1
	if n.Value >= 8 {
		t, count = ptx.B64, int(n.Value/8)
	}
	var slots []int32
	for range count {
		slots = append(slots, d.temp())
	}
	for _, m := range []*access{src, dst} {
		m.typ, m.size, m.bytes, m.slots = t, uint64(t.Size()), n.Value, slots
	}
	dst.write = true
	limit := int32(-1)
	if len(d.in.Operands) > 3 && !d.has("L2::cache_hint") || len(d.in.Operands) > 4 {
		if limit, err = d.source(3, ptx.U32); err != nil {
			return err
		}
	}
	d.emit(inst{a: b, mem: src, exec: func(w *warp, in *inst) { w.copyIn(in, limit) }})
	d.emit(inst{a: a, mem: dst, exec: execStore})
	return nil
}

// copyIn loads what cp.async copies. Lanes whose limit is less than the size get
// zeros behind it, and read nothing if it is zero.
func (w *warp) copyIn(in *inst, limit int32) {
	if limit < 0 {
		execLoad(w, in)
		return
	}
	f := w.f
	var read uint32
	for m := w.active; m != 0; m &= m - 1 {
		i := trailing(m)
		if uint32(f.lane(limit, i)) != 0 {
			read |= 1 << i
		}
	}
	for _, s := range in.mem.slots {
		w.writeUniform(s, 0)
	}
	if read == 0 {
		return
	}
	active, full, dense := w.active, w.full, w.dense
	w.active, w.full, w.dense = read, full && read == active, dense && read == active
	execLoad(w, in)
	w.active, w.full, w.dense = active, full, dense
	for i, s := range in.mem.slots {
		r := f.expandFor(s)
		for m := read; m != 0; m &= m - 1 {
			l := trailing(m)
			if n := int(uint32(f.lane(limit, l))) - 8*i; n <= 0 {
				r[l] = 0
			} else if n < 8 {
				r[l] &= 1<<(8*n) - 1
			}
		}
	}
}
