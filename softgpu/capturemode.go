package softgpu

import (
	"bytes"
	"runtime"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	threads "github.com/ferrygpu/ferry/internal/thread"
)

// ThreadExchangeStreamCaptureMode sets the capture mode of the calling thread. Here a
// thread is a goroutine that is locked to one. On hardware the mode of a goroutine that is
// not locked may move to another goroutine, so this GPU refuses the call.
func (d *Driver) ThreadExchangeStreamCaptureMode(mode cu.StreamCaptureMode) (cu.StreamCaptureMode, error) {
	const what = "exchange the capture mode of a thread"
	if err := d.begin(what); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if mode > cu.StreamCaptureModeRelaxed {
		return 0, refuse(cu.ErrorInvalidValue, what, "mode %d is not known", mode)
	}
	id, locked := thread()
	if !locked && showsLocks() {
		return 0, refuse(cu.ErrorIllegalState, what, "the goroutine can change threads: call runtime.LockOSThread first, and restore the mode before UnlockOSThread")
	}
	before := d.captureModes[id]
	if mode == cu.StreamCaptureModeGlobal {
		delete(d.captureModes, id)
	} else {
		d.captureModes[id] = mode
	}
	return before, nil
}

// captureMode returns the mode of the calling goroutine, and its number. A goroutine that
// is no longer locked to a thread has the mode that threads start with.
func (d *Driver) captureMode() (mode cu.StreamCaptureMode, id uint64) {
	id, locked := thread()
	if !locked && showsLocks() {
		return cu.StreamCaptureModeGlobal, id
	}
	return d.captureModes[id], id
}

// unsafeInCapture refuses a call that may wait for a capture or break it, and invalidates
// the captures that forbid it. The mode of the calling thread says which these can be.
func (c *contextState) unsafeInCapture(what string) error { return c.drv.unsafeInCapture(what) }

// unsafeInCapture is the same for a call without a context.
func (d *Driver) unsafeInCapture(what string) error {
	if !d.strictCaptures() {
		return nil
	}
	mode, id := d.captureMode()
	forbidden := false
	for p := range d.captures {
		if p.forbids(mode, id) {
			p.invalidate()
			forbidden = true
		}
	}
	if forbidden {
		return refuse(cu.ErrorStreamCaptureUnsupported, what, "a stream captures, and neither its mode nor the thread's is relaxed")
	}
	return nil
}

// strictCaptures reports whether any capture is not relaxed. Only then does the calling
// goroutine matter, which takes microseconds to find out.
func (d *Driver) strictCaptures() bool {
	for p := range d.captures {
		if p.mode != cu.StreamCaptureModeRelaxed {
			return true
		}
	}
	return false
}

// forbids reports whether p forbids unsafe calls of a thread with a capture mode.
func (p *capture) forbids(mode cu.StreamCaptureMode, id uint64) bool {
	switch {
	case mode == cu.StreamCaptureModeRelaxed || p.mode == cu.StreamCaptureModeRelaxed:
		return false
	case p.thread == id:
		return true
	}
	return mode == cu.StreamCaptureModeGlobal && p.mode == cu.StreamCaptureModeGlobal
}

// showsLocks reports whether this platform shows that a goroutine is locked to its thread.
// On js/wasm there are no threads.
var showsLocks = sync.OnceValue(func() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, locked := thread()
	return locked
})

// thread returns the number of the calling thread, and whether the goroutine is locked to it. It
// reads the first line of the stack: "goroutine 7 [running, locked to thread]:". In a library for C
// programs the thread is one of the system, which no call leaves.
func thread() (id uint64, locked bool) {
	if id, ok := threads.ID(); ok {
		return id, true
	}
	var buf [128]byte
	line, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte("\n"))
	return goidIn(line), bytes.Contains(line, []byte("locked to thread"))
}
