package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// transfer is a copy: rows of width bytes, height rows a layer, depth layers.
type transfer struct {
	what               string
	dst, src           span
	width              uint64
	height, depth      uint64
	dstPitch, dstLayer uint64
	srcPitch, srcLayer uint64
	staged             []byte  // bytes of a pageable source, if they were read during the call
	head               uint64  // bytes of a copy in one row that the call moved itself; staged has those after it
	readUntil          float64 // virtual time until which a detached copy reads its source
	listed             bool    // of a list of copies: see MemcpyBatchAsync
}

// flat makes a transfer of n bytes in one row.
func flat(what string, dst, src span, n uint64) *transfer {
	return &transfer{what: what, dst: dst, src: src, width: n, height: 1, depth: 1}
}

func (t *transfer) total() uint64 { return t.width * t.height * t.depth }

// dense reports whether the rows of both sides follow each other without gaps.
func (t *transfer) dense() bool {
	packed := func(pitch, layer uint64) bool {
		return (t.height == 1 || pitch == t.width) && (t.depth == 1 || layer == t.height*t.width)
	}
	return packed(t.srcPitch, t.srcLayer) && packed(t.dstPitch, t.dstLayer)
}

// moved returns the bytes that the copy counts as. Over the link, the engine
// moves each row of a strided copy in bursts, so that a short row counts as one
// whole burst.
func (t *transfer) moved(p *plan) uint64 {
	if p.use == resMemory || p.noLatency || t.dense() {
		return t.total()
	}
	return t.height * t.depth * max(t.width, uint64(p.dev.drv.prof.Copy.Row.Value))
}

// stage reads a pageable source during the call.
func (t *transfer) stage() error {
	return guard(t.what, []span{t.src}, func() error {
		src := bytesAt(t.src.host, t.src.n)[t.head:]
		t.staged = make([]byte, len(src))
		copy(t.staged, src)
		return nil
	})
}

// run moves the bytes that the call has not moved.
func (t *transfer) run() error {
	return guard(t.what, []span{t.src, t.dst}, func() error {
		dst, done, err := t.dst.toWrite(t.what, t.head)
		if err != nil {
			return err
		}
		defer done()
		src := t.staged
		if src == nil {
			if src, err = t.src.bytes(t.what); err != nil {
				return err
			}
		}
		t.move(dst, src)
		return nil
	})
}

// move moves the rows, or the rest of one row behind its head.
func (t *transfer) move(dst, src []byte) {
	if t.head > 0 {
		t.dst.wrote(t.head, t.width-t.head)
		moveBytes(dst[t.head:], src)
		return
	}
	for z := range t.depth {
		for y := range t.height {
			from, to := z*t.srcLayer+y*t.srcPitch, z*t.dstLayer+y*t.dstPitch
			t.dst.wrote(to, t.width)
			moveBytes(dst[to:to+t.width], src[from:from+t.width])
		}
	}
}

// touches reports the copy's accesses to the race detector.
func (t *transfer) touches(record func(b []byte, write bool)) {
	for z := range t.depth {
		for y := range t.height {
			if t.staged == nil {
				record(t.src.all()[z*t.srcLayer+y*t.srcPitch:][:t.width], false)
			}
			record(t.dst.all()[z*t.dstLayer+y*t.dstPitch:][:t.width], true)
		}
	}
}

// spans reports the copy's accesses to the check of launches.
func (t *transfer) spans(record func(p span, off, n uint64, kind kernelrace.Kind)) {
	for z := range t.depth {
		for y := range t.height {
			if t.staged == nil {
				record(t.src, z*t.srcLayer+y*t.srcPitch, t.width, 0)
			}
			record(t.dst, z*t.dstLayer+y*t.dstPitch, t.width, kernelrace.Write)
		}
	}
}

// plan says how a transfer is queued.
type plan struct {
	engine    engineKind
	dev       *device
	curve     *profile.Curve
	use       resource
	noLatency bool // the curve is the whole call's: no latencies are added
	waits     bool // the host waits for the end, also in Async calls
	queues    bool // the host does not wait, also in calls without Async
	stages    bool // the source is read during the call

	early    bool // the call may return when the source is read, before the bytes have arrived
	detached bool // the source is read during the call and copied to the device later

	// busy tells, when the copy arrives in virtual time, whether its stream had
	// work then. It is nil if that does not matter.
	busy *bool
	idle *profile.Curve // of a detached copy, if its stream was idle after all
}

