package softgpu

import (
	"fmt"
	"runtime/debug"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/uvm"
	"github.com/ferrygpu/ferry/profile"
)

// transfer is a copy: rows of width bytes, height rows a layer, depth layers.
type transfer struct {
	what               string
	dst, src           place
	width              uint64
	height, depth      uint64
	dstPitch, dstLayer uint64
	srcPitch, srcLayer uint64
	staged             []byte  // pageable source bytes, read already
	staging            float64 // the virtual time until when a detached copy reads them
}

// flat is a copy of n bytes in one row.
func flat(what string, dst, src place, n uint64) *transfer {
	return &transfer{what: what, dst: dst, src: src, width: n, height: 1, depth: 1}
}

func (t *transfer) total() uint64 { return t.width * t.height * t.depth }

// stage reads a pageable source now.
func (t *transfer) stage() error {
	t.staged = make([]byte, t.src.n)
	return guard(t.what, func() error {
		copy(t.staged, bytesAt(t.src.host, t.src.n))
		return nil
	})
}

// run moves the bytes.
func (t *transfer) run() error {
	return guard(t.what, func() error {
		dst, err := t.dst.bytes(t.what)
		if err != nil {
			return err
		}
		src := t.staged
		if src == nil {
			if src, err = t.src.bytes(t.what); err != nil {
				return err
			}
		}
		for z := range t.depth {
			for y := range t.height {
				from, to := z*t.srcLayer+y*t.srcPitch, z*t.dstLayer+y*t.dstPitch
				moveBytes(dst[to:to+t.width], src[from:from+t.width])
			}
		}
		if r := t.dst.region; r != nil && !r.kind.onHost() && (t.src.region == nil || t.src.region.kind.onHost()) {
			r.copied.Store(t.total())
		}
		return nil
	})
}

// touches is what the race detector is told of the copy.
func (t *transfer) touches(note func(b []byte, write bool)) {
	for z := range t.depth {
		for y := range t.height {
			if t.staged == nil {
				note(t.src.all()[z*t.srcLayer+y*t.srcPitch:][:t.width], false)
			}
			note(t.dst.all()[z*t.dstLayer+y*t.dstPitch:][:t.width], true)
		}
	}
}

// guard runs f and turns a wild host address into an error.
func guard(what string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if fault, ok := v.(interface{ Addr() uintptr }); ok {
			err = refuse(cu.ErrorInvalidValue, what, "host address %#x cannot be read or written", fault.Addr())
			return
		}
		panic(fmt.Sprintf("BUG: %v: %v", what, v))
	}()
	return f()
}

// plan is how a transfer is queued.
type plan struct {
	engine engineKind
	dev    *device
	curve  *profile.Curve
	use    resource
	bare   bool // the curve is the whole call's: no latencies are added
	waits  bool // the host waits for the end, in Async calls too
	queues bool // not even a plain call waits
	stages bool // the source is read during the call

	extra float64 // ns on top of the curve

	detached bool // what it reads goes on to the device at the same time
}

// detachMost is the largest copy from pageable memory that does not wait for
// what is before it in its stream: the largest that was seen not to.
const detachMost = 1 << 20

// detaches says whether t can be read now and go to the device later.
func (t *transfer) detaches() bool {
	return t.src.class() == classPageable && t.dst.class() == classDevice && t.total() <= detachMost
}

// detach is the plan of a copy from pageable memory in a stream that is busy:
// the source goes to page-locked memory of the driver's now and to the device
// when the stream gets there.
func (t *transfer) detach(c *contextState) plan {
	return plan{engine: engineIn, dev: t.dst.region.dev, curve: &c.drv.prof.Copy.PinnedHtoD, use: resIn, stages: true, detached: true}
}

// plan decides by where the two ends are.
func (t *transfer) plan(c *contextState) plan {
	prof := c.drv.prof
	k := &prof.Copy
	src, dst := t.src.class(), t.dst.class()
	dev := c.dev
	switch {
	case dst == classDevice:
		dev = t.dst.region.dev
	case src == classDevice:
		dev = t.src.region.dev
	}
	switch {
	case dst == classDevice && src == classDevice:
		if from := t.src.region.dev; from != dev {
			return plan{engine: enginePeer, dev: from, curve: &k.Peer, use: resOut, queues: true}
		}
		return plan{engine: engineCompute, dev: dev, curve: &k.DtoD, use: resMemory, queues: true}
	case dst == classDevice && src == classPinned:
		curve := &k.PinnedHtoD
		if t.src.region.alloc&cu.MemHostAllocWriteCombined != 0 {
			curve = &k.WriteCombinedHtoD
		}
		return plan{engine: engineIn, dev: dev, curve: curve, use: resIn}
	case dst == classDevice && t.total() <= uint64(k.StagedBytes.Value):
		return plan{engine: engineIn, dev: dev, curve: &k.PinnedHtoD, use: resIn, stages: true}
	case dst == classDevice:
		return plan{engine: engineIn, dev: dev, curve: &k.PageableHtoD, use: resIn, bare: true, waits: true}
	case src == classDevice && dst == classPinned:
		return plan{engine: engineOut, dev: dev, curve: &k.PinnedDtoH, use: resOut}
	case src == classDevice:
		return plan{engine: engineOut, dev: dev, curve: &k.PageableDtoH, use: resOut, bare: true, waits: true}
	}
	return plan{engine: engineHost, curve: &k.HtoH, bare: true, waits: true}
}

// work makes the operation.
func (t *transfer) work(p plan) *work {
	extra := p.extra
	if !p.bare {
		for _, r := range []*region{t.src.region, t.dst.region} {
			if r != nil {
				extra += r.ctx.drv.clean(r, t.total())
			}
		}
	}
	w := &work{
		kind:   cu.GraphNodeTypeMemcpy,
		what:   t.what,
		engine: p.engine,
		dev:    p.dev,
		bare:   p.bare,
		run:    func(*op) error { return t.run() },
		price: func(o *op) cost {
			t.populate()
			k := curveCost(p.curve, t.total(), p.use)
			if p.use != resMemory && !p.bare {
				k.last(p.dev.spaced(o.start))
			}
			k.last(k.ns + extra)
			k.last(t.staging - o.start) // it cannot end before its source was read
			return k
		},
		hold: t.src.host,
	}
	if raceBuild {
		w.touches = t.touches
	}
	return w
}

// spaced is how long a copy that starts now takes at least: the device begins
// copies one after the other, on whatever engine.
func (dev *device) spaced(now float64) float64 {
	queue := &dev.drv.prof.Queue
	before := dev.copied
	dev.copied = now
	const rounding = 0.01 // of sums of times
	if now-before > queue.Copy.Value+rounding {
		return 0
	}
	return queue.Copy.Value - queue.Gap.Value
}

// populate notes where managed pages are that a copy touched first.
func (t *transfer) populate() {
	for _, p := range []place{t.dst, t.src} {
		if p.region != nil && p.region.kind == kindManaged {
			p.region.managed.pages.Populate(p.off, p.n, uvm.Processor(p.region.dev.ordinal))
		}
	}
}

// last makes it last ns at least, without using more.
func (k *cost) last(ns float64) {
	if ns <= k.ns {
		return
	}
	for i := range k.use {
		k.use[i] *= k.ns / ns
	}
	k.ns = ns
}

// curveCost is the cost of n bytes that use one resource, but for the curve's
// fixed part, whole.
func curveCost(c *profile.Curve, n uint64, use resource) cost {
	ns := c.Ns(float64(n))
	k := cost{ns: ns}
	if ns > 0 {
		k.use[use] = (ns - c.Ns(0)) / ns
	}
	return k
}
