package ferry_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestWaitContext: waits end with their context, the work does not, and those who
// gave up leave nothing behind but one pending wait.
func TestWaitContext(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	check(t, ferry.Fill(s, device, 9))
	open := gate(t, s)
	check(t, ferry.Copy(s, host, device))
	check(t, s.Record(e))
	before := runtime.NumGoroutine()
	for name, wait := range map[string]func(context.Context) error{
		"stream": s.Wait, "event": e.Wait, "GPU": g.Wait, "buffer": host.Wait,
	} {
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		wantError(t, wait(canceled), context.Canceled)
		for range 20 {
			short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			wantError(t, wait(short), context.DeadlineExceeded)
			cancel()
		}
		if err := wait(canceled); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if now := runtime.NumGoroutine(); now > before+8 {
		t.Errorf("%d goroutines wait after all gave up, there were %d", now, before)
	}
	open()
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	for _, wait := range []func(context.Context) error{e.Wait, host.Wait, s.Wait, g.Wait} {
		check(t, wait(ctx))
	}
	if host.Slice()[63] != 9 {
		t.Error("the copy was lost")
	}
	closeAll(t, e, host, device, s)
}

// TestDone asks without waiting.
func TestDone(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	open := gate(t, s)
	if must(s.Done())(t) {
		t.Error("done with a host function waiting")
	}
	open()
	for end := time.Now().Add(late); !must(s.Done())(t); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never done")
		}
	}
	closeAll(t, s)
	_, err := s.Done()
	wantError(t, err, ferry.ErrClosed)
}

// TestHostPanic: a panic in a host function is told by the stream, once, whoever
// comes upon it, and the work before and after is done.
func TestHostPanic(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	defer closeAll(t, host, device, s)
	cause := errors.New("lost my keys")
	for _, first := range []string{"wait", "slice"} {
		check(t, ferry.Fill(s, device, 9))
		check(t, s.HostFunc(func() { panic(cause) }))
		check(t, ferry.Copy(s, host, device))
		if first == "slice" {
			if got := host.Slice(); got == nil || got[5] != 9 {
				t.Errorf("Slice is %v", got)
			}
		}
		err := s.Wait(context.Background())
		wantError(t, err, cause, "lost my keys", "stream")
		if _, ok := errors.AsType[*cu.HostPanic](err); !ok {
			t.Errorf("%s: got %v, want a *cu.HostPanic", first, err)
		}
		check(t, s.Wait(context.Background()))
		if host.Slice()[5] != 9 {
			t.Error("the copy was lost")
		}
		check(t, ferry.Fill(s, host, 0))
	}
}

// TestHostPanicUnheard: an error that came when nobody was left to hear it is
// told to the next who waits.
func TestHostPanicUnheard(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	open := gate(t, s)
	cause := errors.New("nobody listens")
	check(t, s.HostFunc(func() { panic(cause) }))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	wantError(t, s.Wait(ctx), context.DeadlineExceeded, "the work goes on")
	open()
	time.Sleep(soon)
	wantError(t, s.Wait(context.Background()), cause)
	check(t, s.Wait(context.Background()))
}
