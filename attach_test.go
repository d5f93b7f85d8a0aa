package ferry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

func (d *turnsDriver) StreamAttachMemAsync(cu.Context, cu.Stream, cu.DevicePtr, uintptr, cu.MemAttachFlags) error {
	return nil
}

func (d *turnsDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	d.streams++
	return d.streams, nil
}

// TestAttachTurns: where host and device take turns, the host waits for all
// streams, those of another GPU value of the device among them, for one, or for
// none, as the memory is attached.
func TestAttachTurns(t *testing.T) {
	d := &turnsDriver{fakeDriver: newFake()}
	d.attributes[cu.DeviceAttributeManagedMemory] = 1
	g, other := openFake(t, d), openFake(t, d)
	m := must(ferry.AllocManaged[byte](g, 64, nil))(t)
	here, there := newCost(t, g, 64), newCost(t, other, 64)
	floats := must(ferry.AllocManaged[float32](g, 16, nil))(t)
	launch := func(c *cost) error {
		return c.stream.Launch(c.add, ferry.Grid(16, 32), floats, floats, floats, uint64(16))
	}
	slice := func(what string, want int) {
		t.Helper()
		check(t, here.copy())
		check(t, there.copy())
		d.waits = 0
		m.Slice()
		if d.waits != want {
			t.Errorf("%s: Slice waited for %d streams, want %d", what, d.waits, want)
		}
		check(t, ferry.DefaultStream(g).Wait(context.Background()))
	}
	slice("at first", 2)
	check(t, m.Attach(here.stream, cu.MemAttachHost))
	m.Slice()
	slice("attached to the host", 0)
	check(t, m.Attach(here.stream, cu.MemAttachSingle))
	slice("attached to a stream", 1)
	check(t, m.Attach(here.stream, cu.MemAttachGlobal))
	m.Slice()
	slice("attached to all", 2)

	check(t, launch(here))
	check(t, floats.Attach(here.stream, cu.MemAttachHost))
	wantError(t, launch(here), cu.ErrorInvalidValue, "attached to the host", "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0")
	check(t, floats.Attach(here.stream, cu.MemAttachSingle))
	check(t, launch(here))
	wantError(t, ferry.DefaultStream(g).Launch(here.add, ferry.Grid(16, 32), floats, floats, floats, uint64(16)), cu.ErrorInvalidValue, "parameter 0", "attached to stream 1")
	closeAll(t, m, floats)
}

// TestAttach is what is refused, and that nothing is lost, on a real driver.
func TestAttach(t *testing.T) {
	g := openTest(t)
	m, err := ferry.AllocManaged[float32](g, 1000, &ferry.ManagedOptions{Attach: cu.MemAttachHost})
	if errors.Is(err, cu.ErrorNotSupported) {
		t.Skip(err)
	}
	check(t, err)
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	for i := range m.Slice() {
		m.Slice()[i] = float32(i)
	}
	for _, flags := range []cu.MemAttachFlags{cu.MemAttachSingle, cu.MemAttachHost, cu.MemAttachGlobal} {
		check(t, m.Attach(s, flags))
		if flags != cu.MemAttachHost {
			check(t, s.Launch(k, ferry.Grid(1000, 256), m, uint64(1000)))
		}
	}
	if got := m.Slice()[999]; got != 1001 {
		t.Errorf("got %v, want 1001", got)
	}
	wantError(t, m.Attach(s, 0), cu.ErrorInvalidValue, "attach", "flags are 0x0")
	wantError(t, m.Attach(s, 3), cu.ErrorInvalidValue, "flags are 0x3")
	wantError(t, m.Range(0, 10).Attach(s, cu.MemAttachHost), cu.ErrorInvalidValue, "whole")
	wantError(t, m.Attach(ferry.DefaultStream(g), cu.MemAttachSingle), cu.ErrorInvalidValue, "NewStream")
	closeAll(t, m, code, s)
	wantError(t, m.Attach(s, cu.MemAttachHost), ferry.ErrClosed)
}

// TestHostFlags reads how memory is page-locked.
func TestHostFlags(t *testing.T) {
	g := openTest(t)
	for _, o := range []*ferry.HostOptions{nil, {Mapped: true}, {WriteCombined: true}, {Mapped: true, WriteCombined: true, NotPortable: true}} {
		h := must(ferry.AllocHost[byte](g, 5000, o))(t)
		for _, part := range []*ferry.Host[byte]{h, h.Range(4097, 5000)} {
			flags := must(part.Flags())(t)
			if want := o != nil && o.WriteCombined; flags&cu.MemHostAllocWriteCombined != 0 != want {
				t.Errorf("%+v: flags %#x", o, flags)
			}
			if o != nil && o.Mapped && flags&cu.MemHostAllocDeviceMap == 0 {
				t.Errorf("%+v: flags %#x", o, flags)
			}
		}
		closeAll(t, h)
		_, err := h.Flags()
		wantError(t, err, ferry.ErrClosed, "read flags")
	}
	empty := must(ferry.AllocHost[byte](g, 0, nil))(t)
	if flags := must(empty.Flags())(t); flags != 0 {
		t.Errorf("flags of nothing are %#x", flags)
	}
	closeAll(t, empty)
}
