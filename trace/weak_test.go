package trace_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/trace"
)

// raw wraps a driver in a recording and returns a context and a stream of it.
func raw(t *testing.T, inner cu.Driver) (w *trace.Driver, ctx cu.Context, s cu.Stream, finish func() *trace.Recording) {
	t.Helper()
	r, path := recorder(t)
	w = r.Wrap(inner)
	check(t, w.Init(0))
	ctx = must(w.DevicePrimaryCtxRetain(must(w.DeviceGet(0))(t)))(t)
	s = must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t)
	return w, ctx, s, func() *trace.Recording { return ended(t, r, path) }
}

// TestAnchorsAreRenewedAndFreed: an old anchor is replaced, and each event that a recording
// made is destroyed with the context.
func TestAnchorsAreRenewedAndFreed(t *testing.T) {
	d := &eventCounter{Driver: bare{soft(t, "h200", 1)}}
	w, ctx, s, finish := raw(t, d)
	p := must(w.MemAlloc(ctx, 256))(t)
	const operations, most = 100, 12 // two pending operations and two anchors have 8 events
	renewed := 0
	for i := range operations {
		check(t, w.MemsetD8Async(ctx, p, uint8(i), 256, s))
		if i%2 == 1 {
			check(t, w.StreamSynchronize(ctx, s))
		}
		if w.AgeAnchor(ctx) >= 0 {
			renewed++
		}
	}
	if renewed < operations/2 { // an anchor can fail on a busy machine
		t.Errorf("%d new anchors for %d operations that are long after each other", renewed, operations)
	}
	if n := d.created - d.destroyed; n > most {
		t.Errorf("%d events after %d operations, want at most %d", n, operations, most)
	}
	check(t, errors.Join(w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.DevicePrimaryCtxRelease(0)))
	if d.created != d.destroyed {
		t.Errorf("%d events were made and %d destroyed", d.created, d.destroyed)
	}
	if rec := finish(); len(rec.Operations) != operations {
		t.Errorf("%d operations, want %d", len(rec.Operations), operations)
	}
}

// panicking is a driver with a bug in one call.
type panicking struct {
	cu.Driver
	on bool
}

func (d *panicking) MemsetD8Async(ctx cu.Context, dst cu.DevicePtr, v uint8, n uintptr, s cu.Stream) error {
	if d.on {
		panic("BUG: planted")
	}
	return d.Driver.MemsetD8Async(ctx, dst, v, n, s)
}

// Unwrap lets the software GPU report its operations.
func (d *panicking) Unwrap() cu.Driver { return d.Driver }

// TestPanicOfDriver: a panic of the driver passes through, and leaves no track taken. Later
// operations have the calls that queue them.
func TestPanicOfDriver(t *testing.T) {
	for _, measured := range []bool{false, true} {
		var inner cu.Driver = soft(t, "h200", 1)
		if measured {
			inner = bare{inner}
		}
		counter := &eventCounter{Driver: inner}
		inner = counter
		d := &panicking{Driver: inner}
		w, ctx, s, finish := raw(t, d)
		p := must(w.MemAlloc(ctx, 256))(t)
		d.on = true
		for range 3 {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic is lost")
					}
				}()
				_ = w.MemsetD8Async(ctx, p, 1, 256, s)
			}()
		}
		d.on = false
		check(t, w.MemsetD8Async(ctx, p, 1, 256, s))
		check(t, errors.Join(w.StreamSynchronize(ctx, s), w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.DevicePrimaryCtxRelease(0)))
		rec := finish()
		if counter.created != counter.destroyed {
			t.Errorf("%d events were made and %d destroyed", counter.created, counter.destroyed)
		}
		for _, c := range rec.Calls {
			if c.Track != 0 {
				t.Fatalf("measured %v: %+v is not on the first track", measured, c)
			}
		}
		if len(rec.Operations) != 1 {
			t.Errorf("measured %v: %d operations, want 1", measured, len(rec.Operations))
		}
	}
}

