package libcuda

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The steps are in memory of Go that the submission keeps. What they point to is
// pinned while C runs.

// submission is a batch in the form that C takes. It stays with the batch: another
// Submit replays it, or reuses its memory for other calls.
type submission struct {
	crossing
	d        *Driver // has the functions that the steps call
	first    procID  // of the first step
	byHandle bool    // all steps use the context of their stream
	list     []step
	params   []launchParams // for the steps that launch
}

// Submit makes the calls of b in one call from Go to C; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) {
	if b.Len() == 0 {
		return b.Do(d, ctx) // no call, or the error for nil
	}
	x, current := b.Prepared()
	s, _ := x.(*submission)
	if s == nil || !current || s.d != d {
		if s, err = d.submission(s, b); err != nil {
			return 0, err
		}
	}
	s.set, s.done = 0, 0
	if d.mayRefuse(ctx) || !s.byHandle {
		if err = d.bindSubmission(s, ctx); err != nil {
			return 0, err
		}
	}
	r, err := s.run(ctx)
	if r != cu.Success {
		err = s.retry(r, ctx)
	}
	runtime.KeepAlive(b)
	return int(s.done), err
}

// run makes the calls. If they need a current context, a bound thread keeps its own. err is that of
// the change of the context, before or after the calls.
func (s *submission) run(ctx cu.Context) (r cu.Result, err error) {
	if s.set == 0 || !inBoundThread() {
		r = s.make()
		seeHostFuncs()
		return r, nil
	}
	set := s.set
	s.set = 0
	err = s.d.between(ctx, func() error { r = s.make(); return nil })
	s.set = set
	return r, err
}

// submission prepares the calls of a batch. It reuses the memory of the last
// submission, if there is one.
func (d *Driver) submission(s *submission, b *cu.Batch) (*submission, error) {
	if s == nil {
		s = new(submission)
	}
	err := s.layOut(d, b.Calls())
	if err == nil {
		b.Prepare(s)
	}
	return s, err
}

// bindSubmission sets which context becomes current for a submission.
func (d *Driver) bindSubmission(s *submission, ctx cu.Context) error {
	if err := refuseInHostFunc(s.first); err != nil {
		return err
	}
	return d.bind(&s.binding, ctx)
}

// retry handles a submission that failed. If the driver may want a current context,
// it makes the remaining calls with one.
func (s *submission) retry(r cu.Result, ctx cu.Context) error {
	if s.set != 0 || !wantsContext(r) {
		return result(r)
	}
	if err := s.d.bindSubmission(s, ctx); err != nil {
		return err
	}
	first, n := s.steps, s.n
	s.steps, s.n = &s.list[s.done], n-s.done
	r, err := s.run(ctx)
	s.steps, s.n = first, n
	if r != cu.Success {
		return result(r)
	}
	return err
}

// layOut makes the steps of the calls. C reads params, so params gets its memory
// before the first address in it is taken.
func (s *submission) layOut(d *Driver, calls []cu.Call) error {
	s.list = slices.Grow(s.list[:0], len(calls))[:len(calls)]
	s.params = slices.Grow(s.params[:0], len(calls))[:len(calls)]
	s.d, s.steps, s.n = d, &s.list[0], uintptr(len(calls))
	s.byHandle = d.version >= minByHandle
	for i := range calls {
		c := &calls[i]
		id, err := d.layCall(&s.list[i], c, &s.params[i])
		if err != nil {
			return err
		}
		if i == 0 {
			s.first = id
		}
		s.byHandle = s.byHandle && procByHandle[id] && c.Stream > cu.StreamPerThread
	}
	return nil
}

// layCall makes the step of a call. params gets the parameters of a launch.
func (d *Driver) layCall(s *step, c *cu.Call, params *launchParams) (id procID, err error) {
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
		layLaunch(s, c, params)
	case cu.OpEventRecord:
		id, s[1], s[2] = procEventRecord, uintptr(c.Event), stream
	case cu.OpStreamWaitEvent:
		id, s[1], s[2], s[3] = procStreamWaitEvent, stream, uintptr(c.Event), uintptr(cu.EventWaitDefault)
	default:
		return 0, c.Do(nil, 0) // the error for an unknown Op
	}
	return id, d.prepare(s, id)
}

// layLaunch makes the step of a launch.
func layLaunch(s *step, c *cu.Call, params *launchParams) {
	s.setLaunch(c.Function, c.Grid, c.Block, c.Shared, c.Stream)
	s[10], s[11] = 0, 0
	if len(c.Params) > 0 {
		params.set(c.Params)
		s[maxArgs] = uintptr(unsafe.Pointer(params))
	}
}
