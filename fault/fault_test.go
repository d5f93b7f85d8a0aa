package fault_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/softgpu"
)

// wrap returns a software GPU whose calls fail, and a context of it.
func wrap(t *testing.T, o fault.Options) (*fault.Driver, cu.Context) {
	t.Helper()
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := fault.Wrap(soft, o)
	if err := d.Init(0); err != nil {
		t.Fatal(err)
	}
	ctx, err := d.DevicePrimaryCtxRetain(0)
	if err != nil {
		t.Fatal(err)
	}
	return d, ctx
}

// used returns how much device memory is in use.
func used(t *testing.T, d *fault.Driver, ctx cu.Context) uintptr {
	t.Helper()
	free, total, err := d.Unwrap().MemGetInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return total - free
}

// TestModes: a refused call does nothing, a call that is done does its work and leaves
// nothing behind, and after a sticky error every call returns it.
func TestModes(t *testing.T) {
	for _, mode := range []fault.Mode{fault.Refused, fault.Done, fault.Sticky, fault.Late} {
		d, ctx := wrap(t, fault.Options{Call: "cuMemAlloc", Nth: 2, Mode: mode, Code: cu.ErrorLaunchFailed, Delay: 20 * time.Millisecond})
		first, err := d.MemAlloc(ctx, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		before, began := used(t, d, ctx), time.Now()
		p, err := d.MemAlloc(ctx, 16<<20) // more than the rest of the page of the first
		if mode == fault.Late {
			if err != nil || time.Since(began) < 20*time.Millisecond {
				t.Errorf("late: error %v after %v", err, time.Since(began))
			}
			continue
		}
		if p != 0 || !errors.Is(err, cu.ErrorLaunchFailed) {
			t.Errorf("%v: allocated %#x, error %v", mode, p, err)
		}
		if got := used(t, d, ctx); got != before {
			t.Errorf("%v: %d bytes in use, before %d", mode, got, before)
		}
		if !strings.HasPrefix(d.Failed(), "cuMemAlloc, call ") || !strings.HasSuffix(d.Failed(), mode.String()+", CUDA_ERROR_LAUNCH_FAILED") {
			t.Errorf("%v: %q", mode, d.Failed())
		}
		_, err = d.MemAlloc(ctx, 16)
		if sticky := errors.Is(err, cu.ErrorLaunchFailed); sticky != (mode == fault.Sticky) {
			t.Errorf("%v: the next call returns %v", mode, err)
		}
		err = d.MemFree(ctx, first)
		if sticky := errors.Is(err, cu.ErrorLaunchFailed); sticky != (mode == fault.Sticky) || slices.Contains(d.Live(), fmt.Sprintf("device memory %#x", uint64(first))) {
			t.Errorf("%v: the free returns %v, live %v", mode, err, d.Live())
		}
	}
}

// TestFailedFree: a free that is done and fails counts as done, a refused one does not.
func TestFailedFree(t *testing.T) {
	for _, mode := range []fault.Mode{fault.Refused, fault.Done} {
		d, ctx := wrap(t, fault.Options{Call: "cuStreamDestroy", Nth: 1, Mode: mode, Code: cu.ErrorInvalidValue})
		s, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
		if err != nil {
			t.Fatal(err)
		}
		live := len(d.Live())
		if err := d.StreamDestroy(ctx, s); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%v: error %v", mode, err)
		}
		if got := live - len(d.Live()); got != int(mode) {
			t.Errorf("%v: %d streams fewer", mode, got)
		}
	}
}

// TestResults: a call that fails as asked returns no results, made or not. One that the wrapped
// driver refuses returns what that driver does, such as the log of a compiler, and its error.
func TestResults(t *testing.T) {
	for _, mode := range []fault.Mode{fault.Refused, fault.Done, fault.Sticky} {
		d, ctx := wrap(t, fault.Options{Call: "cuMemGetInfo", Nth: 2, Mode: mode, Code: cu.ErrorLaunchFailed})
		if free, total, err := d.MemGetInfo(ctx); free == 0 || total == 0 || err != nil {
			t.Errorf("%v: %d, %d, %v", mode, free, total, err)
		}
		if free, total, err := d.MemGetInfo(ctx); free != 0 || total != 0 || !errors.Is(err, cu.ErrorLaunchFailed) {
			t.Errorf("%v: results %d and %d beside %v", mode, free, total, err)
		}
	}
	for _, nth := range []uint64{0, 1} {
		d, ctx := wrap(t, fault.Options{})
		d = fault.Wrap(compiler{d.Unwrap()}, fault.Options{Call: "cuModuleLoadDataEx", Nth: nth, Mode: fault.Done, Code: cu.ErrorLaunchFailed})
		if _, log, err := d.ModuleLoadDataEx(ctx, nil, nil); log != "line 1" || !errors.Is(err, cu.ErrorInvalidPTX) {
			t.Errorf("code that does not compile: log %q, error %v", log, err)
		}
	}
}

