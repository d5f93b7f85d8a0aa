package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

var atomicOps = []string{"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"}

// decodeAtom decodes atom, which returns the old value, and red, which does not.
func decodeAtom(d *decoder) error {
	if d.has("async") {
		return missing("asynchronous reductions are not supported")
	}
	space := d.space()
	i := slices.IndexFunc(d.in.Mods, func(m string) bool { return slices.Contains(atomicOps, m) })
	if i < 0 {
		return missing("this operation is not supported")
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
	m, reg, err := d.address(d.in.Operands[at], space)
	if err != nil {
		return err
	}
	m.typ, m.size, m.bytes = t, uint64(t.Size()), uint64(t.Size())
	m.write, m.atomic, m.releases = true, true, d.releases()
	m.compare = op == "cas"
	out := inst{exec: execAtom, shares: sharesAtomic, a: reg, mem: m, aux: &atomicOp{f, op}, d: -1}
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

// idle reports whether an atomic operation may have changed nothing, like that of a
// thread that waits for another.
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

// atomicOf returns the atomic operation of that name and type, nil if there is none.
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

// atomicFloat returns add, min or max of floats. The GPU flushes denormals when it
// adds f32 to global memory.
func atomicFloat(op string, t ptx.Type, space ptx.Space) atomicFunc {
	if op != "add" && (op != "min" && op != "max" || t == ptx.F32 || t == ptx.F64) {
		return nil
	}
	if t == ptx.F64 {
		return atomicUpdate(8, func(old, b, _ uint64) uint64 {
			x, y := f64from(old), f64from(b)
			switch {
			case space == ptx.SharedSpace: // the GPU runs a loop of ordinary additions
				x, y = y, x
			case y != y: // the GPU returns it unchanged, even a signaling NaN
				return b
			case x != x:
				return old
			}
			return f64bits(softfloat.Arith64("add", x, y, 0, softfloat.NearestEven))
		})
	}
	if t == ptx.F32 {
		ftz := space != ptx.SharedSpace
		return atomicUpdate(4, func(old, b, _ uint64) uint64 {
			x, y := uint32(old), uint32(b)
			if ftz {
				x, y = softfloat.Flush32(x), softfloat.Flush32(y)
			}
			return softfloat.Finish32(f32bits(f32from(x)+f32from(y)), softfloat.Mode{FTZ: ftz})
		})
	}
	f := formatOf(t)
	one := packed(t, func(a, b, _ uint64) uint64 {
		x, y := f.Decode(a, false), f.Decode(b, false)
		if op == "add" {
			return f.Encode(softfloat.Arith("add", x, y, 0, false), softfloat.NearestEven)
		}
		return f.Encode(softfloat.Pick(op == "max", x, y, false), softfloat.NearestEven)
	})
	return atomicUpdate(t.Size(), one)
}
