package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// wordWrite is a write of a value at a point of a stream.
type wordWrite struct {
	what  string
	dst   span // 4 or 8 bytes, aligned
	value uint64
}

// StreamWriteValue32 writes a word of 4 bytes at this point of the stream.
func (d *Driver) StreamWriteValue32(h cu.Context, stream cu.Stream, dst cu.DevicePtr, value uint32, flags cu.StreamWriteValueFlags) error {
	if err := d.since("cuStreamWriteValue32", 11070); err != nil {
		return err
	}
	return d.writeValue(h, stream, dst, uint64(value), 4, flags)
}

// StreamWriteValue64 writes a word of 8 bytes at this point of the stream.
func (d *Driver) StreamWriteValue64(h cu.Context, stream cu.Stream, dst cu.DevicePtr, value uint64, flags cu.StreamWriteValueFlags) error {
	if err := d.since("cuStreamWriteValue64", 11070); err != nil {
		return err
	}
	return d.writeValue(h, stream, dst, value, 8, flags)
}

func (d *Driver) writeValue(h cu.Context, stream cu.Stream, dst cu.DevicePtr, value, width uint64, flags cu.StreamWriteValueFlags) error {
	what := "write a value of " + size(width)
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.spend(orElse(d.prof.Calls.Write, d.prof.Calls.Record))
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if err := s.ctx.dev.canWrite(width, what); err != nil {
		return err
	}
	// The flag CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER belongs to the first form of the call.
	if flags != cu.StreamWriteValueDefault {
		return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", uint32(flags))
	}
	to, err := s.wordAt(dst, width, what)
	if err != nil {
		return err
	}
	w := &wordWrite{what, to, value}
	_, err = s.enqueue(w.work(d), what)
	return err
}

// canWrite fails if the device has no writes of width bytes.
func (dev *device) canWrite(width uint64, what string) error {
	const wide = cu.DeviceAttributeCanUse64BitStreamMemOps
	if width == 8 && dev.attr(wide) == 0 {
		return dev.lacks(what, wide)
	}
	return nil
}

// wordAt returns the span of a word that stream memory operations of s may use.
func (s *streamState) wordAt(at cu.DevicePtr, width uint64, what string) (span, error) {
	if uint64(at)%width != 0 {
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is not aligned to words of %d bytes", uint64(at), width)
	}
	p, err := s.ctx.resolve(uint64(at), nil, width, sideDevice, what)
	if err != nil {
		return span{}, err
	}
	if err := p.closed(what, true); err != nil {
		return span{}, err
	}
	switch r := p.region; {
	case r.kind == kindPool:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is memory of a pool, which hardware refuses: use memory of MemAlloc or mapped page-locked memory", uint64(at))
	case r.kind == kindManaged:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is managed memory: use memory of MemAlloc or mapped page-locked memory", uint64(at))
	case r.kind == kindRegistered && r.reg&cu.MemHostRegisterReadOnly != 0:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is registered as read-only", uint64(at))
	case !r.kind.onHost() && r.kind != kindMapped && r.dev != s.ctx.dev && !s.ctx.peers[r.ctx]:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is memory of another device, and the stream's context has no peer access to it", uint64(at))
	}
	return p, nil
}

// work returns the operation. It occupies no engine: the stream itself writes, and takes
// longer for that than for the record of an event.
func (w *wordWrite) work(d *Driver) *work {
	x := &work{
		kind:  cu.GraphNodeTypeBatchMemOp,
		what:  w.what,
		run:   w.run,
		uses:  [2]*region{w.dst.region},
		price: func(*op) cost { return cost{ns: orElse(d.prof.Queue.Write, d.prof.Queue.Gap)} },
	}
	if d.races {
		x.spans = w.spans
	}
	return x
}

// spans reports the write to the check of launches: as strong, and behind a fence.
func (w *wordWrite) spans(record func(p span, off, n uint64, kind kernelrace.Kind)) {
	record(w.dst, 0, w.dst.n, (kernelrace.Write | kernelrace.Strong).With(kernelrace.System))
}

// run writes the word at once, so that the host never reads a part of it. The host may
// poll the word and may rely on what earlier work has written.
func (w *wordWrite) run(o *op) error {
	word, err := w.dst.bytes(w.what)
	if err != nil {
		return err
	}
	return guard(w.what, []span{w.dst}, func() error {
		if raceBuild { // raceSignal touches the word on a goroutine that has no guard
			var old [8]byte
			moveBytes(old[:], word)
		}
		o.raceSignal(word)
		if w.dst.region.kind.onHost() {
			o.ctx.drv.launches.HostSees(o.track)
		}
		w.dst.wrote(0, w.dst.n)
		storeWord(word, w.value)
		return nil
	})
}
