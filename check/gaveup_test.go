package check_test

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestGaveUp: what the check drops is counted, and said once. Programs of usual size drop nothing.
func TestGaveUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  string // a part of what was given up; "" for nothing
		count int
		run   func(r *rig)
	}{
		{"800 fills of other bytes and no wait", "uses of an allocation were forgotten", 384, func(r *rig) {
			for i := range cu.DevicePtr(800) {
				ok(r.MemsetD8Async(r.ctx, address(r.host)+2*i, 1, 1, r.a))
			}
		}},
		{"300 ranges that do not touch", "ranges that were written are not followed", 1, func(r *rig) {
			p := r.alloc()
			for i := range cu.DevicePtr(300) {
				ok(r.MemsetD8Async(r.ctx, p+2*i, 1, 1, r.a))
				r.sync(r.a)
			}
		}},
		{"300 ranges in order", "", 0, func(r *rig) {
			p := r.alloc()
			for i := range cu.DevicePtr(300) {
				ok(r.MemsetD8Async(r.ctx, p+i, 1, 1, r.a))
				r.sync(r.a)
			}
		}},
		{"5000 frees", "freed allocations were forgotten", 1024, func(r *rig) {
			for range 5000 {
				ok(r.MemFree(r.ctx, r.alloc()))
			}
		}},
		{"300 copies in flight", "sources of copies were not compared", 44, func(r *rig) {
			for i := range cu.DevicePtr(300) {
				ok(r.MemcpyHtoDAsync(r.ctx, r.dev+i, at(r.host), 1, r.a))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if racebuild.On && strings.HasPrefix(c.want, "sources") {
				t.Skip("page-locked memory is on Go's heap here, which the race detector watches")
			}
			var out strings.Builder
			d := check.Wrap(got(softgpu.Open(softgpu.Options{})), check.Options{Output: &out})
			r := newRig(d)
			c.run(r)
			list := d.GaveUp()
			if c.want == "" {
				if len(list) != 0 {
					t.Errorf("gave up %v", list)
				}
				return
			}
			if len(list) != 1 || !strings.Contains(list[0].What, c.want) || list[0].Count != c.count {
				t.Errorf("gave up %v, want %q %d times", list, c.want, c.count)
			}
			if n := strings.Count(out.String(), "gave up something"); n != 1 {
				t.Errorf("it was said %d times:\n%s", n, out.String())
			}
		})
	}
}
