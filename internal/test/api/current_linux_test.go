package api

import (
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// gettidDriver is a driver with contexts of threads, which notes where BindThread and its end run.
type gettidDriver struct {
	cu.Driver
	bound, unbound int
}

func (d *gettidDriver) Unwrap() cu.Driver { return d.Driver }

func (d *gettidDriver) BindThread(cu.Context) (func() error, error) {
	d.bound = syscall.Gettid()
	return func() error { d.unbound = syscall.Gettid(); return nil }, nil
}

func (d *gettidDriver) WithContext(_ cu.Context, f func() error) error { return f() }

// TestCurrentKeepsThread: the function of Current and External runs in the thread in which the
// context is current, although others give up their processors in system calls, and so does the end.
func TestCurrentKeepsThread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	d := &gettidDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 8 {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					pause := syscall.NsecToTimespec(100_000) // so long that the processor goes to another thread
					_ = syscall.Nanosleep(&pause, nil)
				}
			}
		})
	}
	f := func() error {
		for i := range 1000 {
			runtime.Gosched()
			if now := syscall.Gettid(); now != d.bound {
				t.Errorf("after %d turns the function runs in thread %d, and the context is current in %d", i+1, now, d.bound)
				break
			}
		}
		return nil
	}
	for what, run := range map[string]func() error{
		"Current":  func() error { return g.Current(f) },
		"External": func() error { return s.External(func(cu.Stream) error { return f() }) },
	} {
		check(t, run())
		if d.bound != d.unbound {
			t.Errorf("%s: bound in thread %d, unbound in %d", what, d.bound, d.unbound)
		}
	}
	close(stop)
	busy.Wait()
	closeAll(t, s, g)
}
