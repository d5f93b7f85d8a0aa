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

// TestDestroyInvalidatesCapture: a capture whose joined stream is destroyed has no graph, but ends.
func TestDestroyInvalidatesCapture(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		s, joined, e := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking), r.event()
		r.ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeRelaxed))
		r.ok(r.EventRecord(r.ctx, e, s))
		r.ok(r.StreamWaitEvent(r.ctx, joined, e, 0))
		r.ok(r.StreamDestroy(r.ctx, joined))
		_, err := r.StreamEndCapture(r.ctx, s)
		r.want(cu.ErrorStreamCaptureInvalidated, err)
		r.ok(r.CtxSynchronize(r.ctx))
	})
}
