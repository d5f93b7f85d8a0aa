package api

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestManaged: addresses, advice, prefetches to the GPU and to the host, and ReadSlice, which
// does not wait for operations that only read.
func TestManaged(t *testing.T) {
	g := openTest(t)
	m, err := ferry.AllocManaged[uint32](g, 100_000, &ferry.ManagedOptions{Attach: cu.MemAttachGlobal})
	if errors.Is(err, cu.ErrorNotSupported) {
		t.Skip(err)
	}
	check(t, err)
	if n, err := g.Attribute(cu.DeviceAttributeConcurrentManagedAccess); err != nil || n == 0 {
		t.Skip("the device has no concurrent managed access")
	}
	s := must(ferry.NewStream(g, nil))(t)
	code, fill := load(t, g, "fill")
	device := must(ferry.Alloc[uint32](g, m.Len()))(t)
	if m.Pointer() == 0 || m.Range(3, 4).Pointer() != m.Pointer()+12 || m.Size() != 400_000 {
		t.Errorf("address %#x, part at %#x, %d bytes", m.Pointer(), m.Range(3, 4).Pointer(), m.Size())
	}
	check(t, m.Advise(cu.MemAdviseSetPreferredLocation, g.CUDevice()))
	check(t, m.Advise(cu.MemAdviseUnsetPreferredLocation, cu.CPUDevice))
	check(t, m.Advise(cu.MemAdviseSetReadMostly, 0))
	check(t, m.Advise(cu.MemAdviseUnsetReadMostly, 0))
	wantError(t, m.Advise(12345, 0), cu.ErrorInvalidValue, "advise on managed buffer")
	for round := range uint32(3) {
		check(t, m.Prefetch(s, g.CUDevice()))
		check(t, s.Launch(fill, ferry.Cover(m.Len(), 256), m, 7+round, uint64(m.Len())))
		check(t, m.Range(5, 50_000).Prefetch(s, cu.CPUDevice))
		for i, got := range m.ReadSlice() {
			if got != 7+round {
				t.Fatalf("element %d is %d, want %d", i, got, 7+round)
			}
		}
	}
	open := gate(t, s)
	check(t, ferry.Copy(s, device, m))
	if m.ReadSlice() == nil { // must return although the gate is shut
		t.Error("ReadSlice is nil")
	}
	waits(t, "Wait", open, func() { check(t, m.Wait(context.Background())) })
	closeAll(t, device, code, m, m)
	wantError(t, m.Prefetch(s, g.CUDevice()), ferry.ErrClosed, "prefetch managed buffer")
	wantError(t, m.Advise(cu.MemAdviseSetReadMostly, 0), ferry.ErrClosed, "advise")
	wantError(t, (*ferry.Managed[int])(nil).Prefetch(s, g.CUDevice()), cu.ErrorInvalidValue, "nil")
	closeAll(t, s)
}

