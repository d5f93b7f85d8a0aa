package check

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestDestroyedStream: the work of a destroyed stream goes on. The default stream follows it, if it
// orders that stream.
func TestDestroyedStream(t *testing.T) {
	for _, blocking := range []bool{true, false} {
		o := &orders{lanes: map[laneKey]*lane{}, events: map[cu.Event]*event{}}
		l := o.newLane(laneKey{stream: 5}, 1, blocking)
		n := o.next(l)
		o.done(l, n)
		o.destroyed(o.take(5))
		if got := o.reach(o.lane(1, 0)).At(l.slot) >= n; got != blocking {
			t.Errorf("blocking %v: the default stream follows the destroyed one: %v", blocking, got)
		}
	}
}
