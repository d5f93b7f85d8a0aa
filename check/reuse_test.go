package check_test

import (
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
)

// reusing is a driver that gives the handle of a destroyed stream and event to another
// goroutine before their destruction has returned, as hardware can. It has no device.
type reusing struct {
	cu.Driver
	meanwhile func()
}

func (d *reusing) MemAlloc(cu.Context, uintptr) (cu.DevicePtr, error) { return 1 << 20, nil }
func (d *reusing) MemsetD8Async(cu.Context, cu.DevicePtr, uint8, uintptr, cu.Stream) error {
	return nil
}
func (d *reusing) StreamCreate(_ cu.Context, f cu.StreamFlags) (cu.Stream, error) {
	return cu.Stream(100 + f), nil
}
func (d *reusing) StreamDestroy(cu.Context, cu.Stream) error     { d.meanwhile(); return nil }
func (d *reusing) StreamSynchronize(cu.Context, cu.Stream) error { return nil }
func (d *reusing) StreamWaitEvent(cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error {
	return nil
}
func (d *reusing) EventCreate(cu.Context, cu.EventFlags) (cu.Event, error) { return 7, nil }
func (d *reusing) EventRecord(cu.Context, cu.Event, cu.Stream) error       { return nil }
func (d *reusing) EventDestroy(cu.Context, cu.Event) error                 { d.meanwhile(); return nil }

// TestReusedHandles: a stream and an event whose handles were those of others until a moment
// ago keep what is known of them.
func TestReusedHandles(t *testing.T) {
	inner := &reusing{}
	d := check.Wrap(inner, check.Options{})
	p, err := d.MemAlloc(1, 4096)
	ok(err)
	const nonBlocking, other = cu.StreamNonBlocking, cu.StreamNonBlocking + 2
	a, err := d.StreamCreate(1, nonBlocking)
	ok(err)
	b, err := d.StreamCreate(1, other)
	ok(err)
	inner.meanwhile = func() {
		again, err := d.StreamCreate(1, nonBlocking)
		ok(err)
		ok(d.MemsetD8Async(1, p, 0, 4096, again))
	}
	ok(d.StreamDestroy(1, a))
	ok(d.StreamSynchronize(1, a)) // the new stream
	ok(d.MemsetD8Async(1, p, 1, 4096, b))

	e, err := d.EventCreate(1, 0)
	ok(err)
	inner.meanwhile = func() {
		again, err := d.EventCreate(1, 0)
		ok(err)
		ok(d.EventRecord(1, again, b))
	}
	ok(d.EventDestroy(1, e))
	ok(d.StreamWaitEvent(1, a, e, 0)) // the new event
	ok(d.MemsetD8Async(1, p, 2, 4096, a))
	for _, f := range d.Findings() {
		t.Errorf("found %v", &f)
	}
}
