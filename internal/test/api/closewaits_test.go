package api

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// freeing is a call that makes the driver free memory. other is a second GPU of the context.
var freeing = map[string]func(t *testing.T, g, other *ferry.GPU) (call func() error){
	"device memory": func(t *testing.T, g, _ *ferry.GPU) func() error { return must(ferry.Alloc[byte](g, 4096))(t).Close },
	"page-locked memory": func(t *testing.T, g, _ *ferry.GPU) func() error {
		return must(ferry.AllocHost[byte](g, 1<<20, nil))(t).Close
	},
	"write-combined memory": func(t *testing.T, g, _ *ferry.GPU) func() error {
		return must(ferry.AllocHost[byte](g, 4096, &ferry.HostOptions{WriteCombined: true}))(t).Close
	},
	"a registration": func(t *testing.T, g, _ *ferry.GPU) func() error {
		return must(ferry.Register(g, make([]byte, 1<<20), nil))(t).Close
	},
	"managed memory": func(t *testing.T, g, _ *ferry.GPU) func() error {
		return must(ferry.AllocManaged[byte](g, 4096, nil))(t).Close
	},
	"a module": func(t *testing.T, g, _ *ferry.GPU) func() error {
		return must(ferry.Load(g, []byte(kernels.PTX), nil))(t).Close
	},
	"a pool": func(t *testing.T, g, _ *ferry.GPU) func() error {
		p := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Max: 1 << 20}))(t)
		check(t, must(fromPool[byte](p, 1<<10))(t).Close())
		return p.Close
	},
	"memory of another GPU with the context": func(t *testing.T, _, other *ferry.GPU) func() error {
		return must(ferry.Alloc[byte](other, 4096))(t).Close
	},
	"a prediction": func(_ *testing.T, g, _ *ferry.GPU) func() error {
		return func() error { return last(bridge.PredictPin(g, 1<<20, &ferry.HostOptions{WriteCombined: true})) }
	},
}

// TestCloseHoldsNothing: while a call that frees memory waits for a stream that stands still,
// other streams go on, and what a host function of that stream waits for can come to an end.
func TestCloseHoldsNothing(t *testing.T) {
	t.Run("device=holding", func(t *testing.T) {
		d := &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
		testCloseHoldsNothing(t, openDriver(t, d), openDriver(t, d), func() {
			calls := d.Calls()
			eventually(t, "the call frees, or asks for the stream", func() bool { return d.Calls() > calls })
		})
	})
	t.Run("device=default", func(t *testing.T) {
		testCloseHoldsNothing(t, openTest(t), openTest(t), func() { time.Sleep(10 * time.Millisecond) })
	})
}

// testCloseHoldsNothing tries all calls. begun waits until the call is in progress.
func testCloseHoldsNothing(t *testing.T, g, second *ferry.GPU, begun func()) {
	const n = 1 << 20
	other := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	host, device := must(ferry.AllocHost[byte](g, n, nil))(t), must(ferry.Alloc[byte](g, n))(t)
	for name, begin := range freeing {
		for _, closed := range []bool{false, true} {
			t.Run("free="+name+"/closed="+map[bool]string{false: "no", true: "yes"}[closed], func(t *testing.T) {
				still, call := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), begin(t, g, second)
				open := gate(t, still)
				if closed {
					check(t, still.Close())
				}
				ended := make(chan error, 1)
				go func() { ended <- call() }()
				begun()
				done := make(chan error, 1)
				go func() {
					err := ferry.Copy(other, device, host)
					if err == nil {
						err = other.Wait(context.Background())
					}
					done <- err
				}()
				select {
				case err := <-done:
					check(t, err)
				case <-time.After(10 * time.Second):
					t.Error("another stream waits for the one that stands still")
				}
				open()
				check(t, <-ended)
				closeAll(t, still)
			})
		}
	}
	closeAll(t, host, device, other)
}

const twoVariables = `.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 x[4];
.global .align 4 .u32 y[4];
`

