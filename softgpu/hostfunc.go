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
func (h *hostFuncs) call(fn func()) (err error) {
	id := goid()
	h.ids.Store(id, nil)
	h.count.Add(1)
	defer func() {
		h.count.Add(-1)
		h.ids.Delete(id)
		if v := recover(); v != nil {
			err = &cu.HostPanic{Value: v, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
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
		run:    func(*op) error { return d.hostFuncs.call(fn) },
		price:  func(*op) cost { return cost{ns: d.prof.Queue.Sync.Value} },
	}, what)
	return err
}
