package softgpu

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestDestroyEndsCapture: a capture ends with the stream in which it began. After that the context
// can be waited for, and the streams that joined can be used.
func TestDestroyEndsCapture(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		s, joined, e := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking), r.event()
		r.ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeRelaxed))
		r.ok(r.EventRecord(r.ctx, e, s))
		r.ok(r.StreamWaitEvent(r.ctx, joined, e, 0))
		r.ok(r.StreamDestroy(r.ctx, s))
		r.ok(r.CtxSynchronize(r.ctx))
		r.sync(joined)
	})
}

// TestDestroyInCapture: a stream that joined a capture can be destroyed once the first stream waits
// for its work. Before, the capture ends with an error, as on an H200.
func TestDestroyInCapture(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		for _, joinedBack := range []bool{false, true} {
			s, joined, e, p := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking), r.event(), r.alloc(16)
			r.ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeRelaxed))
			r.ok(r.EventRecord(r.ctx, e, s))
			r.ok(r.StreamWaitEvent(r.ctx, joined, e, 0))
			r.ok(r.MemsetD8Async(r.ctx, p, 1, 16, joined))
			r.ok(r.EventRecord(r.ctx, e, joined))
			if joinedBack {
				r.ok(r.StreamWaitEvent(r.ctx, s, e, 0))
			}
			r.ok(r.StreamDestroy(r.ctx, joined))
			g, err := r.StreamEndCapture(r.ctx, s)
			if joinedBack {
				r.ok(err)
				r.ok(r.GraphDestroy(g))
			} else {
				r.want(cu.ErrorStreamCaptureUnjoined, err)
			}
			r.ok(r.CtxSynchronize(r.ctx))
		}
	})
}
