package bench

import (
	"errors"
	"strings"
	"testing"
)

// TestSpeedStage checks that slices are copied in both directions, and compared with peers
// within the limits that the peers state.
func TestSpeedStage(t *testing.T) {
	cases := []StageCase{{Bytes: 2, In: true}, {Bytes: 2}, {Bytes: 1 << 20, In: true}, {Bytes: 1 << 20}, {Bytes: 1 << 20, In: true, Huge: true}}
	peer := shell("sh", `echo "short<=2 back:out cuMemcpy"; while read method way bytes; do echo $bytes; done`)
	results, err := SpeedStage(open(t, "soft"), cases, 1, []Peer{peer})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range results {
		got[r.PeerName]++
		if strings.Contains(r.What, "slice in") && r.PeerName == "back" || strings.Contains(r.What, "2m") && r.PeerName == driverInC {
			t.Errorf("%+v", r)
		}
		if r.Ferry <= 0 || r.Peer <= 0 || (r.GoalRatio == 1) != (r.PeerName == driverInC) || r.PeerName == "short" && r.Peer != 1e9 {
			t.Errorf("%+v", r)
		}
	}
	if got["short"] != 2 || got["back"] != 2 || got[driverInC] != 4 || got[driverHere] != 5 || got[locked] != 5 || results[0].What != "plain slice in, 2 bytes, 4k pages" {
		t.Error(got, results[0].What)
	}
	_, err = SpeedStage(open(t, "soft"), cases, 1, []Peer{shell("sh", "echo cuMemcpy; while read line; do echo -1 the bytes differ; done")})
	if err == nil || !strings.Contains(err.Error(), "the bytes differ") {
		t.Errorf("got %v, want the error of the peer", err)
	}
}

// TestLimitPeers checks that of the peers only the ring in C copies more than large bytes.
func TestLimitPeers(t *testing.T) {
	ways := []way{{name: locked, most: 4 * large}, {name: driverInC, most: 4 * large, peer: true}, {name: ringInC, most: 4 * large, peer: true}, {name: "short", most: 2, peer: true}}
	limitPeers(ways)
	for i, want := range []int{4 * large, large, 4 * large, 2} {
		if ways[i].most != want {
			t.Errorf("%s copies up to %d bytes, want %d", ways[i].name, ways[i].most, want)
		}
	}
}

// TestHugePages checks that a case on huge pages uses its own memory.
func TestHugePages(t *testing.T) {
	var undo closers
	defer func() {
		if err := undo.close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := newStageRun(open(t, "soft"), 4096, 4096, &undo)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.sample("", StageCase{Bytes: 4096, In: true, Huge: true}); err != nil {
		t.Fatal(err)
	}
	if err := checkPattern(r.huge, r.turn); err != nil || r.pageable[8] != 0 {
		t.Errorf("memory on small pages begins with %x; memory on huge pages: %v", r.pageable[:16], err)
	}
}

// TestStageGoals checks the goals below and from large bytes on.
func TestStageGoals(t *testing.T) {
	for _, c := range []struct {
		StageCase
		peer string
		want float64
	}{
		{StageCase{Bytes: large, In: true}, driverInC, goalOfDriverIn}, {StageCase{Bytes: large, In: false}, driverInC, goalOfDriver}, {StageCase{Bytes: large / 2, In: true}, driverInC, 1},
		{StageCase{Bytes: large, In: true}, locked, goalOfLocked}, {StageCase{Bytes: large / 2, In: true}, locked, 0}, {StageCase{Bytes: large, In: true}, driverHere, 0},
		{StageCase{Bytes: large, In: true}, ringInC, goalOfRing}, {StageCase{Bytes: large / 2, In: true}, ringInC, 0},
	} {
		if got := c.goal(c.peer); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestPattern checks that checkPattern finds a wrong byte and the bytes of another turn.
func TestPattern(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 1000, 300_001} {
		p := make([]byte, n)
		writePattern(p, 1)
		if err := checkPattern(p, 1); err != nil {
			t.Errorf("%d bytes are not what was written: %v", n, err)
		}
		p[n-1] ^= 1
		for turn := range uint64(2) {
			if err := checkPattern(p, turn+1); !errors.Is(err, errDiffer) {
				t.Errorf("%d bytes, turn %d: wrong bytes are not found: %v", n, turn+1, err)
			}
		}
	}
}
