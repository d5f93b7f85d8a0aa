package ferry

import (
	"context"
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

// heldDriver makes the first copy to the device wait until it is let go, as hardware does behind
// work in the stream. It hides that the driver is emulated: see crowdDriver.
type heldDriver struct {
	cu.Driver
	first         atomic.Bool
	entered, pass chan struct{}
}

func (d *heldDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if d.first.CompareAndSwap(false, true) {
		close(d.entered)
		<-d.pass
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

// TestForeignCopiesNeedNoPlace: a copy of a pageable slice that may wait in the driver for work of
// another library takes no place of the ring, for which others would wait.
func TestForeignCopiesNeedNoPlace(t *testing.T) {
	const n = stagedByDriver + 1
	for _, slices := range []int{0, 1} { // in one CopyAll; 0 is for Copy
		d := &heldDriver{Driver: try(softgpu.Open(softgpu.Options{}))(t), entered: make(chan struct{}), pass: make(chan struct{})}
		g := closeLater(t, try(OpenDriver(d, 0))(t))
		g.tuning.Ring.MaxTransfers, g.tuning.Ring.SlotWait, g.tuning.DirectIn = 1, time.Hour, 2*n
		foreign, other := closeLater(t, try(NewStream(g, nil))(t)), closeLater(t, try(NewStream(g, nil))(t))
		on := closeLater(t, try(Alloc[byte](g, 2*n))(t))
		foreign.Handle()
		all := make(chan error, 2)
		go func() { all <- copyManyTimes(foreign, on.Range(0, n), make([]byte, n), true, slices, 1) }()
		<-d.entered
		go func() { all <- copyManyTimes(other, on.Range(n, 2*n), make([]byte, n), true, slices, 1) }()
		select {
		case err := <-all:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%d slices: a copy waits for the place of one that waits for another library", slices)
		}
		close(d.pass)
		if err := <-all; err != nil {
			t.Error(err)
		}
	}
}

// TestForeignStreamCompletesNothing: the ring may not take its transfers in a stream for done
// because Ferry knows its own work to be done.
func TestForeignStreamCompletesNothing(t *testing.T) {
	g := closeLater(t, try(OpenDriver(try(softgpu.Open(softgpu.Options{}))(t), 0))(t))
	for _, taken := range []bool{false, true} {
		s := closeLater(t, try(NewStream(g, nil))(t))
		on := closeLater(t, try(Alloc[byte](g, 1<<20))(t))
		if err := errors.Join(Copy(s, on, Pageable(make([]byte, 1<<20))), s.Wait(context.Background())); err != nil {
			t.Fatal(err)
		}
		if taken {
			s.Handle()
		}
		s.state.Enter()
		job := stagingJob(s.state, stagingRing(g))
		s.state.Leave()
		if (job.Completed == 0) != taken {
			t.Errorf("handle taken %t: transfers up to %d count as done", taken, job.Completed)
		}
	}
}
