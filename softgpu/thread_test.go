package softgpu

import (
	"runtime"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestEndThread ends a thread whose default stream has work: the stream is dropped, its work gets
// done, and the thread's capture mode is forgotten.
func TestEndThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d, err := Open(Options{Schedule: Lazy})
	if err != nil {
		t.Fatal(err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(d.Init(0))
	ctx, err := d.CtxCreate(0, 0)
	ok(err)
	p, err := d.MemAlloc(ctx, 4)
	ok(err)
	ok(d.MemsetD32Async(ctx, p, 5, 1, cu.StreamPerThread))
	_, err = d.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeRelaxed)
	ok(err)

	c := d.contexts()[0]
	if n, before := len(c.perThread), len(c.streams); n != 1 || before != 2 {
		t.Fatalf("%d default streams of threads and %d streams, want 1 and 2", n, before)
	}
	d.endThread(threadID() + 1) // another thread
	if len(c.perThread) != 1 {
		t.Error("the end of another thread dropped the stream")
	}
	d.endThread(threadID())
	if n, left := len(c.perThread), len(c.streams); n != 0 || left != 1 {
		t.Errorf("%d default streams of threads and %d streams are left, want 0 and 1", n, left)
	}
	if before, err := d.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeGlobal); err != nil || before != cu.StreamCaptureModeGlobal {
		t.Errorf("the mode is %v (%v), want that of a new thread", before, err)
	}
	ok(d.CtxSynchronize(ctx))
	var got [1]uint32
	ok(d.MemcpyDtoH(ctx, cu.HostPtr(&got), p, 4))
	if got[0] != 5 {
		t.Errorf("got %d, want 5: the stream's work did not get done", got[0])
	}
}
