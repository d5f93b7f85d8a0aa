package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
)

// copyCall is every copy but those between contexts. describe finds the ends; a
// nil transfer is an empty one.
func (d *Driver) copyCall(h cu.Context, stream cu.Stream, async bool, what string, describe func(*contextState) (*transfer, error)) error {
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	if !async {
		defer c.printed.flush()
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	t, err := describe(c)
	if err != nil || t == nil || t.total() == 0 {
		return err
	}
	if !async {
		if err := c.unsafeInCapture(what); err != nil {
			return err
		}
	}
	p := t.plan(c)
	if async && p.waits && s.capture == nil && t.detaches() && s.busy() {
		p = t.detach(c)
	}
	if p.curve == &d.prof.Copy.PageableDtoH && s.capture == nil && s.busy() {
		p.extra = d.prof.Copy.PageableBusy.Ns(float64(t.total()))
	}
	if err := s.ctx.alive(what); err != nil {
		return err
	}
	return s.transfer(t, p, async)
}

// transfer queues t and waits as p says.
func (s *streamState) transfer(t *transfer, p plan, async bool) error {
	d := s.ctx.drv
	if s.capture != nil {
		return s.record(t.work(p), t.what)
	}
	if err := s.mayRun(t.what); err != nil {
		return err
	}
	switch {
	case p.stages:
		if !async { // a plain call first waits for the stream
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
			t.staging = d.host + took
			defer func() { d.host = max(d.host, t.staging) }()
			break
		}
		d.host += took
	case !p.bare:
		d.host += d.prof.Calls.MemcpyAsync.Value
	}
	o, err := s.enqueue(t.work(p), t.what)
	if err != nil {
		return err
	}
	if p.waits || !async && !p.queues && !p.stages {
		return s.await(o)
	}
	return nil
}

// await waits for o, whose error is the call's. mu has been held since o was queued;
// it is let go of and taken again.
func (s *streamState) await(o *op) error {
	o.answers = true
	s.ctx.drv.finish(o)
	if s.ctx.fault != nil {
		return s.ctx.fault
	}
	return o.err
}

// hostToDevice and its like describe one-dimensional copies.
func hostToDevice(what string, dst cu.DevicePtr, src cu.HostPtr, n uintptr) func(*contextState) (*transfer, error) {
	return func(c *contextState) (*transfer, error) {
		return c.between(what, n, uint64(dst), nil, sideDevice, addressOf(src), src, sideHost)
	}
}

func deviceToHost(what string, dst cu.HostPtr, src cu.DevicePtr, n uintptr) func(*contextState) (*transfer, error) {
	return func(c *contextState) (*transfer, error) {
		return c.between(what, n, addressOf(dst), dst, sideHost, uint64(src), nil, sideDevice)
	}
}

func deviceToDevice(what string, dst, src cu.DevicePtr, n uintptr, want side) func(*contextState) (*transfer, error) {
	return func(c *contextState) (*transfer, error) {
		return c.between(what, n, uint64(dst), nil, want, uint64(src), nil, want)
	}
}

// between resolves both ends of a copy of n bytes.
func (c *contextState) between(what string, n uintptr, dst uint64, dstPtr cu.HostPtr, dstSide side, src uint64, srcPtr cu.HostPtr, srcSide side) (*transfer, error) {
	if n == 0 {
		return nil, nil
	}
	to, err := c.resolve(dst, dstPtr, uint64(n), dstSide, what+": destination")
	if err != nil {
		return nil, err
	}
	from, err := c.resolve(src, srcPtr, uint64(n), srcSide, what+": source")
	if err != nil {
		return nil, err
	}
	return flat(what, to, from, uint64(n)), nil
}

func copyText(n uintptr, how string) string { return "copy " + size(uint64(n)) + " " + how }

// needsUVA refuses copies without a direction where addresses do not tell it.
func (d *Driver) needsUVA(what string) error {
	if d.uva {
		return nil
	}
	return d.devices[0].lacks(what, cu.DeviceAttributeUnifiedAddressing)
}

// Memcpy copies between any two addresses.
func (d *Driver) Memcpy(h cu.Context, dst, src cu.DevicePtr, bytes uintptr) error {
	what := copyText(bytes, "between addresses")
	if err := d.needsUVA(what); err != nil {
		return err
	}
	return d.copyCall(h, cu.StreamLegacy, false, what, deviceToDevice(what, dst, src, bytes, sideAny))
}

// MemcpyAsync is Memcpy, stream-ordered.
func (d *Driver) MemcpyAsync(h cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "between addresses")
	if err := d.needsUVA(what); err != nil {
		return err
	}
	return d.copyCall(h, stream, true, what, deviceToDevice(what, dst, src, bytes, sideAny))
}

