package simt

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// An mbarrier object is 8 bytes of shared memory that count arrivals, phase by phase.
// Copies are done at once here, so a wait is only for arrivals and for bytes
// announced with expect_tx. A block runs on one worker, so nothing here needs to be
// atomic.
//
// From its lowest bit, the object has 20 bits of arrivals that the phase still waits
// for, and 20 bits of arrivals per phase. Then come 23 bits of bytes in two's
// complement, and the phase. The state that arrive returns is the object before the
// arrival.

const (
	mbarrierMax   = 1<<20 - 1
	mbarrierBytes = 1<<23 - 1
)

type mbarrierObject struct {
	pending, count int
	bytes          int // still expected; negative if they came early
	phase          uint64
}

func mbarrierFrom(v uint64) mbarrierObject {
	return mbarrierObject{
		pending: int(v & mbarrierMax), count: int(v >> 20 & mbarrierMax),
		bytes: int(int64(v<<1) >> 41), phase: v >> 63,
	}
}

func (m mbarrierObject) bits() uint64 {
	return uint64(m.pending)&mbarrierMax | uint64(m.count)&mbarrierMax<<20 | uint64(m.bytes)&mbarrierBytes<<40 | m.phase<<63
}

// completePhase begins the next phase if nothing is pending.
func (m *mbarrierObject) completePhase() {
	if m.pending == 0 && m.bytes == 0 {
		m.pending, m.phase = m.count, m.phase^1
	}
}

// mbarrierOp is an mbarrier instruction.
type mbarrierOp struct {
	name   string // "init", "arrive", "test_wait", ...
	bytes  int32  // register of the byte count, -1 for none
	count  int32  // register of the arrivals, or of the count of init; -1 for one arrival
	state  int32  // register of the state or parity to wait for, -1 for none
	parity bool
}

// decodeMbarrier decodes all forms of mbarrier.
func decodeMbarrier(d *decoder) error {
	if d.has("pending_count") {
		return d.mbarrierPending()
	}
	op := &mbarrierOp{bytes: -1, count: -1, state: -1, parity: d.has("parity")}
	op.name = d.hasAny("init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "complete_tx", "expect_tx")
	out := inst{exec: execMbarrier, aux: op, d: -1}
	args := d.in.Operands
	var err error
	switch op.name {
	case "arrive", "arrive_drop":
		if err := d.want(2); err != nil {
			return err
		}
		if _, sink := args[0].(ptx.Sink); !sink {
			if out.d, err = d.dest(0); err != nil {
				return err
			}
		}
		args = args[1:]
	case "test_wait", "try_wait":
		if err := d.want(3); err != nil {
			return err
		}
		if out.p, err = d.predicateDest(args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return missing("no address")
	}
	space := ptx.Generic
	if d.hasAny("shared", "shared::cta") != "" {
		space = ptx.SharedSpace
	}
	if out.mem, out.a, err = d.address(args[0], space); err != nil {
		return err
	}
	out.mem.typ, out.mem.size, out.mem.bytes, out.mem.write = ptx.B64, 8, 8, true
	if len(args) > 1 {
		s, err := d.value(args[1], ptx.B64)
		if err != nil {
			return err
		}
		switch {
		case op.name == "test_wait" || op.name == "try_wait":
			op.state = s
		case d.has("expect_tx") || op.name == "complete_tx":
			op.bytes = s
		default:
			op.count = s
		}
	}
	d.emit(out)
	return nil
}

// mbarrierPending decodes pending_count, which reads the pending arrivals of a state.
func (d *decoder) mbarrierPending() error {
	return d.pure(lift1(func(a uint64) uint64 { return uint64(mbarrierFrom(a).pending) }), affNone, ptx.B64)
}

// arriveCopied decodes cp.async.mbarrier.arrive. The copies are done, so the arrival
// happens at once. Without noinc the GPU raises the pending count first, so that in
// sum it does not change.
func (d *decoder) arriveCopied() error {
	if err := d.want(1); err != nil {
		return err
	}
	op := &mbarrierOp{name: "copied", bytes: -1, count: -1, state: -1}
	if d.has("noinc") {
		op.name = "arrive"
	}
	out := inst{exec: execMbarrier, aux: op, d: -1}
	space := ptx.Generic
	if d.hasAny("shared", "shared::cta") != "" {
		space = ptx.SharedSpace
	}
	var err error
	if out.mem, out.a, err = d.address(d.in.Operands[0], space); err != nil {
		return err
	}
	out.mem.typ, out.mem.size, out.mem.bytes, out.mem.write = ptx.B64, 8, 8, true
	d.emit(out)
	return nil
}

func execMbarrier(w *warp, in *inst) {
	op := in.aux.(*mbarrierOp)
	var done, ends uint32
	for rest := w.active; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest)
		p := w.sharedAt(in, i, 8)
		if p == nil {
			return
		}
		old := binary.LittleEndian.Uint64(p)
		m := mbarrierFrom(old)
		phase := m.phase
		if !op.apply(w, &m, i) {
			w.trap(in, 1<<i, cu.ErrorIllegalInstruction, 0, 0)
			return
		}
		if op.state >= 0 {
			if m.passed(w.f.lane(op.state, i), op.parity) {
				done |= 1 << i
			}
			continue
		}
		binary.LittleEndian.PutUint64(p, m.bits())
		w.k.tmp[i] = old
		if m.phase != phase {
			ends |= 1 << i
		}
	}
	w.phaseEnds = ends
	if op.state >= 0 {
		w.f.preds[in.p] = w.f.preds[in.p]&^w.active | done
		if done != w.active {
			w.polled = true
		}
		return
	}
	if in.d >= 0 {
		w.write(in.d)
	}
}

