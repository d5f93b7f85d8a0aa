package softgpu

import "github.com/ferrygpu/ferry/cu"

// graphMemory is what a region has whose allocation is a node of a graph. Its address is fixed from
// the capture on, and each launch of the graph allocates it anew there.
//
// Memory that the graph does not free is held from the launch on, until a call or another graph
// frees it. Calls decide that in their order, before the work runs, as the driver does: so a launch
// of a graph whose memory is held is refused at once.
type graphMemory struct {
	owner   *graph
	access  poolAccess // the access to the pool at the capture, which the graph keeps
	freedBy *graph     // has a node that frees it: the owner or another graph; nil if none has
	held    bool       // allocated by a launch and not freed since
	charged bool       // the device's counter of graph memory has its bytes
}

// freedInside reports whether the graph that allocates the memory frees it, too.
func (m *graphMemory) freedInside() bool { return m.freedBy == m.owner }

// allocateInGraph records an allocation of n bytes as a node of the graph that s captures. The
// memory has the properties of pool p. It counts as memory of graphs, from a launch on.
func (p *pool) allocateInGraph(s *streamState, n uint64, what string) (*region, error) {
	r := s.ctx.newRegion(kindPool)
	r.pool = p
	if err := p.dev.memory.alloc(r, n, what); err != nil {
		return nil, err
	}
	s.ctx.regions[r] = struct{}{}
	r.graph = &graphMemory{owner: s.capture.graph, access: *p.access.Load()}
	r.graph.owner.owned = append(r.graph.owner.owned, r)
	return r, nil
}

// mayFreeIn returns an error if a node of g cannot free the region.
func (r *region) mayFreeIn(g *graph, what string) error {
	switch m := r.graph; {
	case m == nil:
		return refuse(cu.ErrorInvalidValue, what, "%#x was not allocated in a graph, and a graph frees only memory of graphs", r.base)
	case m.freedBy == g:
		return refuse(cu.ErrorInvalidValue, what, "the graph frees %#x already", r.base)
	case m.freedBy != nil && (m.freedInside() || g == m.owner):
		return refuse(cu.ErrorInvalidValue, what, "another graph frees %#x: either the graph that allocates it does, or others", r.base)
	}
	return nil
}

// freeInGraph records the free of a region as a node of the graph that s captures.
func (s *streamState) freeInGraph(r *region, what string) error {
	g := s.capture.graph
	if err := s.valid(what); err != nil {
		return err
	}
	if err := r.mayFreeIn(g, what); err != nil {
		return err
	}
	if _, err := s.enqueue(&work{kind: cu.GraphNodeTypeMemFree, what: what, touches: r.touches, done: r.ungiven}, what); err != nil {
		return err
	}
	r.graph.freedBy = g
	g.frees = append(g.frees, r)
	return nil
}

// given begins a lifetime of the memory: a launch has reached the allocation.
func (r *region) given() {
	r.state.CompareAndSwap(statePending, stateLive)
	if m := r.graph; m != nil && !m.charged { // a free before this launch ran after the launch was queued
		p := r.dev.graphPool
		r.countInGraphs(growth{full: r.charge, reserved: max(p.reserved, roundUp(p.used+r.charge, poolStep))})
	}
}

// ungiven ends the lifetime that a launch began. The next launch begins another.
func (r *region) ungiven(*op) {
	r.state.CompareAndSwap(stateLive, statePending)
	r.unchargeGraph()
}

func (r *region) unchargeGraph() {
	if m := r.graph; m.charged {
		m.charged = false
		r.dev.graphPool.uncharge(r)
	}
}

// chargeGraph counts the memory of a launch, if the device has it.
func (r *region) chargeGraph(what string) error {
	m, p := r.graph, r.dev.graphPool
	if m.charged {
		return nil
	}
	g, err := p.grow(r.size, r.charge, what)
	if err != nil {
		return err
	}
	r.countInGraphs(g)
	return nil
}

// countInGraphs adds the region to the counters of graph memory. Hardware counts whole blocks as
// used, until they are trimmed, so the marks of used and reserved memory differ by their resets only.
func (r *region) countInGraphs(g growth) {
	p := r.dev.graphPool
	r.graph.charged = true
	p.charge(r.size, g)
	p.usedHigh = max(p.usedHigh, p.reserved)
}

// addressable reports whether the driver knows the address of the region. That of memory of a graph
// is not known unless it is allocated, or a capture may use it.
func (r *region) addressable() bool {
	return r.graph == nil || r.graph.held || len(r.ctx.drv.captures) > 0
}

// mayFree returns an error if a call outside of graphs cannot free the region.
func (m *graphMemory) mayFree(r *region, what string) error {
	switch {
	case m.freedInside():
		return refuse(cu.ErrorInvalidValue, what, "%#x belongs to a graph, which frees it", r.base)
	case !m.held:
		return refuse(cu.ErrorInvalidValue, what, "%#x is memory of a graph that was not launched since it was freed", r.base)
	}
	return nil
}

// freeHeld frees held memory in the order of s, or of all work before the call if s is nil.
func (d *Driver) freeHeld(r *region, s *streamState, what string) (*op, error) {
	if err := r.graph.mayFree(r, what); err != nil {
		return nil, err
	}
	r.graph.held = false
	if s == nil {
		r.ungiven(nil)
		r.dropUnowned(nil)
		return nil, nil
	}
	o, err := s.enqueue(&work{kind: cu.GraphNodeTypeMemFree, what: what, touches: r.touches, done: r.ungiven}, what)
	if err != nil {
		r.graph.held = true
		return nil, err
	}
	r.dropUnowned(o)
	return o, nil
}

