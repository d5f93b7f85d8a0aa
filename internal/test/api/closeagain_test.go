package api

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestCloseAgainAfterRefusedFree: the driver returns an error of the call that frees a buffer. If it
// did not free, the buffer stays, and another Close frees it. If it did, another Close does nothing.
func TestCloseAgainAfterRefusedFree(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	for _, c := range []struct {
		name, call string
		make       func(t *testing.T, g *ferry.GPU) io.Closer
	}{
		{"device", "cuMemFree", func(t *testing.T, g *ferry.GPU) io.Closer { return must(ferry.Alloc[byte](g, 1<<20))(t) }},
		{"managed", "cuMemFree", func(t *testing.T, g *ferry.GPU) io.Closer {
			return must(ferry.AllocManaged[byte](g, 1<<20, nil))(t)
		}},
		{"page-locked", "cuMemFreeHost", func(t *testing.T, g *ferry.GPU) io.Closer {
			return must(ferry.AllocHost[byte](g, 4096, nil))(t)
		}},
		{"page-locked by Ferry", "cuMemHostUnregister", func(t *testing.T, g *ferry.GPU) io.Closer {
			return must(ferry.AllocHost[byte](g, 64<<20, nil))(t)
		}},
		{"registered", "cuMemHostUnregister", func(t *testing.T, g *ferry.GPU) io.Closer {
			return must(ferry.Register(g, make([]byte, 1<<20), nil))(t)
		}},
		{"pool", "cuMemHostUnregister", func(t *testing.T, g *ferry.GPU) io.Closer {
			p := must(ferry.NewPinnedPool(g, nil))(t)
			check(t, p.Warm(context.Background(), 1<<20))
			return p
		}},
	} {
		for _, mode := range []fault.Mode{fault.Refused, fault.Done} {
			t.Run(c.name+"/"+mode.String(), func(t *testing.T) {
				d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{Call: c.call, Nth: 1, Mode: mode, Code: cu.ErrorUnknown})
				g := must(ferry.OpenDriver(d, 0))(t)
				before := d.Live()
				x := c.make(t, g)
				err := x.Close()
				wantError(t, err, cu.ErrorUnknown, "close")
				if mode == fault.Refused && c.name != "pool" {
					wantError(t, err, cu.ErrorUnknown, "buffer 1", "closed again")
				}
				if stays := !slices.Equal(d.Live(), before); stays != (mode == fault.Refused) {
					t.Errorf("after the first Close: memory stays: %t; live %v", stays, d.Live())
				}
				closeAll(t, x)
				if live := d.Live(); !slices.Equal(live, before) {
					t.Errorf("after the second Close %v are live, want %v", live, before)
				}
				closeAll(t, x, g)
				if live := d.Live(); len(live) > 0 {
					t.Errorf("left %v", live)
				}
			})
		}
	}
}

// TestTrimAgainAfterRefusedFree: memory of a pool that the driver did not free stays with the pool,
// which uses it again, and another Trim frees it.
func TestTrimAgainAfterRefusedFree(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{Call: "cuMemHostUnregister", Nth: 1, Code: cu.ErrorUnknown})
	g := must(ferry.OpenDriver(d, 0))(t)
	before := d.Live()
	p := must(ferry.NewPinnedPool(g, nil))(t)
	check(t, p.Warm(context.Background(), 1<<20))
	live := d.Live()
	wantError(t, p.Trim(0), cu.ErrorUnknown)
	h := must(fromPool[byte](p, 1<<20))(t)
	h.Slice()[1<<20-1] = 1
	if got := d.Live(); !slices.Equal(got, live) {
		t.Errorf("a buffer of the size of the memory that stays: live %v, before %v", got, live)
	}
	closeAll(t, h)
	check(t, p.Trim(0))
	if got := d.Live(); !slices.Equal(got, before) {
		t.Errorf("after the second Trim %v are live, want %v", got, before)
	}
	closeAll(t, p, g)
}

// TestRefusedUnregisterStaysKnown: memory whose registration the driver did not end can be registered
// again by another buffer, which then owns the registration.
func TestRefusedUnregisterStaysKnown(t *testing.T) {
	d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{Call: "cuMemHostUnregister", Nth: 1, Code: cu.ErrorUnknown})
	g := must(ferry.OpenDriver(d, 0))(t)
	memory := make([]byte, 1<<20)
	first := must(ferry.Register(g, memory, nil))(t)
	wantError(t, first.Close(), cu.ErrorUnknown, "closed again")
	second := must(ferry.Register(g, memory[4096:8192], nil))(t)
	closeAll(t, first, second, first, g)
	if live := d.Live(); len(live) > 0 {
		t.Errorf("left %v", live)
	}
}

