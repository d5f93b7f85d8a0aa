package softgpu

import (
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// hostFuncs knows which goroutines run host functions now, so that a driver call
// from inside one is told from a call from elsewhere.
type hostFuncs struct {
	count atomic.Int64
	ids   sync.Map // goroutine number -> nothing
}

// inside says whether the calling goroutine runs a host function. It costs
// nothing while none runs.
func (h *hostFuncs) inside() bool {
	if h.count.Load() == 0 {
		return false
	}
	_, in := h.ids.Load(goid())
	return in
}

// call runs fn as a host function and turns a panic into an error.
func (h *hostFuncs) call(fn func()) error {
	id := goid()
	h.enter(id)
	defer h.leave(id)
	return protect(fn)
}

// enter notes that a goroutine runs a host function, until leave.
func (h *hostFuncs) enter(id uint64) {
	h.ids.Store(id, nil)
	h.count.Add(1)
}

func (h *hostFuncs) leave(id uint64) {
	h.count.Add(-1)
	h.ids.Delete(id)
}

// protect runs fn and turns a panic into an error.
func protect(fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &cu.HostPanic{Value: v, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
}

// errGoexit is the error of a host function that ended its goroutine.
func errGoexit(what string) error {
	return &cu.HostPanic{Value: "runtime.Goexit was called in a " + what}
}

func insideHostFunc(what string) error {
	return refuse(cu.ErrorNotPermitted, what, "a host function must not call the driver")
}

// LaunchHostFunc runs fn on a goroutine at this point of the stream.
func (d *Driver) LaunchHostFunc(h cu.Context, stream cu.Stream, fn func()) error {
	const what = "queue a host function"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if fn == nil {
		return refuse(cu.ErrorInvalidValue, what, "the function is nil")
	}
	s, err := c.ownStream(stream, what)
	if err != nil {
		return err
	}
	_, err = s.enqueue(&work{
		kind:   cu.GraphNodeTypeHost,
		what:   "host function",
		engine: engineHost,
		run: func(o *op) error {
			o.ctx.printed.flush()
			return o.raceHostFunc(&d.hostFuncs, fn)
		},
		price: func(*op) cost { return cost{ns: d.prof.Queue.Sync.Value} },
	}, what)
	return err
}