// dropUnowned removes a region whose graph is gone, when after is done.
func (r *region) dropUnowned(after *op) {
	if r.graph.held || r.graph.owner.refs > 0 || r.ctx.dead {
		return
	}
	if after == nil || after.done {
		r.free()
		return
	}
	r.ctx.drv.submit(r.ctx, nil, &work{what: "end of memory of a graph", done: func(*op) { r.free() }}, []*op{after})
}

// hasMemory reports whether nodes of g allocate or free memory.
func (g *graph) hasMemory() bool { return len(g.owned) > 0 || len(g.frees) > 0 }

// mayInstantiate returns an error if g cannot have another executable graph.
func (g *graph) mayInstantiate(what string) error {
	if g.execs > 0 && g.hasMemory() {
		return refuse(cu.ErrorNotSupported, what, "the graph allocates or frees memory, and has an executable graph: destroy that first")
	}
	return nil
}

// hold checks that the memory of a launch is in the state that its nodes need, and changes the state
// to the one after the launch. It frees held memory before the launch if the executable graph was
// made to, and returns the ops of that.
func (x *graphExec) hold(s *streamState, what string) ([]*op, error) {
	g := x.graph
	for _, r := range g.owned {
		if r.graph.held && !x.autoFree {
			return nil, refuse(cu.ErrorInvalidValue, what, "%s at %#x that its last launch allocated is not freed: free it, or instantiate with GraphInstantiateAutoFreeOnLaunch", size(r.size), r.base)
		}
	}
	for _, r := range g.frees {
		if r.graph.owner != g && !r.graph.held {
			return nil, refuse(cu.ErrorInvalidValue, what, "it frees %s at %#x, which is not allocated: launch the graph that allocates it first", size(r.size), r.base)
		}
	}
	for _, r := range g.owned {
		if err := r.chargeGraph(what); err != nil {
			return nil, err
		}
	}
	var freed []*op
	for _, r := range g.owned {
		if r.graph.held {
			o, err := s.ctx.drv.freeHeld(r, s, what)
			if err != nil {
				return nil, err
			}
			freed = append(freed, o)
		}
		r.graph.held = !r.graph.freedInside()
	}
	for _, r := range g.frees {
		if r.graph.owner != g {
			r.graph.held = false
		}
	}
	return freed, nil
}

// dropMemory forgets what g, which is not used any more, allocates and frees. Memory that is held
// stays until it is freed.
func (g *graph) dropMemory() {
	for _, r := range g.frees {
		if r.graph.owner != g {
			r.graph.freedBy = nil
			r.dropUnowned(g.last)
		}
	}
	for _, r := range g.owned {
		r.dropUnowned(g.last)
	}
}

// DeviceGraphMemTrim gives memory back that graphs do not use.
func (d *Driver) DeviceGraphMemTrim(h cu.Device) error {
	if err := d.since("cuDeviceGraphMemTrim", 11040); err != nil {
		return err
	}
	const what = "trim the memory of graphs"
	_, err := deviceCall(d, h, what, func(dev *device) (int, error) {
		dev.graphPool.trim(0)
		return 0, nil
	})
	return err
}

// DeviceGetGraphMemAttribute returns a counter of the memory of graphs.
func (d *Driver) DeviceGetGraphMemAttribute(h cu.Device, attr cu.GraphMemAttribute) (uint64, error) {
	if err := d.since("cuDeviceGetGraphMemAttribute", 11040); err != nil {
		return 0, err
	}
	const what = "read a counter of the memory of graphs"
	return deviceCall(d, h, what, func(dev *device) (uint64, error) {
		switch p := dev.graphPool; attr {
		case cu.GraphMemAttrUsedMemCurrent:
			return p.reserved, nil // see countInGraphs
		case cu.GraphMemAttrReservedMemCurrent:
			return p.reserved, nil
		case cu.GraphMemAttrUsedMemHigh:
			return p.usedHigh, nil
		case cu.GraphMemAttrReservedMemHigh:
			return p.reservedHigh, nil
		}
		return 0, refuse(cu.ErrorInvalidValue, what, "attribute %d is not known", attr)
	})
}

// DeviceSetGraphMemAttribute resets a high-water mark.
func (d *Driver) DeviceSetGraphMemAttribute(h cu.Device, attr cu.GraphMemAttribute, value uint64) error {
	if err := d.since("cuDeviceSetGraphMemAttribute", 11040); err != nil {
		return err
	}
	const what = "reset a counter of the memory of graphs"
	_, err := deviceCall(d, h, what, func(dev *device) (int, error) {
		p := dev.graphPool
		switch {
		case attr != cu.GraphMemAttrUsedMemHigh && attr != cu.GraphMemAttrReservedMemHigh:
			return 0, refuse(cu.ErrorInvalidValue, what, "attribute %d cannot be set", attr)
		case value != 0:
			return 0, refuse(cu.ErrorInvalidValue, what, "a high-water mark can only be set to 0, not %d", value)
		case attr == cu.GraphMemAttrUsedMemHigh:
			p.usedHigh = p.reserved
		default:
			p.reservedHigh = p.reserved
		}
		return 0, nil
	})
	return err
}
