package softgpu

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
	refusals "github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// fill is a memset: a pattern of 1, 2 or 4 bytes, n times.
type fill struct {
	what    string
	dst     span
	pattern []byte
}

// run writes the pattern, and then doubles the part that is filled.
func (f *fill) run() error {
	return guard(f.what, []span{f.dst}, func() error {
		dst, done, err := f.dst.toWrite(f.what, 0)
		if err != nil {
			return err
		}
		defer done()
		f.dst.wrote(0, f.dst.n)
		const block = 64 << 10 // fits in the CPU's cache
		n := moveBytes(dst, f.pattern)
		for n < len(dst) {
			n += moveBytes(dst[n:], dst[:min(n, block)])
		}
		return nil
	})
}

// memset queues a fill. As on hardware it waits only if it fills host memory.
func (d *Driver) memset(h cu.Context, dst cu.DevicePtr, pattern []byte, n uintptr, stream cu.Stream, async bool) error {
	what := "fill " + refusals.Elements(n, uintptr(len(pattern)))
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	width := uint64(len(pattern))
	switch {
	case uint64(n) > (1<<62)/width:
		return refuse(cu.ErrorInvalidValue, what, "%d words of %d bytes are more than the address space", n, width)
	case uint64(dst)%width != 0:
		return refuse(cu.ErrorInvalidValue, what, "%#x is not aligned to words of %d bytes", uint64(dst), width)
	case n == 0:
		return nil
	}
	to, err := c.resolve(uint64(dst), nil, uint64(n)*width, sideDevice, what)
	if err != nil {
		return err
	}
	to.by = s.ctx.dev
	if err := to.closed(what, true); err != nil {
		return err
	}
	if r := to.region; !r.kind.onHost() && r.kind != kindPool && r.kind != kindMapped && r.dev != s.ctx.dev && !s.ctx.peers[r.ctx] {
		return refuse(cu.ErrorInvalidValue, what, "%#x is memory of another device, and the stream's context has no peer access to it", uint64(dst))
	}
	if !async {
		if err := c.unsafeInCapture(what); err != nil {
			return err
		}
	}
	f := &fill{what: what, dst: to, pattern: pattern}
	curve, use := &d.prof.Copy.Memset, resMemory
	if to.copyKind() == copyPageLocked {
		curve, use = &d.prof.Copy.PinnedDtoH, resOut
	}
	d.spend(d.prof.Calls.MemcpyAsync.Value)
	o, err := s.enqueue(f.work(c.dev, curve, use), what)
	if err != nil || o == nil {
		return err
	}
	if !async && to.region.kind.onHost() {
		return s.await(o)
	}
	return nil
}

func (f *fill) work(dev *device, curve *profile.Curve, use resource) *work {
	w := &work{
		kind:   cu.GraphNodeTypeMemset,
		what:   f.what,
		engine: engineCompute,
		dev:    dev,
		run:    func(*op) error { return f.run() },
		uses:   [2]*region{f.dst.region},
		moved:  moved{bytes: f.dst.n, to: f.dst.memoryName()},
		price: func(*op) cost {
			if f.dst.region.kind == kindManaged {
				f.dst.region.managed.pages.Populate(f.dst.off, f.dst.n, uvm.Processor(dev.ordinal))
			}
			return curveCost(curve, f.dst.n, use)
		},
	}
	if raceBuild {
		w.touches = func(record func([]byte, bool)) { record(f.dst.all(), true) }
	}
	if dev.drv.races {
		w.spans = func(record func(span, uint64, uint64, kernelrace.Kind)) { record(f.dst, 0, f.dst.n, kernelrace.Write) }
	}
	return w
}

func pattern16(v uint16) []byte { return binary.LittleEndian.AppendUint16(nil, v) }

func pattern32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// MemsetD8 fills n bytes.
func (d *Driver) MemsetD8(h cu.Context, dst cu.DevicePtr, value uint8, n uintptr) error {
	return d.memset(h, dst, []byte{value}, n, cu.StreamLegacy, false)
}

// MemsetD16 fills n 16-bit words.
func (d *Driver) MemsetD16(h cu.Context, dst cu.DevicePtr, value uint16, n uintptr) error {
	return d.memset(h, dst, pattern16(value), n, cu.StreamLegacy, false)
}

// MemsetD32 fills n 32-bit words.
func (d *Driver) MemsetD32(h cu.Context, dst cu.DevicePtr, value uint32, n uintptr) error {
	return d.memset(h, dst, pattern32(value), n, cu.StreamLegacy, false)
}

// MemsetD8Async fills n bytes in stream order.
func (d *Driver) MemsetD8Async(h cu.Context, dst cu.DevicePtr, value uint8, n uintptr, stream cu.Stream) error {
	return d.memset(h, dst, []byte{value}, n, stream, true)
}

// MemsetD16Async fills n 16-bit words in stream order.
func (d *Driver) MemsetD16Async(h cu.Context, dst cu.DevicePtr, value uint16, n uintptr, stream cu.Stream) error {
	return d.memset(h, dst, pattern16(value), n, stream, true)
}

// MemsetD32Async fills n 32-bit words in stream order.
func (d *Driver) MemsetD32Async(h cu.Context, dst cu.DevicePtr, value uint32, n uintptr, stream cu.Stream) error {
	return d.memset(h, dst, pattern32(value), n, stream, true)
}
