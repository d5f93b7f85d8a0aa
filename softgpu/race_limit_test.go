//go:build race

package softgpu

import "testing"

// Events complete as soon as they are released, so nothing is left to wait for
// after the release of a queue that is too long.
func TestFullRaceQueueOfEvents(t *testing.T) {
	r := newRig(t, Options{Schedule: Lazy})
	e := r.event()
	mustEnd(t, "EventRecord", func() error {
		for range maxRaceOps + 10 {
			if err := r.EventRecord(r.ctx, e, 0); err != nil {
				return err
			}
		}
		return r.CtxSynchronize(r.ctx)
	})
}
