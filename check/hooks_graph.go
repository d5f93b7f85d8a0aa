package check

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/vclock"
)

// capture is a recording of streams as a graph. Its nodes have clocks of their own.
type capture struct {
	origin *lane
	lanes  []*lane
	last   []uint64 // number of the last node of each slot
	lists  map[*memory]*[]access
	nodes  []access
	signal bool
	value  bool // a node waits for a value

	ordinary []ordinary
	memory   graphMemory
}

// content is what a graph uses.
type content struct {
	ctx      cu.Context
	accesses []access
	signals  bool
	forValue bool
	ordinary []ordinary
	memory   graphMemory
}

// executable is an executable graph.
type executable struct {
	*content
	ctx   cu.Context
	after vclock.Clock // what its next launch follows: the last one
}

func (p *capture) add(l *lane) {
	l.capture, l.capSlot, l.within = p, len(p.last), nil
	p.last = append(p.last, 0)
	p.lanes = append(p.lanes, l)
}

func (c *call) afterStreamBeginCapture(ctx cu.Context, s cu.Stream, mode cu.StreamCaptureMode) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	l := c.d.orders.lane(ctx, s)
	p := &capture{origin: l, lists: map[*memory]*[]access{}}
	p.add(l)
}

// capture adds the operation of a call to the graph that its stream records. The caller
// holds mu.
func (d *Driver) capture(c *call) {
	l, p := c.lane, c.lane.capture
	p.last[l.capSlot]++
	op := &operation{call: c.name, site: c.site, lane: l, slot: l.capSlot, n: p.last[l.capSlot], graph: true}
	p.signal = p.signal || c.signals
	p.value = p.value || c.forValue
	op.value = p.value
	p.ordinary = append(p.ordinary, c.ordinary...)
	for i := range c.accesses {
		a := c.accesses[i]
		a.op = op
		if a.m.graph && slices.Contains(p.memory.freed, a.m) {
			d.usedAfterFree(&a)
		}
		if a.m.dead {
			continue
		}
		list := p.lists[a.m]
		if list == nil {
			list = new([]access)
			p.lists[a.m] = list
		}
		if n := a.meet(list, func(b *operation) bool { return l.within.At(b.slot) >= b.n }, func(*operation) bool { return false },
			func(b *access) {
				if op.value || b.op.value {
					d.gaveUp(gaveUpValues, 1)
				} else {
					d.conflict(b, &a)
				}
			}); n > 0 {
			d.gaveUp(gaveUpAccesses, n)
		}
		p.nodes = append(p.nodes, a)
	}
	l.within = l.within.With(vclock.Point{Chain: l.capSlot, N: op.n})
}

func (c *call) doneStreamEndCapture(ctx cu.Context, s cu.Stream, g cu.Graph, err error) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.orders.lane(ctx, s)
	p := l.capture
	if p == nil {
		return
	}
	for _, x := range p.lanes {
		x.capture, x.within = nil, nil
	}
	if err == nil {
		d.graphs[g] = &content{ctx: ctx, accesses: p.nodes, signals: p.signal, forValue: p.value, ordinary: p.ordinary, memory: p.memory}
	}
}

func (c *call) beforeGraphDestroy(g cu.Graph) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	delete(c.d.graphs, g)
}

func (c *call) afterGraphInstantiate(ctx cu.Context, g cu.Graph, flags uint64, x cu.GraphExec) {
	c.afterGraphExecUpdate(ctx, x, g)
}

func (c *call) afterGraphExecUpdate(ctx cu.Context, x cu.GraphExec, g cu.Graph) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.exec(ctx, x).content = c.d.graphs[g]
}

// exec returns an executable graph. The caller holds mu.
func (d *Driver) exec(ctx cu.Context, x cu.GraphExec) *executable {
	e := d.execs[x]
	if e == nil {
		e = &executable{ctx: ctx}
		d.execs[x] = e
	}
	return e
}

func (c *call) afterGraphExecKernelNodeSetParams(ctx cu.Context, x cu.GraphExec, node cu.GraphNode, f cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, params []byte) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	old := c.d.exec(ctx, x)
	if old.content == nil {
		return
	}
	k := &content{ctx: ctx, signals: true, forValue: old.forValue, ordinary: old.ordinary, memory: old.memory} // what the kernels get is not known any more
	for _, a := range old.accesses {
		if a.mode != uses {
			k.accesses = append(k.accesses, a)
		}
	}
	old.content = k
	c.d.gaveUp(gaveUpArguments, 1)
}

func (c *call) beforeGraphExecDestroy(x cu.GraphExec) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	delete(c.d.execs, x)
}

func (c *call) beforeGraphLaunch(ctx cu.Context, x cu.GraphExec, s cu.Stream) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	d.launches++
	c.lane = d.orders.lane(ctx, s)
	if k := d.exec(ctx, x); k.content != nil && c.lane.capture == nil {
		c.signals, c.forValue, c.exec = k.signals, k.forValue, k
		c.launches(k.content)
		for _, a := range k.accesses {
			if a.m.graph && (!a.m.dead || slices.Contains(k.memory.made, a.m)) {
				continue
			}
			if !a.m.dead || a.mode != uses {
				c.accesses = append(c.accesses, a)
			}
		}
	}
}

func (c *call) afterGraphLaunch(ctx cu.Context, x cu.GraphExec, s cu.Stream) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if k := c.d.exec(ctx, x); k.content != nil {
		k.memory.launched(c)
	}
}