// capturing is a driver in which another thread begins a capture while the recording asks
// for an event, and ends it at finish.
type capturing struct {
	bare
	stream cu.Stream // to capture; 0 for none
	finish chan struct{}
	ended  chan error
}

func (d *capturing) EventQuery(ctx cu.Context, e cu.Event) error {
	if s := d.stream; s != 0 {
		d.stream = 0
		began := make(chan error)
		go func() {
			runtime.LockOSThread()
			began <- d.bare.StreamBeginCapture(ctx, s, cu.StreamCaptureModeGlobal)
			<-d.finish
			graph, err := d.bare.StreamEndCapture(ctx, s)
			if err == nil {
				err = d.bare.GraphDestroy(graph)
			}
			d.ended <- err
		}()
		if err := <-began; err != nil {
			return err
		}
	}
	return d.bare.EventQuery(ctx, e)
}

// TestCaptureDuringQuery: a capture that begins while the recording reads times is not
// ended by it, and the thread has its capture mode back.
func TestCaptureDuringQuery(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := &capturing{bare: bare{soft(t, "h200", 1)}, finish: make(chan struct{}), ended: make(chan error, 1)}
	w, ctx, s, finish := raw(t, d)
	w.DoNotRead()
	other := must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t)
	p := must(w.MemAlloc(ctx, 256))(t)
	check(t, w.MemsetD8Async(ctx, p, 1, 256, s))
	check(t, d.bare.StreamSynchronize(ctx, s))
	d.stream = other
	check(t, w.StreamSynchronize(ctx, s)) // reads the times
	if d.stream != 0 {
		t.Fatal("the recording did not ask")
	}
	close(d.finish)
	if err := <-d.ended; err != nil {
		t.Errorf("the capture is lost: %v", err)
	}
	if mode := must(w.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeGlobal))(t); mode != cu.StreamCaptureModeGlobal {
		t.Errorf("the thread's capture mode is %v", mode)
	}
	check(t, errors.Join(w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.StreamDestroy(ctx, other), w.DevicePrimaryCtxRelease(0)))
	if rec := finish(); len(rec.Operations) != 1 || rec.Operations[0].Untimed != "" {
		t.Errorf("operations %+v, want one with times", rec.Operations)
	}
}

// TestStreamWriteValue: a word that a stream writes, or waits for, is an operation with times.
func TestStreamWriteValue(t *testing.T) {
	w, ctx, s, finish := raw(t, bare{soft(t, "h200", 1)})
	p := must(w.MemAlloc(ctx, 16))(t)
	check(t, w.StreamWriteValue32(ctx, s, p, 1, cu.StreamWriteValueDefault))
	check(t, w.StreamWriteValue64(ctx, s, p+8, 1, cu.StreamWriteValueDefault))
	check(t, w.StreamWaitValue32(ctx, s, p, 1, cu.StreamWaitValueEQ))
	check(t, w.StreamWaitValue64(ctx, s, p+8, 1, cu.StreamWaitValueEQ))
	check(t, errors.Join(w.StreamSynchronize(ctx, s), w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.DevicePrimaryCtxRelease(0)))
	rec := finish()
	if len(rec.Operations) != 4 || rec.Operations[0].Bytes != 4 || rec.Operations[1].Bytes != 8 {
		t.Fatalf("operations %+v, want two of 4 and two of 8 bytes", rec.Operations)
	}
	for _, o := range rec.Operations[2:] {
		if o.Untimed != "" || o.Name != "[stream wait value]" || o.From != "device" {
			t.Errorf("operation %+v", o)
		}
	}
	for _, o := range rec.Operations[:2] {
		if o.Untimed != "" || o.Name != "[stream write value]" || o.To != "device" {
			t.Errorf("operation %+v", o)
		}
	}
}