// TestClosePoolAgainAfterBuffer: the driver does not free the memory of a closed pool when the last
// buffer is closed, also by a host function. Another Close of the pool frees it.
func TestClosePoolAgainAfterBuffer(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	for _, in := range []string{"", "a host function"} {
		t.Run(in, func(t *testing.T) {
			soft := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{})
			d := newHookDriver(soft)
			g := must(ferry.OpenDriver(d, 0))(t)
			s := must(ferry.NewStream(g, nil))(t)
			p := must(ferry.NewPinnedPool(g, nil))(t)
			h := must(fromPool[byte](p, 4096))(t)
			check(t, p.Close())
			calls := d.count("MemHostUnregister")
			if in == "" {
				d.during("MemHostUnregister", func() error { return cu.ErrorUnknown })
				wantError(t, h.Close(), cu.ErrorUnknown)
			} else {
				next := []error{cu.ErrorNotPermitted, cu.ErrorNotPermitted, cu.ErrorUnknown} // the third on another goroutine
				var refuse func() error
				refuse = func() error {
					err := next[0]
					if next = next[1:]; len(next) > 0 {
						d.during("MemHostUnregister", refuse)
					}
					return err
				}
				d.during("MemHostUnregister", refuse)
				check(t, h.Close())
				eventually(t, "the third call", func() bool { return d.count("MemHostUnregister") == calls+3 })
			}
			closeAll(t, h)
			eventually(t, "Close of the pool frees the memory", func() bool {
				closeAll(t, p)
				stats := must(p.Stats())(t)
				return stats.Pinned == 0
			})
			closeAll(t, s, g)
			d.wantReleased(t, "after all")
			if live := soft.Live(); len(live) > 0 {
				t.Errorf("left %v", live)
			}
		})
	}
}

// TestFailedRegisterUndone: the driver refuses a part of a registration, or its address, and then to
// unregister the rest. The program has no buffer to close, so Close of the GPU unregisters the rest.
func TestFailedRegisterUndone(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported)
	for _, c := range []struct {
		name, call string
		nth        uint64
	}{
		{"the second part", "cuMemHostRegister", 3},
		{"the address", "cuMemHostGetDevicePointer", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			soft := softDriver(t, "h200", 1, softgpu.Eager)
			var inner cu.Driver = soft
			if c.name == "the address" {
				inner = withoutHostPointers{soft}
			}
			d := fault.Wrap(inner, fault.Options{Call: c.call, Nth: c.nth, Code: cu.ErrorUnknown, More: []fault.Failure{
				{Call: "cuMemHostUnregister", Nth: 1, Code: cu.ErrorInvalidHandle}, {Call: "cuMemHostUnregister", Nth: 2, Code: cu.ErrorInvalidHandle}}})
			g := must(ferry.OpenDriver(d, 0))(t)
			memory := make([]byte, 1<<20)
			shared := new(ferry.Host[byte])
			if c.nth == 3 { // the first part is before this, the second after it
				shared = must(ferry.Register(g, memory[1<<19:1<<19+4096], nil))(t)
			}
			before := d.Live()
			_, err := ferry.Register(g, memory, &ferry.RegisterOptions{Mapped: true})
			wantError(t, err, cu.ErrorUnknown, "stays page-locked until the GPU is closed")
			if live := d.Live(); len(live) != len(before)+1 {
				t.Fatalf("live are %v, before %v: the test is void", live, before)
			}
			wantError(t, g.Close(), cu.ErrorInvalidHandle)
			closeAll(t, g)
			if live := d.Live(); c.nth == 3 && !slices.Equal(live, before) {
				t.Errorf("after the second Close of the GPU %v are live, want %v", live, before)
			}
			closeAll(t, shared)
			if live := d.Live(); len(live) > 0 {
				t.Errorf("left %v", live)
			}
			closeAll(t, g)
		})
	}
}

// TestFailedLinkUndone: the driver does not destroy the state of a link. A link must end before its
// context, so Close of the GPU destroys it.
func TestFailedLinkUndone(t *testing.T) {
	for _, fails := range []bool{false, true} { // the link itself
		for _, mode := range []fault.Mode{fault.Refused, fault.Done} {
			d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{Call: "cuLinkDestroy", Nth: 1, Mode: mode, Code: cu.ErrorUnknown})
			g := must(ferry.OpenDriver(d, 0))(t)
			before := d.Live()
			inputs := linkInputs(loadMain, loadTwice)
			if fails {
				inputs = linkInputs(loadMain)
			}
			_, err := ferry.Link(g, inputs, nil)
			wantError(t, err, cu.ErrorUnknown)
			if live := d.Live(); len(live) > len(before)+1 || mode == fault.Refused && len(live) == len(before) {
				t.Fatalf("fails %t, %v: live are %v, before %v", fails, mode, live, before)
			}
			check(t, g.Close())
			if live := d.Live(); len(live) > 0 {
				t.Errorf("fails %t, %v: left %v", fails, mode, live)
			}
		}
	}
}

// withoutHostPointers is a driver whose registered memory has other addresses in kernels.
type withoutHostPointers struct{ cu.Driver }

func (d withoutHostPointers) DeviceGetAttribute(a cu.DeviceAttribute, dev cu.Device) (int32, error) {
	if a == cu.DeviceAttributeCanUseHostPointerForRegisteredMem {
		return 0, nil
	}
	return d.Driver.DeviceGetAttribute(a, dev)
}

func (d withoutHostPointers) Unwrap() cu.Driver { return d.Driver }