// TestCloseWithoutFree: a Close that frees nothing waits for no stream.
func TestCloseWithoutFree(t *testing.T) {
	d := &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := openDriver(t, d)
	still := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	memory := make([]byte, 1<<20)
	first, second := must(ferry.Register(g, memory, nil))(t), must(ferry.Register(g, memory, nil))(t)
	m := must(ferry.Load(g, []byte(twoVariables), nil))(t)
	check(t, last(ferry.Global[uint32](m, "x")))
	y := must(ferry.Global[uint32](m, "y"))(t)
	graph := must(still.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, y, 1) }))(t)
	open := gate(t, still)
	check(t, within(t, "Close of one of two registrations", first.Close))
	check(t, within(t, "Close of a module that a graph uses", m.Close))
	open()
	closeAll(t, still, second, graph)
}

// unknown is a driver that is not known to be emulated.
type unknown struct{ cu.Driver }

// TestCloseInForeignCapture: Close does not invalidate the capture of another library.
func TestCloseInForeignCapture(t *testing.T) {
	d := cu.Driver(&unknown{softDriver(t, "h200", 1, softgpu.Eager)})
	g := openDriver(t, d)
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		g = openTest(t)
		d = g.Driver()
	}
	x, def, ran := must(ferry.Alloc[byte](g, 4096))(t), g.DefaultStream(), make(chan struct{})
	check(t, def.HostFunc(func() { close(ran) })) // it ends, but nobody asks
	<-ran
	s := must(d.StreamCreate(g.CUContext(), cu.StreamDefault))(t)
	check(t, d.StreamBeginCapture(g.CUContext(), s, cu.StreamCaptureModeRelaxed))
	if err := x.Close(); err != nil && os.Getenv("FERRY_REQUIRE_GPU") != "1" {
		t.Errorf("Close: %v", err)
	}
	graph, err := d.StreamEndCapture(g.CUContext(), s)
	check(t, err)
	check(t, d.GraphDestroy(graph))
	check(t, def.Wait(context.Background()))
	check(t, d.StreamDestroy(g.CUContext(), s))
	check(t, x.Close())
}

// settling is a Holding that tells of marks, and of the call that frees device memory.
type settling struct {
	*gputest.Holding
	marked, freed chan struct{}
}

func (d *settling) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	err := d.Holding.EventRecord(ctx, e, s)
	d.marked <- struct{}{}
	return err
}

func (d *settling) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	d.freed <- struct{}{}
	return d.Holding.MemFree(ctx, p)
}

// TestCloseWaitsForWorkBefore: work that streams get while a Close waits for them does not
// delay it. All host functions are those of one stream: of two streams any of them may run first,
// and the others wait for it.
func TestCloseWaitsForWorkBefore(t *testing.T) {
	d := &settling{&gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}, make(chan struct{}, 16), make(chan struct{}, 16)}
	g := openDriver(t, d)
	device := must(ferry.Alloc[byte](g, 4096))(t)
	var streams [3]*ferry.Stream
	var others [3]*ferry.Device[byte]
	for i := range streams {
		others[i] = must(ferry.Alloc[byte](g, 4096))(t)
		streams[i] = must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	}
	stand := func() (open func()) {
		open = gate(t, streams[0])
		e := must(ferry.NewEvent(g, nil))(t)
		check(t, streams[0].Record(e))
		for i, s := range streams[1:] {
			check(t, s.WaitEvent(e))
			check(t, ferry.Fill(s, others[i], 1))
		}
		check(t, e.Close())
		for len(d.marked) > 0 {
			<-d.marked
		}
		return open
	}
	open := stand()
	ended := make(chan error, 1)
	go func() { ended <- device.Close() }()
	for range streams {
		within(t, "a mark", func() error { <-d.marked; return nil })
	}
	later := stand()
	open()
	within(t, "the wait before the free", func() error { <-d.freed; return nil })
	later()
	check(t, <-ended)
	for i, s := range streams {
		closeAll(t, s, others[i])
	}
}

