package bench

import (
	"strings"
	"testing"
)

// TestSpeedPin checks that only page-locking has a goal, and how results are compared with
// peers.
func TestSpeedPin(t *testing.T) {
	peers := []Peer{shell("C", "while read n; do echo 100 200; done"), shell(CachedPeer+"PyTorch, one thread", "while read n; do echo 1100 0; done")}
	results, err := SpeedPin(open(t, "soft"), 16<<20, 2, peers)
	if err != nil {
		t.Fatal(err)
	}
	beside := map[string]int{}
	for _, r := range results {
		beside[r.PeerName]++
		if goal := r.Goal == pinGoal; goal != strings.HasPrefix(r.What, "page-lock ") {
			t.Errorf("%s: goal %v", r.What, r.Goal)
		}
		if r.Ferry <= 0 || r.Samples != 2 && r.PeerName != "measured" {
			t.Errorf("%+v", r)
		}
	}
	if len(results) != 9 || beside["C"] != 2 || beside["measured"] != 1 || beside["PyTorch, one thread"] != 3 || beside[""] != 3 {
		t.Errorf("%d results, %v", len(results), beside)
	}
}
