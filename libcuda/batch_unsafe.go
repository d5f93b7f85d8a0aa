package libcuda

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// submission is a batch as C takes it. It stays with the batch, to be submitted
// again as it is or to be used for other calls.
type submission struct {
	crossing
	d      *Driver // whose functions the steps call
	first  procID  // of the first step
	list   []step
	params []launchParams // what steps that launch point to
}

// Submit makes the calls of b in one crossing; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) {
	if b.Len() == 0 {
		return 0, nil
	}
	x, current := b.Prepared()
	s, _ := x.(*submission)
	if s != nil && current && s.d == d {
		err = refuseInHostFunc(s.first)
	} else {
		if s == nil {
			s = new(submission)
		}
		if err = s.take(d, b.Calls()); err == nil {
			b.Prepare(s)
		}
	}
	if err != nil {
		return 0, err
	}
	if err = d.bind(&s.binding, ctx); err != nil {
		return 0, err
	}
	s.done = 0
	r := s.make()
	seeHostFuncs()
	runtime.KeepAlive(b)
	return int(s.done), result(r)
}

// take lays the calls out. C will look into params, so it has its room before the
// first address of it is taken.
func (s *submission) take(d *Driver, calls []cu.Call) error {
	s.list = slices.Grow(s.list[:0], len(calls))[:len(calls)]
	s.params = slices.Grow(s.params[:0], len(calls))[:len(calls)]
	s.d, s.steps, s.n = d, &s.list[0], uintptr(len(calls))
	for i := range calls {
		id, err := d.lay(&s.list[i], &calls[i], &s.params[i])
		if err != nil {
			return err
		}
		if i == 0 {
			s.first = id
		}
	}
	return nil
}

// lay makes a step of a call. room is for the parameters of a launch.
func (d *Driver) lay(s *step, c *cu.Call, room *launchParams) (id procID, err error) {
	stream := uintptr(c.Stream)
	switch c.Op {
	case cu.OpMemcpyAsync:
		id, s[1], s[2], s[3], s[4] = procMemcpyAsync, uintptr(c.Dst), uintptr(c.Src), c.Bytes, stream
	case cu.OpMemcpyHtoDAsync:
		id, s[1], s[2], s[3], s[4] = procMemcpyHtoDAsync, uintptr(c.Dst), uintptr(c.Host), c.Bytes, stream
	case cu.OpMemcpyDtoHAsync:
		id, s[1], s[2], s[3], s[4] = procMemcpyDtoHAsync, uintptr(c.Host), uintptr(c.Src), c.Bytes, stream
	case cu.OpMemcpyDtoDAsync:
		id, s[1], s[2], s[3], s[4] = procMemcpyDtoDAsync, uintptr(c.Dst), uintptr(c.Src), c.Bytes, stream
	case cu.OpMemcpyPeerAsync:
		id, s[1], s[2], s[3], s[4], s[5], s[6] = procMemcpyPeerAsync, uintptr(c.Dst), uintptr(c.DstCtx), uintptr(c.Src), uintptr(c.SrcCtx), c.Bytes, stream
	case cu.OpMemsetD8Async:
		id, s[1], s[2], s[3], s[4] = procMemsetD8Async, uintptr(c.Dst), uintptr(uint8(c.Value)), c.Bytes, stream
	case cu.OpMemsetD16Async:
		id, s[1], s[2], s[3], s[4] = procMemsetD16Async, uintptr(c.Dst), uintptr(uint16(c.Value)), c.Bytes, stream
	case cu.OpMemsetD32Async:
		id, s[1], s[2], s[3], s[4] = procMemsetD32Async, uintptr(c.Dst), uintptr(c.Value), c.Bytes, stream
	case cu.OpLaunchKernel:
		id = procLaunchKernel
		layLaunch(s, c, room)
	case cu.OpEventRecord:
		id, s[1], s[2] = procEventRecord, uintptr(c.Event), stream
	case cu.OpStreamWaitEvent:
		id, s[1], s[2], s[3] = procStreamWaitEvent, stream, uintptr(c.Event), uintptr(cu.EventWaitDefault)
	default:
		return 0, c.Do(nil, 0) // refuses it
	}
	return id, d.prepare(s, id)
}

// layLaunch lays the arguments of a launch out.
func layLaunch(s *step, c *cu.Call, room *launchParams) {
	s.setLaunch(c.Function, c.Grid, c.Block, c.Shared, c.Stream)
	s[10], s[11] = 0, 0
	if len(c.Params) > 0 {
		room.set(c.Params)
		s[maxArgs] = uintptr(unsafe.Pointer(room))
	}
}
