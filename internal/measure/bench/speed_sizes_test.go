package bench

import (
	"math/bits"
	"testing"
)

// TestSpeedSizes checks that every power of two is measured in both directions, and compared
// with cuMemcpy in this process and, up to beyondCaches, in C.
func TestSpeedSizes(t *testing.T) {
	const most = 2 * beyondCaches
	peer := shell("C", "echo cuMemcpy threads pinned; while read line; do echo 1000; done")
	results, err := SpeedSizes(open(t, "soft"), most, 1, []Peer{peer})
	if err != nil {
		t.Fatal(err)
	}
	type key struct {
		StageCase
		peer string
	}
	got := map[key]bool{}
	for _, r := range results {
		c, ok := r.ofSizes()
		if !ok || got[key{c, r.PeerName}] || r.Target != stageTarget || r.GoalRatio != sizesGoal || r.Unit != "ns" || r.Ferry <= 0 || r.Peer <= 0 {
			t.Errorf("%+v: %+v, %v", r, c, ok)
		}
		got[key{c, r.PeerName}] = true
	}
	for n := 1; n <= most; n *= 2 {
		for _, in := range []bool{true, false} {
			if c := (StageCase{Bytes: n, In: in}); !got[key{c, driverHere}] || got[key{c, driverInC}] != (n <= beyondCaches) {
				t.Errorf("%+v is not compared with this process, or wrongly with C", c)
			}
		}
	}
	if want := 2 * (bits.Len(most) + bits.Len(beyondCaches)); len(got) != want {
		t.Errorf("%d results, want %d", len(got), want)
	}
}
