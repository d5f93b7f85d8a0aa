package bench

import "testing"

// TestSpeedRequests: each request is measured in both directions beside page-locked memory, cuMemcpy and a ring, and
// tokens beside the driver's own copies.
func TestSpeedRequests(t *testing.T) {
	peer := shell("C", "echo cuMemcpy ring threads; while read line; do echo 1000; done")
	results, err := SpeedRequests(open(t, "soft"), 1, []Peer{peer})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range results {
		if r.Target != stageTarget || r.Unit != "bytes_per_s" || r.Ferry <= 0 || r.Peer <= 0 {
			t.Errorf("%+v", r)
		}
		got[r.PeerName]++
	}
	each := 2 * len(requests)
	want := map[string]int{locked: each + 1, driverHere: each + 1, driverInC: each, ringInC: each}
	for peer, n := range want {
		if got[peer] != n {
			t.Errorf("%d rows beside %s, want %d", got[peer], peer, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the peers are %v", got)
	}
}
