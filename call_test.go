package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// heldDriver holds calls that queue an operation until they are let go, and notes
// what was given up and waited for.
type heldDriver struct {
	*fakeDriver
	mu      sync.Mutex
	next    *heldCall // what holds the next call
	streams cu.Stream
	log     []any // cu.DevicePtr freed; cu.Stream destroyed; cu.Module unloaded; waited
}

type heldCall struct{ entered, leave chan struct{} }

// waited is a stream that was waited for.
type waited cu.Stream

func newHeld() *heldDriver {
	return &heldDriver{fakeDriver: newFake(), streams: 0x100}
}

func (d *heldDriver) hold() error {
	d.mu.Lock()
	h := d.next
	d.next = nil
	d.mu.Unlock()
	if h != nil {
		close(h.entered)
		<-h.leave
	}
	return nil
}

func (d *heldDriver) note(x any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, x)
	return nil
}

// noted says whether something happened, and forgets all.
func (d *heldDriver) noted(x any) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.log
	d.log = nil
	return slices.Contains(all, x)
}

func (d *heldDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams++
	return d.streams, nil
}
func (d *heldDriver) MemcpyHtoDAsync(cu.Context, cu.DevicePtr, cu.HostPtr, uintptr, cu.Stream) error {
	return d.hold()
}
func (d *heldDriver) LaunchKernel(_ cu.Context, _ cu.Function, _, _ cu.Dim3, _ uint32, _ cu.Stream, params []byte) error {
	before := bytes.Clone(params)
	if d.hold(); !bytes.Equal(params, before) {
		return errors.New("the parameters changed during the launch")
	}
	return nil
}
func (d *heldDriver) EventRecord(cu.Context, cu.Event, cu.Stream) error { return d.hold() }
func (d *heldDriver) StreamWaitEvent(cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error {
	return d.hold()
}
func (d *heldDriver) Submit(_ cu.Context, b *cu.Batch) (int, error)     { return b.Len(), d.hold() }
func (d *heldDriver) MemFree(_ cu.Context, p cu.DevicePtr) error        { return d.note(p) }
func (d *heldDriver) ModuleUnload(_ cu.Context, m cu.Module) error      { return d.note(m) }
func (d *heldDriver) StreamDestroy(_ cu.Context, s cu.Stream) error     { return d.note(s) }
func (d *heldDriver) StreamSynchronize(_ cu.Context, s cu.Stream) error { return d.note(waited(s)) }

// start makes a call that the driver holds until release.
func (d *heldDriver) start(t *testing.T, f func() error) (release func()) {
	t.Helper()
	h := &heldCall{make(chan struct{}), make(chan struct{})}
	d.mu.Lock()
	d.next = h
	d.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case <-h.entered:
	case err := <-done:
		t.Fatalf("it did not call the driver: %v", err)
	}
	return func() {
		t.Helper()
		close(h.leave)
		check(t, <-done)
	}
}

// TestCloseDuringCall: what a call of the driver uses stays until it returns, and
// other goroutines go on with the stream meanwhile.
func TestCloseDuringCall(t *testing.T) {
	type parts struct {
		c     *cost
		m     *ferry.Module
		again *ferry.Batch
	}
	copies := func(p *parts) error { return p.c.copy() }
	launches := func(p *parts) error { return p.c.launch(8) }
	submits := func(p *parts) error { return p.c.stream.Submit(p.again) }
	records := func(p *parts) error { return p.c.stream.Record(p.c.event) }
	device := func(p *parts) interface{ Close() error } { return p.c.device }
	floats := func(p *parts) interface{ Close() error } { return p.c.floats }
	module := func(p *parts) interface{ Close() error } { return p.m }
	stream := func(p *parts) interface{ Close() error } { return p.c.stream }
	for _, x := range []struct {
		name  string
		op    func(*parts) error
		thing func(*parts) interface{ Close() error }
		gone  any // what the driver is told in the end
	}{
		{"copy/host", copies, func(p *parts) interface{ Close() error } { return p.c.host }, nil},
		{"copy/device", copies, device, cu.DevicePtr(1 << 40)},
		{"copy/stream", copies, stream, cu.Stream(0x101)},
		{"launch/buffer", launches, floats, cu.DevicePtr(1<<40 + 4096)},
		{"launch/module", launches, module, cu.Module(3)},
		{"launch/stream", launches, stream, cu.Stream(0x101)},
		{"submit/device", submits, device, cu.DevicePtr(1 << 40)},
		{"submit/module", submits, module, cu.Module(3)},
		{"submit/stream", submits, stream, cu.Stream(0x101)},
		{"record/stream", records, stream, cu.Stream(0x101)},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := newHeld()
			g := openFake(t, d)
			p := &parts{c: newCost(t, g, 4096), m: must(ferry.Load(g, []byte(kernels.PTX)))(t), again: new(ferry.Batch)}
			p.c.add = must(p.m.Kernel("vector_add"))(t)
			check(t, p.c.list(p.again))
			other, also := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
			defer closeAll(t, other, also)
			for range 2 { // what a first use finds out, the next knows
				check(t, errors.Join(p.c.copy(), p.c.launch(8), p.c.stream.Submit(p.again)))
			}
			release := d.start(t, func() error { return x.op(p) })
			d.noted(nil)
			closed := make(chan error, 1)
			go func() { closed <- x.thing(p).Close() }()
			_, isStream := x.gone.(cu.Stream)
			select {
			case err := <-closed:
				if !isStream { // which is closed at once, and destroyed later
					t.Fatalf("Close did not wait for the call: %v", err)
				}
				closed <- err
			case <-time.After(soon):
			}
			if x.gone != nil && d.noted(x.gone) {
				t.Error("the driver was told while it worked with it")
			}
			releaseOther := func() {}
			if !isStream { // another operation goes on, and Close does not wait for that
				check(t, ferry.Copy(p.c.stream, also, other))
				releaseOther = d.start(t, func() error { return ferry.Copy(p.c.stream, also, other) })
			}
			release()
			check(t, <-closed)
			releaseOther()
			if x.gone != nil && !d.noted(x.gone) {
				t.Errorf("the driver was never told of %#x", x.gone)
			}
			if err := x.op(p); !errors.Is(err, ferry.ErrClosed) {
				t.Errorf("used after Close: %v", err)
			}
		})
	}
}

