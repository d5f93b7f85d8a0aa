package fault_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestAsync: the call that faults returns no error, and calls that need no work go on. The
// next call that waits returns the error, and every call after it says in one line what failed.
func TestAsync(t *testing.T) {
	d, ctx := wrap(t, fault.Options{Nth: 2, Mode: fault.Async, Code: cu.ErrorIllegalAddress})
	p, err := d.MemAlloc(ctx, 64)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.MemsetD8Async(ctx, p, 1, 64, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.StreamCreate(ctx, 0); err != nil {
		t.Errorf("a call before the fault is seen: %v", err)
	}
	if err := d.CtxSynchronize(ctx); err != error(cu.ErrorIllegalAddress) {
		t.Errorf("the wait returns %v", err)
	}
	_, err = d.MemAlloc(ctx, 64)
	if _, ok := errors.AsType[*cu.Lost](err); !ok || !errors.Is(err, cu.ErrorIllegalAddress) || !strings.Contains(err.Error(), "cuMemsetD8Async, call ") {
		t.Errorf("a later call returns %v", err)
	}
}

// TestCallbacks: a host function that never comes holds back its stream until Release, and one
// that is late does so for the delay.
func TestCallbacks(t *testing.T) {
	for _, mode := range []fault.Mode{fault.Never, fault.LateCallback} {
		d, ctx := wrap(t, fault.Options{Nth: 1, Mode: mode, Delay: 50 * time.Millisecond})
		s, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
		if err != nil {
			t.Fatal(err)
		}
		var ran atomic.Bool
		began := time.Now()
		if err := d.LaunchHostFunc(ctx, s, func() { ran.Store(true) }); err != nil {
			t.Fatal(err)
		}
		if mode == fault.Never {
			time.Sleep(20 * time.Millisecond)
			if err := d.StreamQuery(ctx, s); !errors.Is(err, cu.ErrorNotReady) || ran.Load() {
				t.Errorf("never: the query returns %v, ran %t", err, ran.Load())
			}
			d.Release()
			d.Release()
		}
		if err := d.StreamSynchronize(ctx, s); err != nil || !ran.Load() {
			t.Errorf("%v: %v, ran %t", mode, err, ran.Load())
		}
		if took := time.Since(began); mode == fault.LateCallback && took < 50*time.Millisecond {
			t.Errorf("late: after %v", took)
		}
	}
}

// TestMemoryLimit: allocations above the limit are refused; what is freed can be taken again.
func TestMemoryLimit(t *testing.T) {
	d, ctx := wrap(t, fault.Options{MemoryLimit: 1000})
	p, err := d.MemAlloc(ctx, 600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.MemHostAlloc(ctx, 500, 0); !errors.Is(err, cu.ErrorOutOfMemory) {
		t.Errorf("above the limit: %v", err)
	}
	h, err := d.MemHostAlloc(ctx, 400, 0)
	if err != nil {
		t.Errorf("up to the limit: %v", err)
	}
	if err := errors.Join(d.MemFree(ctx, p), d.MemFreeHost(ctx, h)); err != nil {
		t.Error(err)
	}
	if _, err := d.MemAlloc(ctx, 1000); err != nil {
		t.Errorf("after the frees: %v", err)
	}
}

// TestSeveral: each failure of one run counts its calls itself.
func TestSeveral(t *testing.T) {
	d, ctx := wrap(t, fault.Options{Call: "cuMemAlloc", Nth: 2, More: []fault.Failure{
		{Call: "cuMemAlloc", Nth: 3, Mode: fault.Done, Code: cu.ErrorInvalidValue}, {Call: "cuStreamCreate", Nth: 1, Code: cu.ErrorNotSupported}}})
	var got []cu.Result
	for range 4 {
		_, err := d.MemAlloc(ctx, 64)
		r, _ := errors.AsType[cu.Result](err)
		got = append(got, r)
	}
	_, err := d.StreamCreate(ctx, 0)
	if want := []cu.Result{0, cu.ErrorOutOfMemory, cu.ErrorInvalidValue, 0}; !slices.Equal(got, want) || !errors.Is(err, cu.ErrorNotSupported) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
}

// TestOneContext: with OneContext a fault on one device leaves the other as it is; without it
// every device is lost.
func TestOneContext(t *testing.T) {
	for _, one := range []bool{true, false} {
		soft, err := softgpu.Open(softgpu.Options{Devices: 2})
		if err != nil {
			t.Fatal(err)
		}
		d := fault.Wrap(soft, fault.Options{Call: "cuMemAlloc", Nth: 1, Mode: fault.Sticky, Code: cu.ErrorECCUncorrectable, OneContext: one})
		if err := d.Init(0); err != nil {
			t.Fatal(err)
		}
		var ctx [2]cu.Context
		for i := range ctx {
			if ctx[i], err = d.DevicePrimaryCtxRetain(cu.Device(i)); err != nil {
				t.Fatal(err)
			}
		}
		_, first := d.MemAlloc(ctx[0], 64)
		_, again := d.MemAlloc(ctx[0], 64)
		_, other := d.MemAlloc(ctx[1], 64)
		if !errors.Is(first, cu.ErrorECCUncorrectable) || !errors.Is(again, cu.ErrorECCUncorrectable) || (other == nil) != one {
			t.Errorf("one context %t: %v, %v, on the other device %v", one, first, again, other)
		}
	}
}

// TestEndsBeforeFree: the work of lost contexts, and that of a call that did its work and
// returned an error, ends before memory is freed, also memory of another device.
func TestEndsBeforeFree(t *testing.T) {
	for _, o := range []fault.Options{
		{Call: "cuStreamCreate", Nth: 1, Mode: fault.Sticky, Code: cu.ErrorLaunchFailed},
		{Call: "cuMemcpyPeerAsync", Nth: 1, Mode: fault.Done, Code: cu.ErrorLaunchFailed},
	} {
		testEndsBeforeFree(t, o)
	}
}

func testEndsBeforeFree(t *testing.T, o fault.Options) {
	t.Helper()
	soft, err := softgpu.Open(softgpu.Options{Devices: 2, Schedule: softgpu.Lazy})
	if err != nil {
		t.Fatal(err)
	}
	d := fault.Wrap(soft, o)
	if err := d.Init(0); err != nil {
		t.Fatal(err)
	}
	var ctx [2]cu.Context
	var p [2]cu.DevicePtr
	for i := range ctx {
		if ctx[i], err = d.DevicePrimaryCtxRetain(cu.Device(i)); err != nil {
			t.Fatal(err)
		}
		if p[i], err = d.MemAlloc(ctx[i], 64); err != nil {
			t.Fatal(err)
		}
	}
	err = d.MemcpyPeerAsync(ctx[0], p[1], ctx[1], p[0], ctx[0], 64, cu.StreamPerThread)
	if _, then := d.StreamCreate(ctx[0], 0); !errors.Is(errors.Join(err, then), cu.ErrorLaunchFailed) {
		t.Errorf("%v: %v and %v", o.Mode, err, then)
	}
	_ = d.MemFree(ctx[1], p[1])
	if err := soft.CtxSynchronize(ctx[0]); err != nil {
		t.Errorf("%v: the copy used the memory after the free: %v", o.Mode, err)
	}
}

// TestCodes: every code is one that leaves the context as it is.
func TestCodes(t *testing.T) {
	codes := fault.Codes()
	for _, r := range codes {
		if r.Sticky() || r == cu.ErrorNotReady || strings.HasPrefix(r.Name(), "CUDA_ERROR_7000") {
			t.Errorf("%v", r)
		}
	}
	if len(codes) < 60 || !slices.Contains(codes, cu.ErrorOutOfMemory) {
		t.Errorf("%d codes", len(codes))
	}
}
