package softgpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestAwaitedErrorIsToldOnce: a call that waits for its own operation returns the operation's
// error, whatever it is, and no later call does.
func TestAwaitedErrorIsToldOnce(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		const what = "copy that fails"
		s := r.stream(0)
		await := func() error {
			c, err := r.beginIn(r.ctx, what)
			r.ok(err)
			defer r.mu.Unlock()
			at, err := c.stream(s, what)
			r.ok(err)
			o, err := at.enqueue(&work{kind: cu.GraphNodeTypeMemcpy, what: what, run: func(*op) error { return errors.New("planned") }}, what)
			r.ok(err)
			return at.await(o)
		}
		if err := await(); err == nil || strings.Count(err.Error(), "planned") != 1 {
			t.Errorf("the call returns %v", err)
		}
		r.ok(r.StreamSynchronize(r.ctx, s))
		r.ok(r.CtxSynchronize(r.ctx))
	})
}
