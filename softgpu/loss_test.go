package softgpu

import (
	"errors"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// A fault takes all devices away from every context, old and new.
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
		a, err := r.PointerGetAttributes(older, p) // these two go on
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
		newRig(t, Options{}).alloc(64) // a new driver is well
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