// TestPrefetch: memory can be moved to each GPU and to the host, by a stream of each GPU. Its
// bytes stay, Advice says where it is, and Slice waits for the move.
func TestPrefetch(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		m := must(ferry.AllocManaged[byte](a, 1<<20, nil))(t)
		empty := must(ferry.AllocManaged[byte](a, 0, nil))(t)
		streams := []*ferry.Stream{must(ferry.NewStream(a, nil))(t), must(ferry.NewStream(b, nil))(t)}
		want := make([]byte, m.Len())
		fillRandom(want)
		copy(m.Slice(), want)
		for _, place := range []cu.Device{a.CUDevice(), b.CUDevice(), cu.CPUDevice, b.CUDevice(), a.CUDevice()} {
			for _, s := range streams {
				open := gate(t, s)
				check(t, m.Prefetch(s, place))
				waits(t, "Slice", open, func() { wantBytes(t, m.Slice(), want) })
				if got := must(m.Advice())(t); got.LastPrefetch != place {
					t.Errorf("the last prefetch by %v was to %v, want %v", s, got.LastPrefetch, place)
				}
				check(t, empty.Prefetch(s, place))
			}
		}
		check(t, m.Prefetch(streams[0], cu.CPUDevice))
		check(t, m.Range(1<<19, 1<<20).Prefetch(streams[0], b.CUDevice()))
		check(t, streams[0].Wait(context.Background()))
		for from, place := range map[int]cu.Device{0: cu.CPUDevice, 1 << 19: b.CUDevice()} {
			if got := must(m.Range(from, from+1<<19).Advice())(t); got.LastPrefetch != place {
				t.Errorf("the last prefetch of the bytes from %d was to %v, want %v", from, got.LastPrefetch, place)
			}
		}
		for _, place := range []cu.Device{99, cu.InvalidDevice} {
			wantError(t, m.Prefetch(streams[0], place), cu.ErrorInvalidDevice, "prefetch managed buffer", "on stream 1")
		}
		_, err := streams[0].Capture(func(s *ferry.Stream) error {
			wantError(t, m.Prefetch(s, a.CUDevice()), cu.ErrorStreamCaptureUnsupported, "prefetch managed buffer")
			return nil
		})
		check(t, err)
		wantBytes(t, m.Slice(), want)
		closeAll(t, m, empty, streams[0], streams[1])
	})
}

// TestPrefetchUnsupported: the error on a device that cannot prefetch names the attribute.
func TestPrefetchUnsupported(t *testing.T) {
	g := openDriver(t, newExclusiveDriver())
	m := must(ferry.AllocManaged[byte](g, 64, nil))(t)
	wantError(t, m.Prefetch(g.DefaultStream(), g.CUDevice()), cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0", "leave it out")
	closeAll(t, m)
}

// TestManagedExclusive: without concurrent managed access Slice waits for every stream of the
// device.
func TestManagedExclusive(t *testing.T) {
	for _, concurrent := range []int32{0, 1} {
		d := newExclusiveDriver()
		d.Attributes[cu.DeviceAttributeConcurrentManagedAccess] = concurrent
		g := openDriver(t, d)
		m := must(ferry.AllocManaged[byte](g, 64, nil))(t)
		c := newCallFixture(t, g, 64)
		check(t, c.copy()) // does not use m
		m.Slice()
		if want := int(1 - concurrent); d.waits != want {
			t.Errorf("concurrent managed access %d: Slice waited for %d streams, want %d", concurrent, d.waits, want)
		}
		closeAll(t, m)
	}
}

// TestAttachExclusive: without concurrent managed access Slice waits for all streams of the
// device, for one, or for none, as the memory is attached. Another GPU value of the device
// has some of the streams.
func TestAttachExclusive(t *testing.T) {
	d := newExclusiveDriver()
	g, other := openDriver(t, d), openDriver(t, d)
	m := must(ferry.AllocManaged[byte](g, 64, nil))(t)
	here, there := newCallFixture(t, g, 64), newCallFixture(t, other, 64)
	floats := must(ferry.AllocManaged[float32](g, 16, nil))(t)
	launch := func(c *callFixture) error {
		return c.stream.Launch(c.add, ferry.Cover(16, 32), floats, floats, floats, uint64(16))
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
		check(t, g.DefaultStream().Wait(context.Background()))
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
	wantError(t, g.DefaultStream().Launch(here.add, ferry.Cover(16, 32), floats, floats, floats, uint64(16)), cu.ErrorInvalidValue, "parameter 0", "attached to stream 1")
	closeAll(t, m, floats)
}

// TestAttach: attaching loses no data on a real driver. Bad input is refused.
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
			check(t, s.Launch(k, ferry.Cover(1000, 256), m, uint64(1000)))
		}
	}
	if got := m.Slice()[999]; got != 1001 {
		t.Errorf("got %v, want 1001", got)
	}
	wantError(t, m.Attach(s, 0), cu.ErrorInvalidValue, "attach", "flags are 0x0")
	wantError(t, m.Attach(s, 3), cu.ErrorInvalidValue, "flags are 0x3")
	wantError(t, m.Range(0, 10).Attach(s, cu.MemAttachHost), cu.ErrorInvalidValue, "whole")
	wantError(t, m.Attach(g.DefaultStream(), cu.MemAttachSingle), cu.ErrorInvalidValue, "NewStream")
	closeAll(t, m, code, s)
	wantError(t, m.Attach(s, cu.MemAttachHost), ferry.ErrClosed)
}

