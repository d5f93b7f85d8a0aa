package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// copyGroup is an instruction that forms or awaits groups of cp.async.
type copyGroup struct {
	commit, wait bool
	left         uint32 // groups that may still be pending
}

// asyncRule makes the rule of an instruction of mbarrier objects or of cp.async. It reports
// whether the instruction is one of them.
func (c *checker) asyncRule(in *inst, r *rule) bool {
	has := func(mod string) bool { return slices.Contains(in.src.Mods, mod) }
	a := &r.access
	switch op := in.aux.(type) {
	case copyLimit:
		r.limit = op
		r.do = ruleCopySource
		return true
	case *copyGroup:
		r.do = ruleCopyGroup
		a.Inst = c.number(in)
		return true
	case *mbarrierOp:
		if has("init") || has("inval") {
			return false
		}
		c.objectRule(in, op, r)
		return true
	}
	if in.src.Op == "cp" {
		r.do = ruleCopy
		return true
	}
	return false
}

// objectRule makes the rule of an operation of an mbarrier object. An arrival is a release and a
// wait an acquire, of the block, unless they are relaxed. Changes of the expected bytes are
// always relaxed. What cp.async.mbarrier.arrive does later orders nothing but the copies.
func (c *checker) objectRule(in *inst, op *mbarrierOp, r *rule) {
	relaxed := slices.Contains(in.src.Mods, "relaxed")
	if r.scope == kernelrace.Device {
		r.scope = kernelrace.InBlock // the scope by default, and .cluster
	}
	a := &r.access
	r.do = ruleObject
	a.Kind = (kernelrace.Strong | kernelrace.Atomic).With(r.scope)
	if op.state >= 0 {
		a.Phase, a.Acquire = kernelrace.PhaseOver, !relaxed
		return
	}
	a.Kind, a.Update, a.Phase = a.Kind|kernelrace.Write, true, kernelrace.Arrival
	switch {
	case in.src.Op == "cp":
		a.Phase = kernelrace.CopyArrival
	case op.name == "arrive" || op.name == "arrive_drop":
		a.Release = !relaxed
	}
}

// phase returns what a lane has done to an mbarrier object.
func (r *rule) phase(w *warp, in *inst, lane int) kernelrace.Phase {
	p := r.access.Phase
	switch {
	case p == kernelrace.PhaseOver && w.f.preds[in.p]>>lane&1 == 0:
		return kernelrace.PhaseOpen
	case p == kernelrace.Arrival && w.phaseEnds>>lane&1 != 0:
		return kernelrace.LastArrival
	case p == kernelrace.CopyArrival && w.phaseEnds>>lane&1 != 0:
		return kernelrace.LastCopy
	}
	return p
}

// objects tells the detector of an operation of mbarrier objects that has run.
func (c *checker) objects(w *warp, in *inst, r *rule) {
	for m := c.lanes; m != 0; m &= m - 1 {
		i := trailing(m)
		a := r.access
		a.Phase = r.phase(w, in, i)
		if in.src.Op == "cp" {
			w.b.check.TrackCopies(w.index*warpSize+i, c.addrs[i]-sharedWindow)
		}
		c.access(&a, i)
	}
}

// copySource tells the detector what a cp.async reads, and keeps it for the write.
func (c *checker) copySource(r *rule) {
	c.source = r.access
	for m := c.lanes; m != 0; m &= m - 1 {
		i := trailing(m)
		a := r.access
		if r.limit >= 0 {
			a.Bytes = int(min(uint64(a.Bytes), c.w.f.lane(int32(r.limit), i)&0xffffffff))
		}
		c.from[i], c.reads[i] = c.addrs[i], a.Bytes
		if a.Bytes > 0 {
			c.access(&a, i)
		}
	}
}

// copies tells the detector what a cp.async writes, and that the copy may take long.
func (c *checker) copies(r *rule) {
	for m := c.lanes; m != 0; m &= m - 1 {
		i := trailing(m)
		a := r.access
		a.Probe = true
		c.access(&a, i)
		c.w.b.check.Copy(c.w.index*warpSize+i, &kernelrace.Copy{
			To: c.addrs[i] - sharedWindow, Bytes: r.access.Bytes, Inst: r.access.Inst,
			From: c.from[i], Reads: c.reads[i], Source: c.source.Inst,
		})
	}
}

// copyGroups tells the detector of lanes that form or await groups of copies.
func (c *checker) copyGroups(w *warp, in *inst, lanes uint32) {
	c.w, c.in, c.lanes = w, in, 0
	g := in.aux.(*copyGroup)
	for m := lanes; m != 0; m &= m - 1 {
		t := w.index*warpSize + trailing(m)
		if g.commit {
			w.b.check.Commit(t)
		}
		if g.wait {
			w.b.check.WaitGroups(t, g.left)
		}
	}
}

// ended tells the detector that the threads of a block have ended.
func (c *checker) ended(b *block) {
	c.in, c.lanes = &inst{}, 0
	b.check.End()
	b.check = nil
}
