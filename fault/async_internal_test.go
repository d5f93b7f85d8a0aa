package fault

import (
	"errors"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestAsyncBesideWait: a copy to pageable memory that was not made returns the fault, also if a
// wait on another goroutine returns it first.
func TestAsyncBesideWait(t *testing.T) {
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := Wrap(soft, Options{Call: "cuMemcpyDtoHAsync", Nth: 1, Mode: Async, Code: cu.ErrorIllegalAddress})
	if err := d.Init(0); err != nil {
		t.Fatal(err)
	}
	ctx, err := d.DevicePrimaryCtxRetain(0)
	if err != nil {
		t.Fatal(err)
	}
	out := d.next("cuMemcpyDtoHAsync", false, ctx)
	if err := d.CtxSynchronize(ctx); !errors.Is(err, cu.ErrorIllegalAddress) {
		t.Errorf("the wait returns %v", err)
	}
	var pageable [64]byte
	if out = d.copiesTo(out, ctx, cu.DevicePtr(addressOf(cu.HostPtr(&pageable[0]))), 0); !errors.Is(out.err, cu.ErrorIllegalAddress) {
		t.Errorf("the copy returns %v", out.err)
	}
}
