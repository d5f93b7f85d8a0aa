package ferry

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// crowdDriver counts the goroutines that are in copies between host and device at once. It
// hides that the driver is emulated, because copies on an emulated device need no place.
type crowdDriver struct {
	cu.Driver
	calls, inside, most atomic.Int64
}

func (d *crowdDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	defer d.enter()()
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *crowdDriver) MemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	defer d.enter()()
	return d.Driver.MemcpyDtoHAsync(ctx, dst, src, n, s)
}

// enter counts a goroutine until it calls leave.
func (d *crowdDriver) enter() (leave func()) {
	d.calls.Add(1)
	now := d.inside.Add(1)
	for old := d.most.Load(); now > old && !d.most.CompareAndSwap(old, now); old = d.most.Load() {
	}
	for range 20 {
		runtime.Gosched()
	}
	return func() { d.inside.Add(-1) }
}

// TestDriverCopiesNeedPlaces: the copies of small pageable slices that the driver makes are
// among the active transfers of the ring. So few goroutines are in the driver at once.
func TestDriverCopiesNeedPlaces(t *testing.T) {
	const callers, rounds, places, n = 24, 10, 2, 1000
	for i, slices := range []int{0, 1, 3, 0, 1} { // in one CopyAll; 0 is for Copy
		in := i < 3
		d := &crowdDriver{Driver: try(softgpu.Open(softgpu.Options{}))(t)}
		g := closeLater(t, try(OpenDriver(d, 0))(t))
		g.tuning.Ring.MaxTransfers, g.tuning.Ring.SlotWait = places, time.Hour // so that nobody loses a place
		device := closeLater(t, try(Alloc[byte](g, callers*3*n))(t))
		var all sync.WaitGroup
		for i := range callers {
			s, src := closeLater(t, try(NewStream(g, nil))(t)), make([]byte, 3*n)
			all.Go(func() {
				if err := copyManyTimes(s, device.Range(3*i*n, 3*(i+1)*n), src, in, slices, rounds); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most := d.most.Load(); most > places {
			t.Errorf("to the device: %v, %d slices: %d goroutines were in the driver at once, want at most %d", in, slices, most, places)
		}
		if want := int64(callers * rounds * max(1, slices)); d.calls.Load() != want {
			t.Errorf("to the device: %v, %d slices: %d copies by the driver, want %d", in, slices, d.calls.Load(), want)
		}
	}
}

// copyManyTimes copies host to device or back, in a number of slices of one CopyAll or, if it
// is 0, by Copy.
func copyManyTimes(s *Stream, device *Device[byte], host []byte, in bool, slices, rounds int) (err error) {
	var pairs []Pair[byte]
	for i, n := 0, len(host)/max(1, slices); i < slices || i == 0; i++ {
		p := Pair[byte]{device.Range(i*n, (i+1)*n), Pageable(host[i*n : (i+1)*n])}
		if !in {
			p.Dst, p.Src = p.Src, p.Dst
		}
		pairs = append(pairs, p)
	}
	for range rounds {
		if slices == 0 {
			err = errors.Join(err, Copy(s, pairs[0].Dst, pairs[0].Src))
		} else {
			err = errors.Join(err, CopyAll(s, pairs))
		}
	}
	return err
}

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