// TestFailedBatch: what a batch did before a call of it failed is in the recording, and
// nothing else.
func TestFailedBatch(t *testing.T) {
	w, ctx, s, finish := raw(t, bare{soft(t, "h200", 1)})
	second, third := must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t), must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t)
	p := must(w.MemAlloc(ctx, 8192))(t)
	b := &cu.Batch{}
	b.MemsetD8Async(p, 1, 1000, s)
	b.MemsetD8Async(p+4096, 1, 100, second)
	b.MemsetD8Async(p, 1, 10, s)
	b.MemsetD8Async(12345, 1, 5000, s) // fails
	b.MemsetD8Async(p, 1, 5000, third)
	if done, err := w.Submit(ctx, b); done != 3 || err == nil {
		t.Fatal(done, err)
	}
	check(t, w.CtxSynchronize(ctx))
	check(t, errors.Join(w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.StreamDestroy(ctx, second), w.StreamDestroy(ctx, third), w.DevicePrimaryCtxRelease(0)))
	got := map[uint64]int{} // counts by bytes
	for _, o := range finish().Operations {
		if o.Untimed != "" || o.End <= o.Start {
			t.Errorf("operation %+v has no times", o)
		}
		got[o.Bytes] = o.Count
	}
	if len(got) != 2 || got[1010] != 2 || got[100] != 1 {
		t.Errorf("counts by bytes %v, want 2 calls of 1010 and one of 100", got)
	}
}

// TestContextsEnd: a context that ends drops its measurements. The driver keeps its wrapper while
// that is in use.
func TestContextsEnd(t *testing.T) {
	trace.ResetEnvironment()
	t.Cleanup(trace.ResetEnvironment)
	t.Setenv(trace.Variable, filepath.Join(t.TempDir(), "t.json"))
	d := &eventCounter{Driver: bare{soft(t, "h200", 1)}}
	var wrappers [2]cu.Driver
	for i := range wrappers {
		w := must(trace.Environment(d))(t)
		wrappers[i] = w
		check(t, w.Init(0))
		ctx := must(w.CtxCreate(0, 0))(t)
		primary := must(w.DevicePrimaryCtxRetain(0))(t)
		must(w.DevicePrimaryCtxRetain(0))(t)
		p := must(w.MemAlloc(ctx, 256))(t)
		check(t, w.MemsetD8Async(ctx, p, 1, 256, 0))
		check(t, errors.Join(w.MemFree(ctx, p), w.CtxDestroy(ctx), w.DevicePrimaryCtxRelease(0)))
		if n := w.(*trace.Driver).Contexts(); n != 1 {
			t.Errorf("%d contexts with one reference to %v left", n, primary)
		}
		check(t, w.DevicePrimaryCtxRelease(0))
		if n := w.(*trace.Driver).Contexts(); n != 0 || d.created != d.destroyed {
			t.Errorf("%d contexts after the last, %d events made and %d destroyed", n, d.created, d.destroyed)
		}
	}
	if wrappers[0] != wrappers[1] {
		t.Error("a driver has two wrappers")
	}
}

// TestPathInUse: a second recording on a path that another one writes gets a name of its
// own, and the first one stays whole.
func TestPathInUse(t *testing.T) {
	const child = "FERRY_TEST_TRACE_CHILD"
	if path := os.Getenv(child); path != "" {
		r := must(trace.Start(&trace.Options{Path: path}))(t)
		check(t, r.Close())
		return
	}
	path := filepath.Join(t.TempDir(), "t.json")
	check(t, os.WriteFile(path, bytes.Repeat([]byte("old"), 5000), 0o666))
	r := must(trace.Start(&trace.Options{Path: path}))(t)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestPathInUse$")
	cmd.Env = append(os.Environ(), child+"="+path)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "another recording is written to "+path) {
		t.Errorf("the second process: %v\n%s", err, out)
	}
	others := must(filepath.Glob(path + ".*"))(t)
	if len(others) != 1 || must(trace.ReadFile(others[0]))(t).PID == os.Getpid() {
		t.Errorf("recordings %v, want one of the second process", others)
	}
	if rec := ended(t, r, path); rec.PID != os.Getpid() || r.Path() != path {
		t.Errorf("the first recording is of process %d, %s", rec.PID, r.Path())
	}
	again := must(trace.Start(&trace.Options{Path: path}))(t) // it is free again
	if ended(t, again, path); again.Path() != path {
		t.Errorf("a later recording is in %s", again.Path())
	}
}
