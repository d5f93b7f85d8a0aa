package softgpu

import (
	"fmt"
	"iter"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/launchrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// newLaunchCheck returns the check of the driver's launches, or nil if it checks nothing. Memory of
// allocations is compared. Other memory is not: that of malloc in kernels and of cooperative
// launches, and ordinary memory of the host.
func (d *Driver) newLaunchCheck() *launchrace.Check {
	if !d.races {
		return nil
	}
	page := func(number uint64) (addressRange, bool) {
		return d.space.overlaps(number*writtenSize, (number+1)*writtenSize)
	}
	return launchrace.New(launchrace.Memory{
		Compared: func(number uint64) bool {
			_, ok := page(number)
			return ok
		},
		OnHost: func(number uint64) bool {
			x, ok := page(number)
			return ok && x.region.kind.onHost()
		},
		Place: d.place,
	}, d.found.gaveUp)
}

// trackSubmit begins to track o, which follows deps, for the check of launches. The caller holds mu.
func (o *op) trackSubmit(deps []*op) {
	c := o.ctx.drv.launches
	if c == nil {
		return
	}
	o.track = c.Submit(o.work.launch != nil || o.work.spans != nil, func(yield func(*launchrace.Track) bool) {
		for _, dep := range deps {
			if dep != nil && dep.done && dep.track != nil && !yield(dep.track) {
				return
			}
		}
	})
}

// trackDone ends the tracking of o, which is done. The caller holds mu.
func (o *op) trackDone() {
	if c := o.ctx.drv.launches; c != nil {
		c.Done(o.track, tracks(o.succs))
	}
}

func tracks(ops []*op) iter.Seq[*launchrace.Track] {
	return func(yield func(*launchrace.Track) bool) {
		for _, o := range ops {
			if !yield(o.track) {
				return
			}
		}
	}
}

// acquired orders what the host does from now on after o, which is done: for the race
// detector and for the check of launches.
func (o *op) acquired() {
	if o == nil {
		return
	}
	if o.done {
		o.ctx.drv.launches.HostFollows(o.track)
	}
	o.raceAcquire()
}

// operation describes o for reports.
func (o *op) operation() *launchrace.Operation {
	p := &launchrace.Operation{
		ID: o.id, What: o.work.what, Kind: o.kind, Device: o.ctx.dev.ordinal, Graph: o.stream == nil,
		Stream: o.stream.title(), Site: o.work.site,
	}
	if l := o.work.launch; l != nil {
		p.Kernel = l.fn.name
	}
	return p
}

// title returns the name of s in reports. A nil s stands for a graph.
func (s *streamState) title() string {
	switch {
	case s == nil:
		return "a graph"
	case s.handle == cu.StreamLegacy:
		return "the legacy stream"
	case s.handle == cu.StreamPerThread:
		return "a per-thread stream"
	}
	return fmt.Sprintf("stream %#x", uintptr(s.handle))
}

// endLaunch ends a launch for the check of launches, and reports what it has found.
func (o *op) endLaunch(touched *simt.Touched) {
	if touched != nil {
		o.endCompared(touched.Footprint, touched.Side)
	}
}

// endSpans ends a copy or fill, or the write of a value or a wait for one, for the check of launches.
func (o *op) endSpans() {
	if o.work.spans == nil || o.ctx.drv.launches == nil {
		return
	}
	touched := &kernelrace.Footprint{Pages: map[uint64]kernelrace.Page{}}
	if w := o.work.waits; w != nil {
		touched.Acquires, touched.AsksHost = true, w.word.region.kind.onHost()
	}
	o.work.spans(func(p span, off, n uint64, kind kernelrace.Kind) {
		if p.region != nil && p.region.device != 0 {
			touched.Add(p.region.device+p.off+off, n, kind)
		}
	})
	o.endCompared(touched, nil)
}

func (o *op) endCompared(touched *kernelrace.Footprint, side func(*kernelrace.Run, uint16) simt.FindingSide) {
	d := o.ctx.drv
	if d.beforeEnd != nil {
		d.beforeEnd(o)
	}
	d.addRaces(d.launches.End(o.track, o.operation(), touched, side))
}

// addRaces reports races between launches.
func (d *Driver) addRaces(list []*launchrace.Race) {
	for _, r := range list {
		d.found.addPair(newPairFinding(r))
	}
}

// newPairFinding returns the finding of a race between launches.
func newPairFinding(r *launchrace.Race) *Finding {
	first := newPairSide(&r.First)
	f := &Finding{
		Check: "races", Kind: r.Kind, Kernel: r.Second.Kernel, First: &first, Second: newPairSide(&r.Second),
		Memory: r.Memory, Offset: r.Offset, Address: r.Nowhere, Bytes: r.Bytes, Missing: r.Missing, Count: 1,
	}
	if f.Kernel == "" {
		f.Kernel = r.First.Kernel
	}
	return f
}

func newPairSide(s *launchrace.Side) FindingSide {
	if s.Access != nil {
		out := newSide(kernelrace.Race, s.Access)
		out.Kernel, out.Stream, out.At = s.Kernel, s.Stream, atLine(s.Site)
		return out
	}
	out := FindingSide{Access: "read", Op: s.What, Stream: s.Stream, At: atLine(s.Site)}
	if s.Write {
		out.Access = "write"
	}
	return out
}
