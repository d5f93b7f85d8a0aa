package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

const barriers = 16

// barrier is one of the barriers of a block.
type barrier struct {
	arrived  int
	expected int // 0 means all threads of the block that have not exited
	waiting  int // lanes that wait
	count    int // lanes whose predicate was true
	all, any bool
}

// barrierOp is what a barrier instruction does besides waiting.
type barrierOp struct {
	arrive bool
	red    string // "popc", "and", "or"
	hasN   bool

	cluster bool // the barrier of the cluster
}

// decodeBar decodes all forms of bar and barrier.
func decodeBar(d *decoder) error {
	if d.has("warp") {
		return d.barWarp()
	}
	op := &barrierOp{arrive: d.has("arrive"), cluster: d.has("cluster")}
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

func decodeFence(d *decoder) error {
	if d.has("proxy") || d.hasAny("mbarrier_init") != "" {
		return missing("fences between proxies are not supported")
	}
	d.emit(inst{fence: d.fenceScope(), exec: func(w *warp, _ *inst) { w.k.fullFence() }})
	return nil
}

// barrier runs bar or barrier: the active lanes arrive, and wait unless it is an
// arrive.
func (w *warp) barrier(in *inst) {
	op := in.aux.(*barrierOp)
	if op.cluster {
		w.clusterBarrier(op.arrive)
		return
	}
	lane := bits.TrailingZeros32(w.active)
	id := uint32(w.f.lane(in.a, lane))
	if id >= barriers {
		w.trap(in, w.active, cu.ErrorIllegalInstruction, 0, 0)
		return
	}
	bar := &w.b.bars[id]
	if bar.arrived == 0 {
		*bar = barrier{all: true}
	}
	n := bits.OnesCount32(w.active)
	if op.hasN {
		bar.expected = int(uint32(w.f.lane(in.b, lane)))
		if w.active == w.live {
			n = warpSize // with their warp, lanes that do not exist count as arrived
		}
	}
	bar.arrived += n
	if w.b.check != nil {
		w.b.check.Arrive(int(id), w.index, w.active, !op.arrive, w.k.x.checker.rule(w.f.fn, w.pc-1).access.Inst)
	}
	if op.red != "" {
		p := (w.f.preds[in.p] ^ in.pNot) & w.active
		bar.count += bits.OnesCount32(p)
		bar.all = bar.all && p == w.active
		bar.any = bar.any || p != 0
	}
	if !op.arrive {
		g := group{pc: w.pc, wait: waitBarrier, barrier: int(id)}
		if op.red != "" {
			g.red = in
		}
		bar.waiting += bits.OnesCount32(w.active)
		w.b.waiting += bits.OnesCount32(w.active)
		w.suspend(g)
		w.active = 0
	}
	w.b.checkBarrier(int(id))
	if !op.arrive {
		w.next()
	}
}

// sync runs an instruction for the whole warp once all lanes that it names have
// arrived.
func (w *warp) sync(in *inst) {
	if w.active != w.live && !w.force {
		members := uint32(w.f.lane(in.c, bits.TrailingZeros32(w.active)))
		if members&w.live&^w.active != 0 {
			w.suspend(group{pc: w.pc - 1, wait: waitSync})
			w.active = 0
			w.next()
			return
		}
	}
	w.force = false
	if w.b.check != nil {
		w.checkSync(in)
	}
	in.exec(w, in)
}