// TestLaunchesAtOnce: two launches on a stream do not mix their parameters up.
func TestLaunchesAtOnce(t *testing.T) {
	d := newHeld()
	c := newCost(t, openFake(t, d), 4096)
	check(t, c.launch(8))
	first := d.start(t, func() error { return c.launch(16) })
	second := d.start(t, func() error { return c.launch(32) })
	check(t, c.launch(64))
	second()
	first()
	check(t, c.launch(128))
}

// TestStreamCloseBetweenCalls: a closed stream is there until the last of all who use
// it has left, whichever way it uses it.
func TestStreamCloseBetweenCalls(t *testing.T) {
	for _, shortLast := range []bool{false, true} {
		d := newHeld()
		c := newCost(t, openFake(t, d), 4096)
		check(t, c.copy())
		short := d.start(t, c.copy)
		long := d.start(t, func() error { return c.stream.WaitEvent(c.event) })
		check(t, c.stream.Close())
		first, last := short, long
		if shortLast {
			first, last = long, short
		}
		first()
		if d.noted(cu.Stream(0x101)) {
			t.Errorf("destroyed while in use, the call last: %v", shortLast)
		}
		last()
		if !d.noted(cu.Stream(0x101)) {
			t.Errorf("never destroyed, the call last: %v", shortLast)
		}
	}
}

// TestLaneOfABusyStream: a buffer remembers a stream that is making a call with it,
// whatever others do with the buffer meanwhile, and however much is done already.
func TestLaneOfABusyStream(t *testing.T) {
	d := newHeld()
	g := openFake(t, d)
	c := newCost(t, g, 4096)
	second := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, second)
	check(t, c.copy())
	check(t, c.stream.Wait(context.Background())) // the stream is done with the buffers
	release := d.start(t, c.copy)
	check(t, ferry.Copy(second, c.device, c.host)) // it might take the place of the first
	check(t, second.Wait(context.Background()))
	release()
	d.noted(nil)
	c.host.Slice()
	if !d.noted(waited(0x101)) {
		t.Error("the host was given the buffer without a wait for the copy")
	}
}

// TestWaitDuringCall: a wait that begins before an operation is queued does not
// count for it.
func TestWaitDuringCall(t *testing.T) {
	for name, f := range map[string]func(c *cost, again *ferry.Batch) error{
		"Copy":   func(c *cost, _ *ferry.Batch) error { return c.copy() },
		"Launch": func(c *cost, _ *ferry.Batch) error { return c.launch(8) },
		"Submit": func(c *cost, again *ferry.Batch) error { return c.stream.Submit(again) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newHeld()
			c := newCost(t, openFake(t, d), 4096)
			again := new(ferry.Batch)
			check(t, c.list(again))
			for range 3 {
				check(t, f(c, again))
			}
			check(t, c.stream.Wait(context.Background()))
			release := d.start(t, func() error { return f(c, again) })
			check(t, c.stream.Wait(context.Background()))
			release()
			d.noted(nil)
			check(t, errors.Join(c.device.Close(), c.floats.Close()))
			if !d.noted(waited(0x101)) {
				t.Error("closed without a wait for the operation")
			}
		})
	}
}
