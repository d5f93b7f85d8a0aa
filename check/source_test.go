package check_test

import (
	"os"
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestSourceWithHole: a source of which the program has unmapped a page, before or after the call
// of the copy, does not end the program, and is no finding of a change.
func TestSourceWithHole(t *testing.T) {
	if !canMap {
		t.Skip("the test maps memory on Linux only")
	}
	for _, before := range []bool{false, true} {
		d := check.Wrap(got(softgpu.Open(softgpu.Options{Profile: h200(), Check: "0"})), check.Options{})
		r := newRig(d)
		page := os.Getpagesize()
		p := mapping(3 * page)
		ok(r.MemHostRegister(r.ctx, at(p), uintptr(len(p)), 0))
		to := got(r.MemAlloc(r.ctx, uintptr(len(p))))
		if before {
			unmap(p[page : 2*page])
		}
		_ = r.MemcpyHtoDAsync(r.ctx, to, at(p), uintptr(len(p)), r.a)
		if !before {
			unmap(p[page : 2*page])
		}
		_ = r.StreamSynchronize(r.ctx, r.a) // the copy may fail
		for _, f := range d.Findings() {
			if f.Kind == check.HostInFlight {
				t.Errorf("unmapped before the call %v: %v", before, f)
			}
		}
	}
}
