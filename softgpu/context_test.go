package softgpu

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

func TestContextFlagsAndState(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "fermi-c2050")})
	_, err := r.CtxCreate(3, 0)
	r.want(cu.ErrorInvalidValue, err)
	r.want(cu.ErrorPrimaryContextActive, r.DevicePrimaryCtxSetFlags(0, cu.CtxMapHost))
	r.ok(r.DevicePrimaryCtxReset(0))
	r.ok(r.DevicePrimaryCtxSetFlags(0, cu.CtxMapHost))
	flags, active, err := r.DevicePrimaryCtxGetState(0)
	if flags != cu.CtxMapHost || active != 0 || err != nil {
		t.Errorf("state %v, %d, %v", flags, active, err)
	}
	r.ok(r.DevicePrimaryCtxRelease(0)) // a reset drops no reference
	r.want(cu.ErrorInvalidContext, r.DevicePrimaryCtxRelease(0))
	_, err = r.DevicePrimaryCtxRetain(1)
	r.want(cu.ErrorInvalidDevice, err)
}

func TestBeforeInit(t *testing.T) {
	d, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.DeviceGetCount(); !errors.Is(err, cu.ErrorNotInitialized) {
		t.Errorf("got %v", err)
	}
	if err := d.Init(1); !errors.Is(err, cu.ErrorInvalidValue) {
		t.Errorf("got %v", err)
	}
}

func TestDeadHandles(t *testing.T) {
	r := newRig(t, Options{})
	c, err := r.CtxCreate(0, 0)
	r.ok(err)
	s, err := r.StreamCreate(c, 0)
	r.ok(err)
	e, err := r.EventCreate(c, 0)
	r.ok(err)
	p, err := r.MemAlloc(c, 100)
	r.ok(err)
	r.ok(r.CtxDestroy(c))
	r.want(cu.ErrorInvalidContext, r.CtxDestroy(c))
	r.want(cu.ErrorInvalidContext, r.CtxSynchronize(c))
	r.want(cu.ErrorInvalidContext, r.CtxSynchronize(0))
	r.want(cu.ErrorInvalidContext, r.CtxDestroy(r.ctx)) // a primary context
	r.want(cu.ErrorInvalidHandle, r.StreamQuery(r.ctx, s))
	r.want(cu.ErrorInvalidHandle, r.EventQuery(r.ctx, e))
	r.want(cu.ErrorInvalidValue, r.MemFree(r.ctx, p))
	r.want(cu.ErrorInvalidHandle, r.EventQuery(r.ctx, cu.Event(s)))
	r.want(cu.ErrorInvalidHandle, r.ModuleUnload(r.ctx, 0))
}

func TestDestroyRunsWhatIsQueued(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		c, err := r.CtxCreate(0, 0)
		r.ok(err)
		var ran atomic.Int32
		for range 10 {
			r.ok(r.LaunchHostFunc(c, 0, func() { ran.Add(1) }))
		}
		r.ok(r.CtxDestroy(c))
		if ran.Load() != 10 {
			t.Errorf("%d of 10 functions ran", ran.Load())
		}
	})
}

// A fault loses all devices for every context, old and new.
func TestFaultLosesTheDevices(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		two := newRig(t, Options{Devices: 2, Schedule: r.schedule})
		r = two
		older, err := r.CtxCreate(0, 0)
		r.ok(err)
		p, err := r.MemAlloc(older, 64)
		r.ok(err)
		elsewhere, err := r.DevicePrimaryCtxRetain(1)
		r.ok(err)
		r.ok(r.run(r.function("store"), 1, 1, 0, cu.DevicePtr(16), uint32(1)))
		lost := r.CtxSynchronize(r.ctx)
		r.want(cu.ErrorIllegalAddress, lost)
		same := func(name string, err error) {
			t.Helper()
			if !errors.Is(err, lost) {
				t.Errorf("%s: got %v, want %v", name, err, lost)
			}
		}
		same("free in an older context", r.MemFree(older, p))
		same("synchronize an older context", r.CtxSynchronize(older))
		_, err = r.CtxCreate(0, 0)
		same("create a context", err)
		a, err := r.PointerGetAttributes(older, p) // these two calls still work
		if a.DevicePointer != p || err != nil {
			t.Errorf("attributes %+v, %v", a, err)
		}
		_, err = r.CtxGetFlags(older)
		r.ok(err)
		r.ok(r.CtxDestroy(older))
		r.ok(r.DevicePrimaryCtxReset(0))
		if _, active, err := r.DevicePrimaryCtxGetState(0); active != 0 || err != nil {
			t.Errorf("active %d, %v", active, err)
		}
		_, err = r.DevicePrimaryCtxRetain(0)
		same("retain after the reset", err)
		same("synchronize the other device", r.CtxSynchronize(elsewhere))
		_, err = r.MemAlloc(elsewhere, 64)
		same("allocate on the other device", err)
		newRig(t, Options{}).alloc(64) // a new driver works
	})
}

func TestPrimaryContextAfterAReset(t *testing.T) {
	r := newRig(t, Options{})
	r.want(cu.ErrorInvalidValue, r.DevicePrimaryCtxSetFlags(0, cu.CtxMapHost))
	r.ok(r.DevicePrimaryCtxReset(0))
	_, err := r.MemAlloc(r.ctx, 8)
	r.want(cu.ErrorContextIsDestroyed, err)
	again, err := r.DevicePrimaryCtxRetain(0)
	if again != r.ctx || err != nil {
		t.Errorf("got context %#x, %v; want %#x", again, err, r.ctx)
	}
	r.alloc(8)
	r.ok(r.DevicePrimaryCtxRelease(0))
	r.alloc(8) // there were two references
	r.ok(r.DevicePrimaryCtxRelease(0))
	_, err = r.MemAlloc(r.ctx, 8)
	r.want(cu.ErrorContextIsDestroyed, err)
	r.want(cu.ErrorInvalidContext, r.DevicePrimaryCtxRelease(0))
}

// TestContextNumbers: contexts have different numbers, and a primary context has a new one after a reset.
func TestContextNumbers(t *testing.T) {
	d := newRig(t, Options{})
	number := func() uint64 {
		t.Helper()
		c, err := d.DevicePrimaryCtxRetain(0)
		d.ok(err)
		n, err := d.CtxGetId(c)
		d.ok(err)
		return n
	}
	first := number()
	if again := number(); again != first {
		t.Errorf("the same context has the numbers %d and %d", first, again)
	}
	d.ok(d.DevicePrimaryCtxReset(0))
	if after := number(); after == first {
		t.Errorf("the number is %d before and after a reset", first)
	}
}
