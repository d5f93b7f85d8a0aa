package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// gate holds a stream back until it is opened.
func gate(t *testing.T, s *ferry.Stream) (open func()) {
	t.Helper()
	c := make(chan struct{})
	check(t, s.HostFunc(func() { <-c }))
	return func() { close(c) }
}

// soon is long enough to see that something does not happen; late is too long for
// something that does.
const (
	soon = 30 * time.Millisecond
	late = 30 * time.Second
)

// waits checks that f returns after, and only after, open.
func waits(t *testing.T, what string, open func(), f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
		t.Errorf("%s did not wait", what)
	case <-time.After(soon):
	}
	open()
	select {
	case <-done:
	case <-time.After(late):
		t.Fatalf("%s did not return", what)
	}
}

// TestSliceWaits: the host gets memory when the hardware is done with it.
func TestSliceWaits(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, s, host, device)
	want := make([]byte, 4096)
	random(want)
	check(t, ferry.Copy(s, device, ferry.Pageable(want)))
	check(t, s.Wait(context.Background()))

	open := gate(t, s)
	check(t, ferry.Copy(s, host.Range(100, 4096), device.Range(100, 4096)))
	waits(t, "Slice", open, func() {
		if got := host.Slice(); !bytes.Equal(got[100:], want[100:]) {
			t.Error("Slice shows old bytes")
		}
	})

	open = gate(t, s)
	check(t, ferry.Copy(s, device, host)) // reads host
	if host.ReadSlice() == nil {          // must return although the gate is shut
		t.Error("ReadSlice is nil")
	}
	waits(t, "Slice of a buffer that is read", open, func() { host.Range(0, 1).Slice() })
}

// TestManagedSliceWaits is TestSliceWaits for managed memory and a kernel.
func TestManagedSliceWaits(t *testing.T) {
	g := openTest(t)
	m, err := ferry.AllocManaged[float32](g, 1000, nil)
	if errors.Is(err, cu.ErrorNotSupported) {
		t.Skip(err)
	}
	check(t, err)
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	defer closeAll(t, m, s, code)
	for i := range m.Slice() {
		m.Slice()[i] = float32(i)
	}
	open := gate(t, s)
	check(t, s.Launch(k, ferry.Grid(1000, 256), m, uint64(1000)))
	waits(t, "Managed.Slice", open, func() {
		for i, got := range m.Slice() {
			if got != float32(i+1) {
				t.Errorf("element %d is %v, want %v", i, got, i+1)
				return
			}
		}
	})
}

// TestCloseWaits: memory is not freed under the hardware.
func TestCloseWaits(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for _, k := range kindsOf(g) {
		if k.name == "plain" {
			continue
		}
		m := must(k.make(g, 4096))(t)
		sink := must(ferry.Alloc[byte](g, 4096))(t)
		open := gate(t, s)
		check(t, ferry.Copy(s, ferry.Memory[byte](sink), m.Memory))
		waits(t, "Close of "+k.name, open, func() { check(t, m.close()) })
		check(t, m.close())
		closeAll(t, sink)
	}
	closeAll(t, s)
}

// TestCloseInFlightLazy closes everything while the lazy schedule has done
// nothing yet: the data arrives all the same.
func TestCloseInFlightLazy(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Lazy)
	host, out := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.AllocHost[byte](g, 4096, nil))(t)
	device := must(ferry.Alloc[byte](g, 4096))(t)
	s := must(ferry.NewStream(g, nil))(t)
	raw := out.Slice()
	random(host.Slice())
	want := bytes.Clone(host.Slice())
	check(t, ferry.Copy(s, device, host))
	check(t, ferry.Copy(s, out, device))
	if !raceEnabled && bytes.Equal(raw, want) { // a race that the detector would tell of
		t.Fatal("the lazy schedule is not lazy: this test shows nothing")
	}
	closeAll(t, s, device, host)
	if !bytes.Equal(out.Slice(), want) {
		t.Error("the bytes differ")
	}
	closeAll(t, out)
}

// TestStreamCloseBusy: closing a busy stream returns at once, and buffers still
// know what is in flight.
func TestStreamCloseBusy(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device)
	check(t, ferry.Fill(s, device, byte(42)))
	open := gate(t, s)
	check(t, ferry.Copy(s, host, device))
	closeAll(t, s, s)
	wantError(t, ferry.Copy(s, host, device), ferry.ErrClosed, "stream 1")
	waits(t, "Slice", open, func() {
		if got := host.Slice(); !bytes.Equal(got, bytes.Repeat([]byte{42}, 4096)) {
			t.Error("Slice shows old bytes")
		}
	})
	check(t, s.Wait(context.Background()))
}

// TestEventPasses: after an event the buffers it covers are known to be ready,
// whatever the stream does now.
func TestEventPasses(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device, e, s)
	check(t, ferry.Copy(s, host, device))
	check(t, s.Record(e))
	check(t, e.Wait(context.Background()))
	open := gate(t, s)
	if host.Slice() == nil { // must return although the gate is shut
		t.Error("Slice is nil")
	}
	open()
}

