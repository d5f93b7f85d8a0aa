package cutest

import (
	"fmt"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

const captureModeDoc = "Driver API: cuThreadExchangeStreamCaptureMode"

// inMode runs f with a capture mode of the calling thread, and restores the mode. The
// caller is locked to its thread. It returns errors because it can run on any goroutine.
func (c *trial) inMode(mode cu.StreamCaptureMode, f func() error) error {
	before, err := c.d.ThreadExchangeStreamCaptureMode(mode)
	if err != nil {
		return fmt.Errorf("exchange to mode %d: %w", mode, err)
	}
	err = f()
	after, restored := c.d.ThreadExchangeStreamCaptureMode(before)
	switch {
	case restored != nil:
		return fmt.Errorf("restore mode %d: %w", before, restored)
	case after != mode:
		return fmt.Errorf("the thread was in mode %d, want the %d that was set", after, mode)
	}
	return err
}

// wantMode returns an error unless the calling thread is in the capture mode want. The mode stays.
func (c *trial) wantMode(want cu.StreamCaptureMode) error {
	before, err := c.d.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeGlobal)
	if err == nil {
		_, err = c.d.ThreadExchangeStreamCaptureMode(before)
	}
	if err == nil && before != want {
		err = fmt.Errorf("mode %d, want %d", before, want)
	}
	return err
}

// exchangeInvalid exchanges relaxed mode for one that does not exist, and back.
func (c *trial) exchangeInvalid(mode cu.StreamCaptureMode) error {
	if _, err := c.d.ThreadExchangeStreamCaptureMode(mode); isCode(err, cu.ErrorInvalidValue) {
		return nil // inMode sees that the mode is as it was
	} else if err != nil {
		return fmt.Errorf("mode %d: %w, want success or CUDA_ERROR_INVALID_VALUE", mode, err)
	}
	stored, err := c.d.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeRelaxed)
	if err == nil && stored != mode {
		err = fmt.Errorf("mode %d was stored as %d", mode, stored)
	}
	return err
}

// whileCapturing runs ask while a new stream captures, begun on this thread. It returns the
// error of ask, and the one of the end of the capture.
func (c *trial) whileCapturing(mode cu.StreamCaptureMode, ask func(capturing cu.Stream) error) (asked, ended error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := c.stream(cu.StreamNonBlocking)
	c.begin(s, mode)
	asked = ask(s)
	g, ended := c.d.StreamEndCapture(c.ctx, s)
	if ended == nil {
		c.cleanup(func() { c.cleanupError("destroy a graph", c.d.GraphDestroy(g)) })
	}
	return asked, ended
}

// unsafeCall is a call that a capture can forbid, on a stream and an event outside it.
type unsafeCall struct {
	name string
	call func() error
}

// unsafeCalls returns calls that succeed without a capture.
func (c *trial) unsafeCalls() []unsafeCall {
	s, e := c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
	c.ok(c.d.EventRecord(c.ctx, e, s), "record")
	c.sync(s)
	return []unsafeCall{
		{"query of another stream", func() error { return c.d.StreamQuery(c.ctx, s) }},
		{"wait for another stream", func() error { return c.d.StreamSynchronize(c.ctx, s) }},
		{"query of an event", func() error { return c.d.EventQuery(c.ctx, e) }},
		{"wait for an event", func() error { return c.d.EventSynchronize(c.ctx, e) }},
		{"allocation", func() error {
			p, err := c.d.MemAlloc(c.ctx, 1<<20)
			if err == nil {
				err = c.d.MemFree(c.ctx, p)
			}
			return err
		}},
	}
}

// wantAllowed makes each unsafe call during a capture. It fails unless the calls succeed and
// the capture ends with a graph. Each call runs in where.
func (c *trial) wantAllowed(capture cu.StreamCaptureMode, where func(func() error) error) {
	for _, u := range c.unsafeCalls() {
		asked, ended := c.whileCapturing(capture, func(cu.Stream) error { return where(u.call) })
		c.ok(asked, u.name)
		c.ok(ended, "end after a "+u.name)
	}
}

// wantForbidden is wantAllowed for calls that are refused and invalidate the capture.
func (c *trial) wantForbidden(capture cu.StreamCaptureMode, where func(func() error) error) {
	for _, u := range c.unsafeCalls() {
		asked, ended := c.whileCapturing(capture, func(cu.Stream) error { return where(u.call) })
		c.want(asked, u.name, cu.ErrorStreamCaptureUnsupported)
		c.want(ended, "end after a "+u.name, cu.ErrorStreamCaptureInvalidated)
		c.ok(u.call(), u.name+" after the capture")
	}
}

// onThreadIn returns a function that runs calls on another thread in a capture mode.
func (c *trial) onThreadIn(mode cu.StreamCaptureMode) func(func() error) error {
	return func(call func() error) error {
		return onThread(func() error { return c.inMode(mode, call) })
	}
}

// queueAll queues work in a stream, with an event of its own.
func (c *trial) queueAll(s cu.Stream, p cu.DevicePtr, in hostMem) error {
	e, err := c.d.EventCreate(c.ctx, cu.EventDisableTiming)
	if err != nil {
		return fmt.Errorf("create an event: %w", err)
	}
	if err := c.d.MemcpyHtoDAsync(c.ctx, p, in.p, uintptr(len(in.b)), s); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	if err := c.d.LaunchHostFunc(c.ctx, s, func() {}); err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	if err := c.d.EventRecord(c.ctx, e, s); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := c.d.EventDestroy(c.ctx, e); err != nil {
		return fmt.Errorf("destroy an event: %w", err)
	}
	return nil
}

