package ferry_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// unsteadyDriver returns an error from the next calls that wait for or ask about a stream. The
// context is not lost.
type unsteadyDriver struct {
	cu.Driver
	failing  atomic.Int64 // calls
	released atomic.Int64
}

var errUnsteady = cu.ErrorOperatingSystem

func (d *unsteadyDriver) Unwrap() cu.Driver { return d.Driver }

func (d *unsteadyDriver) fails() bool { return d.failing.Add(-1) >= 0 }

func (d *unsteadyDriver) StreamSynchronize(ctx cu.Context, s cu.Stream) error {
	if d.fails() {
		return errUnsteady
	}
	return d.Driver.StreamSynchronize(ctx, s)
}

func (d *unsteadyDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if d.fails() {
		return errUnsteady
	}
	return d.Driver.StreamQuery(ctx, s)
}

func (d *unsteadyDriver) EventQuery(ctx cu.Context, e cu.Event) error {
	if d.fails() {
		return errUnsteady
	}
	return d.Driver.EventQuery(ctx, e)
}

func (d *unsteadyDriver) DevicePrimaryCtxRelease(dev cu.Device) error {
	d.released.Add(1)
	return d.Driver.DevicePrimaryCtxRelease(dev)
}

// closable is what a test closes while it is in flight.
type closable interface{ Close() error }

// TestCloseAgain: after one error of the driver, Close of a buffer, a module or a pool that is in
// flight waits again. After many, it returns the error and frees nothing, and another Close
// frees everything, so that the context is released.
func TestCloseAgain(t *testing.T) {
	for what, make := range map[string]func(*testing.T, *ferry.GPU) (x closable, use func(*ferry.Stream) error){
		"Device": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			d := must(ferry.Alloc[byte](g, 1000))(t)
			return d, func(s *ferry.Stream) error { return ferry.Fill(s, d, 1) }
		},
		"Host": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			h := must(ferry.AllocHost[byte](g, 1<<20, &ferry.HostOptions{Mapped: true}))(t)
			return h, func(s *ferry.Stream) error { return ferry.Fill(s, h, 1) }
		},
		"Module": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			m := must(ferry.Load(g, []byte(waitPTX), nil))(t)
			k := must(m.Kernel("nothing"))(t)
			return m, func(s *ferry.Stream) error { return s.Launch(k, ferry.Grid(1, 1)) }
		},
		"variable": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			m := must(ferry.Load(g, []byte(waitPTX), nil))(t)
			v := must(ferry.Global[uint32](m, "v"))(t)
			return m, func(s *ferry.Stream) error { return ferry.Fill(s, v, 1) }
		},
		"PinnedPool": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			p := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Mapped: true}))(t)
			h := must(ferry.AllocHost[byte](g, 1000, &ferry.HostOptions{Pool: p}))(t)
			return p, func(s *ferry.Stream) error { return errors.Join(ferry.Fill(s, h, 1), h.Close()) }
		},
	} {
		for _, n := range []int64{1, 1000} {
			d := &unsteadyDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
			g := must(ferry.OpenDriver(d, 0))(t)
			s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			x, use := make(t, g)
			open := gate(t, s)
			check(t, use(s))
			d.failing.Store(n)
			if n == 1 {
				waits(t, "Close of "+what, open, func() { check(t, x.Close()) })
			} else {
				if err := x.Close(); !errors.Is(err, errUnsteady) {
					t.Errorf("Close of %s: %v, want the error of the driver", what, err)
				}
				d.failing.Store(0)
				waits(t, "second Close of "+what, open, func() { check(t, x.Close()) })
			}
			check(t, x.Close())
			if err := s.Wait(context.Background()); err != nil && !errors.Is(err, errUnsteady) {
				t.Error(err)
			}
			closeAll(t, s)
			if err := g.Close(); err != nil && !errors.Is(err, errUnsteady) {
				t.Error(err)
			}
			if d.released.Load() != 1 {
				t.Errorf("the context was not released after Close of %s", what)
			}
		}
	}
}

const waitPTX = `.version 7.0
.target sm_75
.address_size 64
.visible .global .u32 v;
.visible .entry nothing() { ret; }
`