// lateRecord is a driver in which the first EventRecord takes until it is let go.
type lateRecord struct {
	cu.Driver
	begun    atomic.Bool
	in, free chan struct{}
}

func (d *lateRecord) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	if !d.begun.Swap(true) {
		close(d.in)
		<-d.free
	}
	return d.Driver.EventRecord(ctx, e, s)
}

// TestEventNotAlone: of two Records at once the driver may do the first last, so that
// the event being done says nothing of the second's stream.
func TestEventNotAlone(t *testing.T) {
	d := &lateRecord{Driver: softDriver(t, "h200", 1, softgpu.Eager), in: make(chan struct{}), free: make(chan struct{})}
	g := must(ferry.OpenDriver(d, 0))(t)
	a, b := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device, e, a, b, g)
	first := make(chan error, 1)
	go func() { first <- a.Record(e) }()
	<-d.in
	open := gate(t, b)
	check(t, ferry.Copy(b, host, device))
	check(t, b.Record(e))
	close(d.free)
	check(t, <-first)
	check(t, e.Wait(context.Background()))
	waits(t, "Slice", open, func() { host.Slice() })
}

// TestWaitEvent orders two streams.
func TestWaitEvent(t *testing.T) {
	g := openTest(t)
	a, b := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	e := must(ferry.NewEvent(g, &ferry.EventOptions{NoTiming: true}))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device, e, a, b)
	check(t, ferry.Fill(a, device, byte(1)))
	open := gate(t, a)
	check(t, ferry.Fill(a, device, byte(2)))
	check(t, a.Record(e))
	check(t, b.WaitEvent(e))
	check(t, ferry.Copy(b, host, device))
	if done := must(e.Done())(t); done {
		t.Error("the event is done before what it stands for")
	}
	if done := must(b.Done())(t); done {
		t.Error("the stream is done before the event it waits for")
	}
	open()
	if got := host.Slice()[17]; got != 2 {
		t.Errorf("got %d, want 2: the stream did not wait", got)
	}
	check(t, a.Wait(context.Background()))
	if done := must(e.Done())(t); !done {
		t.Error("the event is not done after its stream")
	}
}

// TestFreeInHostFunc: Close within a host function is put off, not lost; other
// calls are refused.
func TestFreeInHostFunc(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 256<<20))(t)
	keep := must(ferry.Alloc[byte](g, 4096))(t)
	before, _, err := g.MemInfo()
	check(t, err)
	var closeErr, closedErr, copyErr, waitErr error
	var sliceErr error
	check(t, ferry.Copy(s, host, device.Range(0, 4096)))
	check(t, s.HostFunc(func() {
		closeErr = device.Close()
		closedErr = ferry.Copy(s, keep, device.Range(0, 4096))
		copyErr = ferry.Copy(s, keep, host)
		_, sliceErr = host.SliceContext(context.Background())
		ctx, cancel := context.WithTimeout(context.Background(), late)
		defer cancel()
		waitErr = errors.Join(s.Wait(ctx), g.Wait(ctx))
	}))
	check(t, s.Wait(context.Background()))
	check(t, closeErr)
	wantError(t, closedErr, ferry.ErrClosed, "device buffer")
	wantError(t, copyErr, cu.ErrorNotPermitted, "copy 4.0 KiB")
	wantError(t, waitErr, cu.ErrorNotPermitted)
	if errors.Is(waitErr, context.DeadlineExceeded) {
		t.Error("a wait within a host function was not refused: it hung")
	}
	wantError(t, sliceErr, cu.ErrorNotPermitted, "host access")
	after, _, err := g.MemInfo()
	check(t, err)
	if after-before < 128<<20 {
		t.Errorf("%d bytes are free, %d were before a buffer of %d was closed", after, before, 256<<20)
	}
	closeAll(t, keep, host, s)
}

