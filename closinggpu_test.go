package ferry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

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
	s := ferry.DefaultStream(g)
	device, host := must(ferry.Alloc[byte](other, 4096))(t), must(ferry.AllocHost[byte](other, 4096, nil))(t)
	open := make(chan struct{})
	d.during("MemcpyHtoDAsync", func() error {
		check(t, g.Close())
		return other.Driver().LaunchHostFunc(other.Context(), 0, func() { <-open })
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