// wasIdle reports whether a detached copy has the time of a whole call, because
// its stream had no work.
func (p *plan) wasIdle() bool { return p.idle != nil && !*p.busy }

// maxDetached is the largest copy from pageable memory that does not wait for
// earlier work of its stream. It is the largest size at which hardware was seen
// not to wait.
const maxDetached = 1 << 20

// ofList returns the plan for a copy of a list. An H200 (driver 580) uses pageable memory
// of a list when the stream gets there, whatever the list says about the order of reads:
// the host saw no new bytes when the call had returned, and the device got what the host
// wrote to the source then. Up to 64 KiB a copy it read the source in the call.
func (p plan) ofList() plan {
	if p.engine != engineHost {
		p.waits, p.stages, p.early = false, false, false
	}
	return p
}

// canDetach reports whether t can read its source during the call and copy to
// the device later.
func (t *transfer) canDetach() bool {
	return t.src.copyKind() == copyPageable && t.dst.copyKind() == copyDevice && t.total() <= maxDetached
}

// detach returns the plan of a copy from pageable memory in a busy stream. The
// source is copied to page-locked memory of the driver's during the call, and
// to the device when the stream reaches the copy.
//
// The call cannot always know whether the stream is busy in virtual time. If it
// was idle, the copy takes the time of the curve idle, as if it had not been
// detached.
func (t *transfer) detach(c *contextState, busy *bool, idle *profile.Curve) plan {
	return plan{engine: engineIn, dev: t.dst.region.dev, curve: &c.drv.prof.Copy.PinnedHtoD, use: resIn, stages: true, detached: true, busy: busy, idle: idle}
}

// plan chooses a plan by the classes of both sides.
func (t *transfer) plan(c *contextState) plan {
	prof := c.drv.prof
	k := &prof.Copy
	src, dst := t.src.copyKind(), t.dst.copyKind()
	dev := c.dev
	switch {
	case dst == copyDevice:
		dev = t.dst.region.dev
	case src == copyDevice:
		dev = t.src.region.dev
	}
	switch {
	case dst == copyDevice && src == copyDevice:
		if from := t.src.region.dev; from != dev {
			return plan{engine: enginePeer, dev: from, curve: &k.Peer, use: resOut, queues: true}
		}
		return plan{engine: engineCompute, dev: dev, curve: &k.DtoD, use: resMemory, queues: true}
	case dst == copyDevice && src == copyPageLocked:
		curve := &k.PinnedHtoD
		if t.src.region.alloc&cu.MemHostAllocWriteCombined != 0 {
			curve = &k.WriteCombinedHtoD
		}
		return plan{engine: engineIn, dev: dev, curve: curve, use: resIn}
	case dst == copyDevice && t.total() <= uint64(k.StagedBytes.Value):
		return plan{engine: engineIn, dev: dev, curve: &k.PinnedHtoD, use: resIn, stages: true}
	case dst == copyDevice:
		return plan{engine: engineIn, dev: dev, curve: &k.PageableHtoD, use: resIn, noLatency: true, waits: true, early: true}
	case src == copyDevice && dst == copyPageLocked:
		return plan{engine: engineOut, dev: dev, curve: &k.PinnedDtoH, use: resOut}
	case src == copyDevice:
		return plan{engine: engineOut, dev: dev, curve: &k.PageableDtoH, use: resOut, noLatency: true, waits: true}
	}
	return plan{engine: engineHost, curve: &k.HtoH, noLatency: true, waits: true}
}

