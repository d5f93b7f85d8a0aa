//go:build race

package softgpu

import (
	"errors"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestLateErrorAcquires: a call that returns a panic follows the host function, also if the stream
// got the function while the call waited for what was there before.
func TestLateErrorAcquires(t *testing.T) {
	r := newRig(t, Options{})
	s, other, n := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking), 0
	p := r.alloc(16)
	r.ok(r.LaunchHostFunc(r.ctx, s, func() {
		n++
		panic(&n)
	}))
	mustEnd(t, "the panic", func() error {
		for {
			r.mu.Lock()
			c, err := r.context(r.ctx, "test")
			if err == nil {
				err = c.reportLate()
			}
			r.mu.Unlock()
			if p := (*cu.HostPanic)(nil); errors.As(err, &p) {
				*p.Value.(*int)++
				return nil
			} else if err != nil {
				return err
			}
			err = errors.Join(r.MemsetD8Async(r.ctx, p, 1, 16, other), r.StreamSynchronize(r.ctx, other)) // lets time pass
			if err != nil {
				return err
			}
		}
	})
	r.ok(r.StreamSynchronize(r.ctx, s))
}
