package softgpu

import (
	"runtime"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// onLockedThread runs f on a goroutine that is locked to its thread.
func onLockedThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
	}()
	<-done
}

// TestCaptureModeNeedsLock exchanges modes on goroutines that can change threads.
func TestCaptureModeNeedsLock(t *testing.T) {
	if !showsLocks() {
		t.Skip("the platform does not show locks: " + runtime.GOOS)
	}
	r := newRig(t, Options{})
	done := make(chan error)
	go func() {
		_, err := r.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeRelaxed)
		done <- err
	}()
	r.want(cu.ErrorIllegalState, <-done)

	s, other := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
	r.ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeGlobal))
	var locked, unlocked error
	onLockedThread(func() {
		if _, err := r.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeRelaxed); err != nil {
			t.Error(err)
		}
		locked = r.StreamQuery(r.ctx, other)
		runtime.UnlockOSThread() // without restoring the mode
		unlocked = r.StreamQuery(r.ctx, other)
		runtime.LockOSThread()
	})
	r.ok(locked)
	r.want(cu.ErrorStreamCaptureUnsupported, unlocked)
	_, err := r.StreamEndCapture(r.ctx, s)
	r.want(cu.ErrorStreamCaptureInvalidated, err)
}

// TestUnsafeCallInvalidatesAllThatForbidIt makes one unsafe call while four streams capture.
func TestUnsafeCallInvalidatesAllThatForbidIt(t *testing.T) {
	r := newRig(t, Options{})
	begin := func(mode cu.StreamCaptureMode) cu.Stream {
		s := r.stream(cu.StreamNonBlocking)
		r.ok(r.StreamBeginCapture(r.ctx, s, mode))
		return s
	}
	invalid := func(s cu.Stream) bool {
		status, err := r.StreamIsCapturing(r.ctx, s)
		r.ok(err)
		return status == cu.StreamCaptureStatusInvalidated
	}
	a, b := begin(cu.StreamCaptureModeGlobal), begin(cu.StreamCaptureModeGlobal)
	local, relaxed := begin(cu.StreamCaptureModeThreadLocal), begin(cu.StreamCaptureModeRelaxed)
	other, err := r.CtxCreate(0, 0)
	r.ok(err)
	onLockedThread(func() { err = r.CtxSynchronize(other) })
	r.want(cu.ErrorStreamCaptureUnsupported, err)
	if !invalid(a) || !invalid(b) || invalid(local) || invalid(relaxed) {
		t.Errorf("invalid: global %v and %v, thread-local %v, relaxed %v", invalid(a), invalid(b), invalid(local), invalid(relaxed))
	}
}