// compiler is a driver that compiles nothing.
type compiler struct{ cu.Driver }

func (compiler) ModuleLoadDataEx(cu.Context, []byte, *cu.JITOptions) (cu.Module, string, error) {
	return 0, "line 1", cu.ErrorInvalidPTX
}

// TestAsyncIsNotDone: a call that returns no error in the mode Async does nothing.
func TestAsyncIsNotDone(t *testing.T) {
	d, ctx := wrap(t, fault.Options{Call: "cuMemsetD8Async", Nth: 2, Mode: fault.Async, Code: cu.ErrorLaunchFailed})
	p, err := d.MemAlloc(ctx, 1)
	for _, value := range []uint8{7, 9} {
		err = errors.Join(err, d.MemsetD8Async(ctx, p, value, 1, 0))
	}
	var got [1]byte
	if err := errors.Join(err, d.Unwrap().MemcpyDtoH(ctx, cu.HostPtr(&got[0]), p, 1)); err != nil || got[0] != 7 {
		t.Errorf("the memory has %d, error %v, want 7", got[0], err)
	}
	if err := d.CtxSynchronize(ctx); !errors.Is(err, cu.ErrorLaunchFailed) {
		t.Errorf("the wait returns %v", err)
	}
}

// TestSeed: random failures are the same for the same seed, and others for another.
func TestSeed(t *testing.T) {
	failures := func(seed uint64) (list []int) {
		d, ctx := wrap(t, fault.Options{})
		_ = ctx
		d = fault.Wrap(d.Unwrap(), fault.Options{Every: 8, Seed: seed})
		for i := range 400 {
			if _, err := d.DeviceGetCount(); err != nil {
				list = append(list, i)
			}
		}
		return list
	}
	a, b, c := failures(1), failures(1), failures(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) || len(a) < 20 || len(a) > 100 {
		t.Errorf("%d, %d and %d calls failed", len(a), len(b), len(c))
	}
}

// TestParse: texts of FERRY_FAULT.
func TestParse(t *testing.T) {
	for text, want := range map[string]fault.Options{
		"seed:7":                                    {Every: 64, Seed: 7},
		"cuMemAlloc:3:CUDA_ERROR_OUT_OF_MEMORY":     {Call: "cuMemAlloc", Nth: 3, Code: cu.ErrorOutOfMemory},
		"cuLaunchKernel:1:CUDA_ERROR_LAUNCH_FAILED": {Call: "cuLaunchKernel", Nth: 1, Code: cu.ErrorLaunchFailed, Mode: fault.Sticky},
		"cuMemAlloc:3:CUDA_ERROR_OUT_OF_MEMORY,cuMemFree:1:CUDA_ERROR_ASSERT": {Call: "cuMemAlloc", Nth: 3, Code: cu.ErrorOutOfMemory,
			More: []fault.Failure{{Call: "cuMemFree", Nth: 1, Code: cu.ErrorAssert, Mode: fault.Sticky}}},
	} {
		if got, err := fault.Parse(text); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "1 parts", "seed:x": "no number", "cuMemAlloc:3": "2 parts", "cuMemFoo:3:CUDA_ERROR_OUT_OF_MEMORY": "no call", "cuMemAlloc:0:CUDA_ERROR_OUT_OF_MEMORY": "no number from 1",
		"cuMemAlloc:3:OOM": "no error", "cuMemAlloc:3:CUDA_SUCCESS": "no error",
	} {
		if _, err := fault.Parse(text); !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", text, err, want)
		}
	}
}

// TestAs: cu.As finds a driver inside two wrappers, and nothing where there is none.
func TestAs(t *testing.T) {
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := fault.Wrap(fault.Wrap(soft, fault.Options{}), fault.Options{})
	if got, ok := cu.As[*softgpu.Driver](d); !ok || got != soft {
		t.Errorf("found %v, %v, want the software GPU", got, ok)
	}
	if _, ok := cu.As[*fault.Driver](soft); ok {
		t.Error("found a wrapper that is not there")
	}
	if _, ok := cu.As[*fault.Driver](nil); ok {
		t.Error("found a driver in none")
	}
}

// freesAndFails is a driver whose calls do what they should, and then return an error.
type freesAndFails struct{ cu.Driver }

func (d freesAndFails) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	return errors.Join(d.Driver.MemFree(ctx, p), cu.ErrorUnknown)
}

func (d freesAndFails) MemFreeHost(ctx cu.Context, p cu.HostPtr) error {
	return errors.Join(d.Driver.MemFreeHost(ctx, p), cu.ErrorUnknown)
}

