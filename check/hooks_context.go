package check

import (
	"fmt"
	"maps"

	"github.com/ferrygpu/ferry/cu"
)

// contextUse counts the references that the program holds to a context.
type contextUse struct {
	dev     cu.Device
	uses    int
	created bool // by CtxCreate: not a primary context
}

func (c *call) afterDevicePrimaryCtxRetain(dev cu.Device, ctx cu.Context) { c.retain(ctx, dev, false) }

func (c *call) afterCtxCreate(flags cu.CtxFlags, dev cu.Device, ctx cu.Context) {
	c.retain(ctx, dev, true)
}

func (c *call) retain(ctx cu.Context, dev cu.Device, created bool) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.contexts[ctx]
	if u == nil {
		u = &contextUse{dev: dev, created: created}
		d.contexts[ctx] = u
	}
	u.uses++
	d.lost.Store(false)
}

// primary returns the primary context of a device that the program has retained, 0 for
// none. The caller holds mu.
func (d *Driver) primary(dev cu.Device) cu.Context {
	for ctx, u := range d.contexts {
		if u.dev == dev && !u.created {
			return ctx
		}
	}
	return 0
}

func (c *call) afterDevicePrimaryCtxRelease(dev cu.Device) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx := d.primary(dev)
	if u := d.contexts[ctx]; u != nil {
		if u.uses--; u.uses <= 0 {
			d.ended(c, ctx, true)
		}
	}
}

func (c *call) afterDevicePrimaryCtxReset(dev cu.Device) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.ended(c, c.d.primary(dev), false)
}

func (c *call) afterCtxDestroy(ctx cu.Context) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.ended(c, ctx, true)
}

// ended ends the life of a context and of all that was made in it. leaks says that memory
// which was not freed is a leak; a reset is asked to free it. The caller holds mu.
func (d *Driver) ended(c *call, ctx cu.Context, leaks bool) {
	if d.contexts[ctx] == nil {
		return
	}
	delete(d.contexts, ctx)
	d.orders.knows(d.orders.all(ctx))
	d.convict(ctx)
	d.memories.removeAll(c, func(m *memory) bool {
		if m.ctx == ctx && leaks && m.kind != variable && !m.graph && !d.lost.Load() {
			d.leaked(c, m)
		}
		return m.ctx == ctx
	})
	for k, l := range d.orders.lanes {
		if l.ctx == ctx {
			l.waits = nil
			delete(d.orders.lanes, k)
			d.orders.free = append(d.orders.free, l.slot)
		}
	}
	maps.DeleteFunc(d.orders.events, func(_ cu.Event, e *event) bool { return e.ctx == ctx })
	maps.DeleteFunc(d.graphs, func(_ cu.Graph, k *content) bool { return k.ctx == ctx })
	maps.DeleteFunc(d.execs, func(_ cu.GraphExec, x *executable) bool { return x.ctx == ctx })
}

// leaked reports memory that was not freed. The caller holds mu.
func (d *Driver) leaked(c *call, m *memory) {
	f := Finding{Kind: Leak, What: fmt.Sprintf("%v was not freed when its context ended", m.kind),
		First:  &Side{Call: m.call, Place: d.place(m.made), site: m.made, Access: "allocates"},
		Second: &Side{Call: c.name, Place: d.place(c.site), site: c.site}, Mend: "free it by " + freeOf[m.kind] + " first"}
	d.about(&f, m)
	d.report(f)
}