// queue queues t in s and waits as the plan says.
func (t *transfer) queue(s *streamState, p plan, async bool) error {
	d := s.ctx.drv
	if s.capture != nil {
		_, err := s.enqueue(t.work(p), t.what)
		return err
	}
	if err := s.mayRun(t.what); err != nil {
		return err
	}
	switch {
	case p.stages:
		if !async { // a call without Async first waits for the stream
			for _, o := range s.before() {
				d.finish(o)
			}
			if err := s.ctx.alive(t.what); err != nil {
				return err
			}
		}
		if err := t.stage(); err != nil {
			return err
		}
		took := d.prof.Copy.PageableHtoD.Ns(float64(t.total()))
		if p.detached {
			d.inOrder(func() { t.readUntil = d.host + took })
			break
		}
		d.spend(took)
	case !p.noLatency || t.listed:
		d.spend(d.prof.Calls.MemcpyAsync.Value)
	}
	when, err := t.arrival(s, &p, async)
	if err != nil {
		return err
	}
	o, err := s.enqueue(t.work(p), t.what)
	if err != nil {
		return err
	}
	if when != beforeReturn {
		return s.leave(o, when)
	}
	if p.detached {
		d.endDetached(o, t, &p)
	}
	if p.waits || !async && !p.queues && !p.stages {
		return s.await(o)
	}
	return nil
}

// endDetached moves the host's clock to the end of the call of a detached copy.
func (d *Driver) endDetached(o *op, t *transfer, p *plan) {
	if len(d.steps) == 0 {
		d.host = max(d.host, t.readUntil)
		return
	}
	d.steps = append(d.steps, &hostStep{wait: o, unless: p.busy})
	d.inOrder(func() {
		if !p.wasIdle() {
			d.host = max(d.host, t.readUntil)
		}
	})
}

// arrive finds what the copy o takes in addition, by the state of the machine
// when it arrives in virtual time.
func (t *transfer) arrive(o *op, p *plan) {
	if p.wasIdle() {
		o.noLatency, o.ready = true, 0
	}
	if p.busy != nil && *p.busy && p.noLatency {
		o.extra += o.ctx.drv.prof.Copy.PageableBusy.Ns(float64(t.total()))
	}
	if o.noLatency {
		return
	}
	for _, r := range []*region{t.src.region, t.dst.region} {
		if r != nil {
			o.extra += r.ctx.drv.dirtyReadNs(r, t.total())
		}
	}
}

// price returns the time of the copy o.
func (t *transfer) price(o *op, p *plan) cost {
	t.populate()
	if p.wasIdle() {
		return curveCost(p.idle, t.total(), p.use)
	}
	k := curveCost(p.curve, t.moved(p), p.use)
	if p.use != resMemory && !p.noLatency {
		k.atLeast(p.dev.copySpacing(o))
		if !t.dense() {
			k.atLeast(k.ns + o.ctx.drv.prof.Copy.Pitched.Value)
		}
	}
	k.atLeast(k.ns + o.extra)
	k.atLeast(t.readUntil - o.start) // it cannot end before its source was read
	return k
}

// retire notes what a copy from the host has just written. It does so in virtual time: in
// real time, kernels of other streams see the copy or not.
func (t *transfer) retire() {
	if r := t.dst.region; r != nil && !r.kind.onHost() && (t.src.region == nil || t.src.region.kind.onHost()) {
		r.copiedIn = t.total()
	}
}

// work makes the operation.
func (t *transfer) work(p plan) *work {
	w := &work{
		kind:      cu.GraphNodeTypeMemcpy,
		what:      t.what,
		engine:    p.engine,
		dev:       p.dev,
		noLatency: p.noLatency,
		run:       func(*op) error { return t.run() },
		arrive:    func(o *op) { t.arrive(o, &p) },
		price:     func(o *op) cost { return t.price(o, &p) },
		retire:    func(*op) { t.retire() },
		keepAlive: t.src.host,
		uses:      [2]*region{t.src.region, t.dst.region},
		moved:     moved{t.total(), t.src.memoryName(), t.dst.memoryName()},
	}
	if raceBuild {
		w.touches = t.touches
	}
	if p.dev != nil && p.dev.drv.races {
		w.spans = t.spans
	}
	return w
}

// populate records the place of managed pages that the copy touched first.
func (t *transfer) populate() {
	for _, p := range []span{t.dst, t.src} {
		if p.region != nil && p.region.kind == kindManaged {
			p.region.managed.pages.Populate(p.off, p.n, uvm.Processor(p.region.dev.ordinal))
		}
	}
}