// TestCloseBesideClosedGPU: a GPU that was closed can have a stream that stands still. A Close
// on another GPU of the context does not keep other streams from their work.
func TestCloseBesideClosedGPU(t *testing.T) {
	d := &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g, second := openDriver(t, d), openDriver(t, d)
	still, other := must(ferry.NewStream(second, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, nil))(t)
	device, freed := must(ferry.Alloc[byte](g, 4096))(t), must(ferry.Alloc[byte](g, 4096))(t)
	open := gate(t, still)
	check(t, second.Close())
	calls, ended := d.Calls(), make(chan error, 1)
	go func() { ended <- freed.Close() }()
	eventually(t, "the call frees, or asks for the stream", func() bool { return d.Calls() > calls })
	check(t, within(t, "another stream", func() error {
		err := ferry.Fill(other, device, 1)
		if err == nil {
			err = other.Wait(context.Background())
		}
		return err
	}))
	open()
	check(t, <-ended)
	closeAll(t, still, other, device)
}

// openHooks opens a software GPU that the test closes itself.
func openHooks(t *testing.T) (*hookDriver, *ferry.GPU) {
	t.Helper()
	d := newHookDriver(softDriver(t, "h200", 1, softgpu.Eager))
	return d, must(ferry.OpenDriver(d, 0))(t)
}

// TestCloseReportsPanic: Close of the last object returns an error of the work.
func TestCloseReportsPanic(t *testing.T) {
	_, g := openHooks(t)
	s := must(ferry.NewStream(g, nil))(t)
	check(t, s.HostFunc(func() { panic("planted") }))
	check(t, s.Close())
	err := g.Close()
	if p, ok := errors.AsType[*cu.HostPanic](err); !ok || p.Value != "planted" {
		t.Errorf("got %v, want the panic", err)
	}
}

// TestReleaseInCopy closes a GPU within a copy on its default stream, whose buffers belong to
// another GPU of the device. The buffers stay in flight until the copy is done.
func TestReleaseInCopy(t *testing.T) {
	d, g := openHooks(t)
	other := must(ferry.OpenDriver(d, 0))(t)
	s := g.DefaultStream()
	device, host := must(ferry.Alloc[byte](other, 4096))(t), must(ferry.AllocHost[byte](other, 4096, nil))(t)
	open := make(chan struct{})
	d.during("MemcpyHtoDAsync", func() error {
		check(t, g.Close())
		return other.Driver().LaunchHostFunc(other.CUContext(), 0, func() { <-open })
	})
	copied, sliced := make(chan error, 1), make(chan struct{})
	go func() { copied <- ferry.Copy(s, device, host) }()
	eventually(t, "the release", func() bool { return d.count("CtxSynchronize") >= 2 })
	go func() { host.Slice(); close(sliced) }()
	select {
	case <-sliced:
		t.Error("Slice returned, and the copy that reads the buffer has not begun")
	case <-time.After(shortWait):
	}
	close(open)
	<-sliced
	check(t, <-copied)
	closeAll(t, device, host, other)
}

// TestReleaseInWait closes a GPU while another goroutine is in a wait for a closed stream. No
// call of the driver comes after the release of the context.
func TestReleaseInWait(t *testing.T) {
	d, g := openHooks(t)
	s := must(ferry.NewStream(g, nil))(t)
	open := gate(t, s)
	check(t, s.Close())
	waiting, waited := make(chan struct{}), make(chan error, 1)
	d.during("EventSynchronize", func() error { <-waiting; return nil })
	go func() { waited <- s.Wait(context.Background()) }()
	eventually(t, "the wait", func() bool { return d.count("EventRecord") == 1 })
	time.Sleep(shortWait) // by then it is in the driver
	open()
	check(t, g.Close())
	close(waiting)
	check(t, <-waited)
	eventually(t, "the release", func() bool { return d.count("DevicePrimaryCtxRelease") == 1 })
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.late) > 0 {
		t.Errorf("calls after the release of the context: %v", d.late)
	}
}