// passed reports whether the phase of a state, or of a parity, is over.
func (m *mbarrierObject) passed(state uint64, parity bool) bool {
	if parity {
		return m.phase != state&1
	}
	return m.phase != state>>63
}

// apply changes an object as the operands of lane i say. It returns false for counts
// that no object can have.
func (op *mbarrierOp) apply(w *warp, m *mbarrierObject, i int) bool {
	n := 1
	if op.count >= 0 {
		n = int(uint32(w.f.lane(op.count, i)))
	}
	if op.bytes >= 0 {
		tx := int(uint32(w.f.lane(op.bytes, i)))
		if op.name == "complete_tx" {
			tx = -tx
		}
		m.bytes += tx
		if m.bytes > mbarrierBytes>>1 || m.bytes < -mbarrierBytes>>1 {
			return false
		}
	}
	switch op.name {
	case "init":
		if n < 1 || n > mbarrierMax {
			return false
		}
		*m = mbarrierObject{pending: n, count: n}
		return true
	case "inval":
		*m = mbarrierObject{}
		return true
	case "arrive_drop":
		m.count -= n
		fallthrough
	case "arrive":
		m.pending -= n
		if m.pending < 0 || m.count < 0 {
			return false
		}
	case "expect_tx":
		return true
	}
	if op.state < 0 {
		m.completePhase()
	}
	return true
}

// copyLimit is the register with the bytes that cp.async reads, -1 for all.
type copyLimit int32

// decodeCopy decodes cp.async. The copy is done at once, so the instructions that
// wait for copies do nothing. The check of races models the copies as slow.
func decodeCopy(d *decoder) error {
	switch {
	case d.has("mbarrier"):
		return d.arriveCopied()
	case d.hasAny("commit_group", "wait_group", "wait_all") != "":
		return d.decodeCopyGroup()
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
	var regs []int32
	for range count {
		regs = append(regs, d.temp())
	}
	for _, m := range []*access{src, dst} {
		m.typ, m.size, m.bytes, m.regs = t, uint64(t.Size()), n.Value, regs
	}
	dst.write = true
	limit := int32(-1)
	if len(d.in.Operands) > 3 && !d.has("L2::cache_hint") || len(d.in.Operands) > 4 {
		if limit, err = d.source(3, ptx.U32); err != nil {
			return err
		}
	}
	d.emit(inst{a: b, mem: src, aux: copyLimit(limit), exec: func(w *warp, in *inst) { w.copyIn(in, limit) }})
	d.emit(inst{a: a, mem: dst, exec: execStore})
	return nil
}

// decodeCopyGroup decodes the instructions that form and await groups of copies.
func (d *decoder) decodeCopyGroup() error {
	g := &copyGroup{commit: !d.has("wait_group"), wait: !d.has("commit_group")}
	if d.has("wait_group") {
		if err := d.want(1); err != nil {
			return err
		}
		n, ok := d.in.Operands[0].(ptx.Imm)
		if !ok {
			return missing("the number of groups must be a constant")
		}
		g.left = uint32(min(n.Value, math.MaxUint32))
	}
	d.emit(inst{aux: g, exec: func(*warp, *inst) {}})
	return nil
}