var captureModeChecks = []check{
	{"capture/mode-exchange", "an exchange returns the mode that the thread had, and a second one restores it",
		captureModeDoc, needNoContext, func(c *trial) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := c.inMode(cu.StreamCaptureModeThreadLocal, func() error {
				if err := c.wantMode(cu.StreamCaptureModeThreadLocal); err != nil {
					return err
				}
				return c.inMode(cu.StreamCaptureModeRelaxed, func() error { return c.wantMode(cu.StreamCaptureModeRelaxed) })
			})
			c.ok(err, "nested exchanges")
			c.ok(c.wantMode(cu.StreamCaptureModeGlobal), "the mode afterwards")
		}},
	{"capture/mode-of-each-thread", "each thread has a mode of its own, which is global at first",
		captureModeDoc, needNoContext, func(c *trial) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := c.inMode(cu.StreamCaptureModeRelaxed, func() error {
				if err := onThread(func() error { return c.wantMode(cu.StreamCaptureModeGlobal) }); err != nil {
					return fmt.Errorf("another thread: %w", err)
				}
				if err := c.onThreadIn(cu.StreamCaptureModeThreadLocal)(func() error { return nil }); err != nil {
					return err
				}
				return c.wantMode(cu.StreamCaptureModeRelaxed)
			})
			c.ok(err, "modes of two threads")
		}},
	{"capture/mode-invalid", "a mode that does not exist is refused and leaves the mode as it was, or is stored like any other",
		captureModeDoc, needNoContext, func(c *trial) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for _, mode := range []cu.StreamCaptureMode{3, 99, 1 << 31} {
				c.ok(c.inMode(cu.StreamCaptureModeRelaxed, func() error { return c.exchangeInvalid(mode) }), "an invalid mode")
			}
		}},
	{"capture/global-forbids-queries", "in global mode queries of other streams and of events, and waits for them, are refused on every thread, and invalidate the capture",
		captureModeDoc + ", CU_STREAM_CAPTURE_MODE_GLOBAL (does not list the calls)", 0, func(c *trial) {
			c.wantForbidden(cu.StreamCaptureModeGlobal, onThread)
			c.wantForbidden(cu.StreamCaptureModeGlobal, func(call func() error) error { return call() })
		}},
	{"capture/global-allows-queues", "in global mode other threads may create events and queue work in other streams",
		captureModeDoc + " (does not list the calls)", 0, func(c *trial) {
			s, p, in := c.stream(cu.StreamNonBlocking), c.device(256), c.pinned(256, 0)
			asked, ended := c.whileCapturing(cu.StreamCaptureModeGlobal, func(cu.Stream) error {
				return onThread(func() error { return c.queueAll(s, p, in) })
			})
			c.ok(asked, "queue")
			c.ok(ended, "end")
			c.sync(s)
			c.same("copied", c.down(p, 256), in.b)
		}},
	{"capture/mode-relaxed", "a thread in relaxed mode may query, wait and allocate while other threads and itself capture",
		captureModeDoc + ", CU_STREAM_CAPTURE_MODE_RELAXED", 0, func(c *trial) {
			c.wantAllowed(cu.StreamCaptureModeGlobal, c.onThreadIn(cu.StreamCaptureModeRelaxed))
			for _, mode := range []cu.StreamCaptureMode{cu.StreamCaptureModeGlobal, cu.StreamCaptureModeThreadLocal} {
				c.wantAllowed(mode, func(call func() error) error { return c.inMode(cu.StreamCaptureModeRelaxed, call) })
			}
		}},
	{"capture/mode-relaxed-conflicts", "in relaxed mode a query of the capturing stream, and a wait for the context, are refused and invalidate the capture",
		captureModeDoc + ", CU_STREAM_CAPTURE_MODE_RELAXED (calls that conflict with the capture)", 0, func(c *trial) {
			for name, ask := range map[string]func(cu.Stream) error{
				"query of the capturing stream": func(s cu.Stream) error { return c.d.StreamQuery(c.ctx, s) },
				"wait for the context":          func(cu.Stream) error { return c.d.CtxSynchronize(c.ctx) },
			} {
				asked, ended := c.whileCapturing(cu.StreamCaptureModeGlobal, func(s cu.Stream) error {
					return c.onThreadIn(cu.StreamCaptureModeRelaxed)(func() error { return ask(s) })
				})
				c.want(asked, name, cu.ErrorStreamCaptureUnsupported)
				c.want(ended, "end after a "+name, cu.ErrorStreamCaptureInvalidated)
			}
		}},
	{"capture/mode-thread-local", "a thread in thread-local mode is bound by its own captures and by no others",
		captureModeDoc + ", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL", 0, func(c *trial) {
			c.wantAllowed(cu.StreamCaptureModeGlobal, c.onThreadIn(cu.StreamCaptureModeThreadLocal))
			for _, mode := range []cu.StreamCaptureMode{cu.StreamCaptureModeGlobal, cu.StreamCaptureModeThreadLocal} {
				c.wantForbidden(mode, func(call func() error) error { return c.inMode(cu.StreamCaptureModeThreadLocal, call) })
			}
			c.wantAllowed(cu.StreamCaptureModeRelaxed, func(call func() error) error { return c.inMode(cu.StreamCaptureModeThreadLocal, call) })
		}},
	{"capture/mode-restored", "a thread whose mode is global again is bound by captures of other threads again",
		captureModeDoc, 0, func(c *trial) {
			c.wantForbidden(cu.StreamCaptureModeGlobal, func(call func() error) error {
				return onThread(func() error {
					if err := c.inMode(cu.StreamCaptureModeRelaxed, call); err != nil {
						return fmt.Errorf("in relaxed mode: %v", err) // no result of the driver: the case wants one of the second call
					}
					return call()
				})
			})
		}},
}