// MemcpyHtoD copies host to device.
func (d *Driver) MemcpyHtoD(h cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr) error {
	what := copyText(bytes, "host to device")
	return d.copyCall(h, cu.StreamLegacy, false, what, hostToDevice(what, dst, src, bytes))
}

// MemcpyHtoDAsync is MemcpyHtoD, stream-ordered.
func (d *Driver) MemcpyHtoDAsync(h cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "host to device")
	return d.copyCall(h, stream, true, what, hostToDevice(what, dst, src, bytes))
}

// MemcpyDtoH copies device to host.
func (d *Driver) MemcpyDtoH(h cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr) error {
	what := copyText(bytes, "device to host")
	return d.copyCall(h, cu.StreamLegacy, false, what, deviceToHost(what, dst, src, bytes))
}

// MemcpyDtoHAsync is MemcpyDtoH, stream-ordered.
func (d *Driver) MemcpyDtoHAsync(h cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "device to host")
	return d.copyCall(h, stream, true, what, deviceToHost(what, dst, src, bytes))
}

// MemcpyDtoD copies within a device and does not wait.
func (d *Driver) MemcpyDtoD(h cu.Context, dst, src cu.DevicePtr, bytes uintptr) error {
	what := copyText(bytes, "device to device")
	return d.copyCall(h, cu.StreamLegacy, false, what, deviceToDevice(what, dst, src, bytes, sideDevice))
}

// MemcpyDtoDAsync is MemcpyDtoD on a stream.
func (d *Driver) MemcpyDtoDAsync(h cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "device to device")
	return d.copyCall(h, stream, true, what, deviceToDevice(what, dst, src, bytes, sideDevice))
}

// MemcpyPeer copies between the devices of two contexts. It does not wait, and
// is ordered with all work of both contexts.
func (d *Driver) MemcpyPeer(h cu.Context, dst cu.DevicePtr, dstCtx cu.Context, src cu.DevicePtr, srcCtx cu.Context, bytes uintptr) error {
	what := copyText(bytes, "between devices")
	to, from, err := d.peerEnds(h, dstCtx, srcCtx, what)
	if err != nil {
		return err
	}
	err = d.copyCall(h, cu.StreamLegacy, false, what, func(c *contextState) (*transfer, error) {
		for _, other := range []*contextState{to, from} {
			if other != c { // the legacy stream follows those of the others
				deps := append(c.legacy.before(), other.legacy.before()...)
				c.legacy.tail = d.submit(c, c.legacy, &work{what: "join contexts"}, deps)
			}
		}
		return peerTransfer(what, to, dst, from, src, bytes)
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.context(h, what)
	if err != nil {
		return err
	}
	for _, other := range []*contextState{to, from} {
		if other != c && !other.dead {
			deps := append(other.legacy.before(), c.legacy.tail)
			other.legacy.tail = d.submit(other, other.legacy, &work{what: "join contexts"}, deps)
		}
	}
	return nil
}

// peerEnds finds the two contexts. Zero is the calling one.
func (d *Driver) peerEnds(h, dstCtx, srcCtx cu.Context, what string) (to, from *contextState, err error) {
	if err := d.begin(what); err != nil {
		return nil, nil, err
	}
	defer d.mu.Unlock()
	if dstCtx == 0 {
		dstCtx = h
	}
	if srcCtx == 0 {
		srcCtx = h
	}
	if to, err = d.context(dstCtx, what+": destination"); err != nil {
		return nil, nil, err
	}
	from, err = d.context(srcCtx, what+": source")
	return to, from, err
}

// peerTransfer resolves each address in its own context.
func peerTransfer(what string, to *contextState, dst cu.DevicePtr, from *contextState, src cu.DevicePtr, n uintptr) (*transfer, error) {
	if n == 0 {
		return nil, nil
	}
	a, err := to.resolve(uint64(dst), nil, uint64(n), sideDevice, what+": destination")
	if err != nil {
		return nil, err
	}
	b, err := from.resolve(uint64(src), nil, uint64(n), sideDevice, what+": source")
	if err != nil {
		return nil, err
	}
	return flat(what, a, b, uint64(n)), nil
}

// MemcpyPeerAsync is MemcpyPeer, ordered in the stream only.
func (d *Driver) MemcpyPeerAsync(h cu.Context, dst cu.DevicePtr, dstCtx cu.Context, src cu.DevicePtr, srcCtx cu.Context, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "between devices")
	to, from, err := d.peerEnds(h, dstCtx, srcCtx, what)
	if err != nil {
		return err
	}
	return d.copyCall(h, stream, true, what, func(*contextState) (*transfer, error) {
		return peerTransfer(what, to, dst, from, src, bytes)
	})
}
