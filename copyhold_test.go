package ferry

import (
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// registering is a driver that registers memory before it queues a copy to the device.
type registering struct {
	cu.Driver
	register func() (closed chan struct{}) // nil for none
}

func (d *registering) Unwrap() cu.Driver { return d.Driver }

func (d *registering) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if d.register == nil {
		return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
	}
	closed := d.register()
	d.register = nil
	return &lateError{d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s), closed}
}

// lateError is an error that is asked what it is when the registration is closed, or cannot
// be closed yet.
type lateError struct {
	error
	closed chan struct{}
}

func (e *lateError) Unwrap() error { return e.error }

func (e *lateError) Is(error) bool {
	select {
	case <-e.closed:
	case <-time.After(20 * time.Millisecond):
	}
	return false // Unwrap tells
}

// TestCopyRegisteredMeanwhile: the first half of a pageable slice is registered while the driver is
// asked to copy it, which it refuses. Another goroutine closes the registration as soon as it
// can. The copy is repeated: it must find the registration before it can be closed.
func TestCopyRegisteredMeanwhile(t *testing.T) {
	d := &registering{Driver: try(softgpu.Open(softgpu.Options{}))(t)}
	g := try(OpenDriver(d, 0))(t)
	s := try(NewStream(g, nil))(t)
	const n = 16 << 10
	memory, device := make([]byte, n), try(Alloc[byte](g, n))(t)
	closed := make(chan struct{})
	d.register = func() chan struct{} {
		h := try(Register(g, memory[:n/2], nil))(t)
		go func() {
			defer close(closed)
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}()
		return closed
	}
	if err := Copy(s, device, Pageable(memory)); err != nil {
		t.Error(err)
	}
	if d.register != nil {
		t.Fatal("the driver was not asked for the copy")
	}
	<-closed
	for _, x := range []interface{ Close() error }{device, s, g} {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}