// TestAdvice: Advice returns what Advise and Prefetch have told the driver.
func TestAdvice(t *testing.T) {
	g := openTest(t)
	m, err := ferry.AllocManaged[byte](g, 4<<20, nil)
	if errors.Is(err, cu.ErrorNotSupported) {
		t.Skip(err)
	}
	check(t, err)
	if n, err := g.Attribute(cu.DeviceAttributeConcurrentManagedAccess); err != nil || n == 0 {
		t.Skip("the device has no concurrent managed access")
	}
	s := must(ferry.NewStream(g, nil))(t)
	me := g.CUDevice()
	got := must(m.Advice())(t)
	if got.ReadMostly || got.PreferredLocation != cu.InvalidDevice || got.LastPrefetch != cu.InvalidDevice || got.AccessedBy != nil {
		t.Errorf("before Advise the advice is %+v", got)
	}
	check(t, m.Advise(cu.MemAdviseSetReadMostly, 0))
	check(t, m.Advise(cu.MemAdviseSetPreferredLocation, cu.CPUDevice))
	check(t, m.Advise(cu.MemAdviseSetAccessedBy, me))
	check(t, m.Prefetch(s, g.CUDevice()))
	check(t, m.Wait(context.Background()))
	got = must(m.Range(100, 2<<20).Advice())(t)
	if !got.ReadMostly || got.PreferredLocation != cu.CPUDevice || got.LastPrefetch != me || len(got.AccessedBy) != 1 || got.AccessedBy[0] != me {
		t.Errorf("after Advise the advice is %+v", got)
	}
	check(t, m.Range(0, 2<<20).Advise(cu.MemAdviseUnsetReadMostly, 0))
	check(t, m.Advise(cu.MemAdviseUnsetAccessedBy, me))
	check(t, m.Advise(cu.MemAdviseUnsetPreferredLocation, 0))
	got = must(m.Advice())(t)
	if got.ReadMostly || got.PreferredLocation != cu.InvalidDevice || got.AccessedBy != nil {
		t.Errorf("after the advice was unset it is %+v", got)
	}
	wantError(t, m.Advise(cu.MemAdviseSetAccessedBy, 99), cu.ErrorInvalidDevice, "advise on managed buffer", "device 99")
	closeAll(t, m)
	_, err = m.Advice()
	wantError(t, err, ferry.ErrClosed, "read advice")
	_, err = (&ferry.Managed[int]{}).Advice()
	check(t, err)
	wantError(t, (&ferry.Managed[int]{}).Attach(s, cu.MemAttachHost), cu.ErrorInvalidValue, "attach")
	closeAll(t, s)
}

// TestAdviseRefused: the error for advice that a device cannot follow names the attribute.
func TestAdviseRefused(t *testing.T) {
	d := newExclusiveDriver()
	m := must(ferry.AllocManaged[byte](openDriver(t, d), 64, nil))(t)
	wantError(t, m.Advise(cu.MemAdviseSetPreferredLocation, 0), cu.ErrorInvalidDevice, "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0")
	closeAll(t, m)
	_, err := ferry.AllocManaged[byte](openDriver(t, d), 64, &ferry.ManagedOptions{Attach: cu.MemAttachSingle})
	wantError(t, err, cu.ErrorInvalidValue, "Attach is 0x4", "Managed.Attach")
}