// TestClosedBuffer: use after Close is an error that says which buffer.
func TestClosedBuffer(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	device, host := must(ferry.Alloc[float32](g, 100))(t), must(ferry.AllocHost[float32](g, 100, nil))(t)
	part := device.Range(10, 20)
	defer closeAll(t, s, code, host)
	check(t, part.Close()) // nothing: it is a range
	check(t, ferry.Fill(s, part, float32(1)))
	closeAll(t, device, device)
	for _, err := range []error{
		ferry.Copy(s, device, host),
		ferry.Copy(s, host, device),
		ferry.Copy(s, host.Range(10, 20), part),
		ferry.Fill(s, part, 0),
		s.Launch(k, ferry.Grid(10, 10), part, uint64(10)),
		part.Wait(context.Background()),
	} {
		wantError(t, err, ferry.ErrClosed, "device buffer", "100 float32")
	}
	closeAll(t, host)
	for _, slice := range []func() []float32{host.Slice, host.ReadSlice} {
		wantError(t, sliceError(slice), ferry.ErrClosed, "host access", "page-locked buffer", "100 float32")
	}
	_, err := host.SliceContext(nil)
	wantError(t, err, ferry.ErrClosed, "page-locked buffer")
	_, err = host.ReadSliceContext(context.Background())
	wantError(t, err, ferry.ErrClosed, "page-locked buffer")
	wantError(t, host.Wait(context.Background()), ferry.ErrClosed, "page-locked buffer")
	check(t, (*ferry.Host[int])(nil).Close())
	check(t, (*ferry.Device[int])(nil).Close())
	check(t, (*ferry.Managed[int])(nil).Close())
	check(t, (*ferry.Stream)(nil).Close())
	check(t, (*ferry.Event)(nil).Close())
	check(t, (*ferry.Module)(nil).Close())
}

// TestPlainOfBuffer: a slice of page-locked memory that comes back as a plain one
// is in flight all the same, and of one that is half inside that half is.
func TestPlainOfBuffer(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 10000)
	kinds := map[string]*ferry.Host[byte]{"page-locked": must(ferry.AllocHost[byte](g, 4096, nil))(t)}
	if n, err := g.Attribute(cu.DeviceAttributeHostRegisterSupported); err == nil && n != 0 {
		kinds["registered"] = must(ferry.Register(g, memory[2000:8000], nil))(t)
	}
	device := must(ferry.Alloc[byte](g, 4096))(t)
	for name, host := range kinds {
		part := host.Slice()[96:4096]
		random(part)
		want := bytes.Clone(part)
		open := gate(t, s)
		check(t, ferry.Copy(s, device.Range(0, 4000), ferry.Pageable(part)))
		waits(t, "Slice of "+name+" memory copied as plain", open, func() { host.Slice() })
		clear(part)
		check(t, ferry.Copy(s, ferry.Pageable(part), device.Range(0, 4000)))
		if host.Slice(); !bytes.Equal(part, want) {
			t.Errorf("%s: the bytes differ", name)
		}
	}
	if kinds["registered"] != nil {
		for _, across := range [][]byte{memory[1999:2001], memory[7999:8001], memory[1000:5000]} {
			random(across)
			want, got := bytes.Clone(across), make([]byte, len(across))
			open := gate(t, s)
			waits(t, "the plain part of a copy across an edge", open, func() {
				check(t, ferry.Copy(s, device.Range(0, len(across)), ferry.Pageable(across)))
				kinds["registered"].Slice()
			})
			clear(across)
			check(t, ferry.Copy(s, ferry.Pageable(got), device.Range(0, len(across))))
			check(t, ferry.Copy(s, ferry.Pageable(across), device.Range(0, len(across))))
			kinds["registered"].Slice()
			if !bytes.Equal(got, want) || !bytes.Equal(across, want) {
				t.Errorf("%d bytes across an edge: the bytes differ", len(across))
			}
		}
		check(t, ferry.Copy(s, device.Range(0, 2000), ferry.Pageable(memory[:2000])))
		check(t, ferry.Copy(s, device.Range(0, 2000), ferry.Pageable(memory[8000:])))
		closeAll(t, kinds["registered"])
		check(t, ferry.Copy(s, device.Range(0, 4000), ferry.Pageable(memory[1000:5000])))
	}
	closeAll(t, kinds["page-locked"], device, s)
}

// turnsDriver has managed memory that host and device must take turns at, and
// counts waits.
type turnsDriver struct {
	*fakeDriver
	waits   int
	streams cu.Stream
}

func (d *turnsDriver) MemAllocManaged(cu.Context, uintptr, cu.MemAttachFlags) (cu.DevicePtr, error) {
	p, err := d.MemHostAlloc(1, 64, 0)
	return fakeAddress(p), err
}

func (d *turnsDriver) StreamSynchronize(cu.Context, cu.Stream) error {
	d.waits++
	return nil
}

// TestManagedTurns: without concurrent managed access the host waits for every
// stream of the device.
func TestManagedTurns(t *testing.T) {
	for _, concurrent := range []int32{0, 1} {
		d := &turnsDriver{fakeDriver: newFake()}
		d.attributes[cu.DeviceAttributeManagedMemory] = 1
		d.attributes[cu.DeviceAttributeConcurrentManagedAccess] = concurrent
		g := openFake(t, d)
		m := must(ferry.AllocManaged[byte](g, 64, nil))(t)
		c := newCost(t, g, 64)
		check(t, c.copy()) // has nothing to do with m
		m.Slice()
		if want := int(1 - concurrent); d.waits != want {
			t.Errorf("concurrent managed access %d: Slice waited for %d streams, want %d", concurrent, d.waits, want)
		}
		closeAll(t, m)
	}
}