func (d freesAndFails) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	return errors.Join(d.Driver.MemHostUnregister(ctx, p), cu.ErrorUnknown)
}

func (d freesAndFails) CtxDestroy(ctx cu.Context) error {
	return errors.Join(d.Driver.CtxDestroy(ctx), cu.ErrorUnknown)
}

// failsOnly is a driver whose calls do nothing, and return an error.
type failsOnly struct{ cu.Driver }

func (d failsOnly) MemFree(cu.Context, cu.DevicePtr) error         { return cu.ErrorUnknown }
func (d failsOnly) MemFreeHost(cu.Context, cu.HostPtr) error       { return cu.ErrorUnknown }
func (d failsOnly) MemHostUnregister(cu.Context, cu.HostPtr) error { return cu.ErrorUnknown }
func (d failsOnly) CtxDestroy(cu.Context) error                    { return cu.ErrorUnknown }

// TestLiveAfterAnError: after a call that frees and returns an error, what it freed is not live.
// After one that only returns an error it is.
func TestLiveAfterAnError(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	inner := must1(softgpu.Open(softgpu.Options{}))(t)
	for _, frees := range []bool{true, false} {
		d := fault.Wrap(failsOnly{inner}, fault.Options{})
		if frees {
			d = fault.Wrap(freesAndFails{inner}, fault.Options{})
		}
		must(d.Init(0))
		ctx := must1(d.DevicePrimaryCtxRetain(0))(t)
		device := must1(d.MemAlloc(ctx, 64))(t)
		host := must1(d.MemHostAlloc(ctx, 64, 0))(t)
		own := cu.HostPtr(new([4096]byte))
		must(d.MemHostRegister(ctx, own, 4096, 0))
		other := must1(d.CtxCreate(0, 0))(t)
		for what, free := range map[string]func() error{
			"device memory":      func() error { return d.MemFree(ctx, device) },
			"page-locked memory": func() error { return d.MemFreeHost(ctx, host) },
			"registration":       func() error { return d.MemHostUnregister(ctx, own) },
			"context":            func() error { return d.CtxDestroy(other) },
		} {
			if err := free(); !errors.Is(err, cu.ErrorUnknown) {
				t.Errorf("%s: the call returns %v, want its error", what, err)
			}
			if live := isLive(d, what); live == frees {
				t.Errorf("%s: live is %t although the call freed: %t", what, live, frees)
			}
		}
	}
}

// TestLiveCaptures: a capture whose end returns an error is not live any more, as the stream does
// not capture. One that another stream was to end goes on.
func TestLiveCaptures(t *testing.T) {
	d, ctx := wrap(t, fault.Options{})
	s, other := must1(d.StreamCreate(ctx, cu.StreamNonBlocking))(t), must1(d.StreamCreate(ctx, cu.StreamNonBlocking))(t)
	e, p := must1(d.EventCreate(ctx, 0))(t), must1(d.MemAlloc(ctx, 64))(t)
	join := func() error {
		return errors.Join(d.EventRecord(ctx, e, s), d.StreamWaitEvent(ctx, other, e, 0), d.MemsetD8Async(ctx, p, 0, 64, other))
	}
	for what, c := range map[string]struct {
		do   func() error
		end  cu.Stream
		code cu.Result
		live bool
	}{
		"good":        {func() error { return nil }, s, 0, false},
		"unjoined":    {join, s, cu.ErrorStreamCaptureUnjoined, false},
		"invalid":     {func() error { _ = d.CtxSynchronize(ctx); return nil }, s, cu.ErrorStreamCaptureInvalidated, false},
		"not here":    {func() error { return nil }, other, cu.ErrorIllegalState, true},
		"not matched": {join, other, cu.ErrorStreamCaptureUnmatched, true},
	} {
		if err := errors.Join(d.StreamBeginCapture(ctx, s, cu.StreamCaptureModeRelaxed), c.do()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := d.StreamEndCapture(ctx, c.end); !errors.Is(err, c.code) && (err != nil || c.code != 0) {
			t.Errorf("%s: the end returns %v, want %s", what, err, c.code.Name())
		}
		if live := isLive(d, "capture"); live != c.live {
			t.Errorf("%s: live is %t, want %t: %v", what, live, c.live, d.Live())
		}
		if c.live {
			_, _ = d.StreamEndCapture(ctx, s)
		}
		if isLive(d, "capture") {
			t.Fatalf("%s: the capture is live after its end", what)
		}
	}
}

// isLive reports whether anything of a kind is live.
func isLive(d *fault.Driver, kind string) bool {
	return slices.ContainsFunc(d.Live(), func(x string) bool { return strings.HasPrefix(x, kind+" 0x") })
}

// must1 returns v, or ends the test for an error.
func must1[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
