package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
)

// speedMachine says where speeds were measured.
func speedMachine(g *ferry.GPU) map[string]string {
	return map[string]string{"device": g.String(), "commit": os.Getenv("FERRY_COMMIT")}
}

// TestSpeedPin measures page-locking. With FERRY_SPEED_JSON it writes the results
// there; FERRY_PEERS is the folder of pin_c and pin.py, FERRY_SPEED_BYTES how much to
// page-lock and FERRY_SPEED_ROUNDS how often.
func TestSpeedPin(t *testing.T) {
	name, bytes, rounds := "soft", 16<<20, 2
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		name = "cuda"
	}
	for v, n := range map[string]*int{"FERRY_SPEED_BYTES": &bytes, "FERRY_SPEED_ROUNDS": &rounds} {
		if text := os.Getenv(v); text != "" {
			var err error
			if *n, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	g, err := ferry.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	results, err := SpeedPin(g, bytes, rounds, pinPeers(os.Getenv("FERRY_PEERS")))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if goal := r.Goal == pinGoal; goal != strings.HasPrefix(r.What, "page-lock ") {
			t.Errorf("%s: goal %v", r.What, r.Goal)
		}
		if r.Ferry <= 0 {
			t.Errorf("%s: %v", r.What, r.Ferry)
		}
		t.Logf("%s: %.4g %s; %s %.4g; ratio %.2f, met %v", r.What, r.Ferry, r.Unit, r.PeerName, r.Peer, r.Ratio, r.Met)
	}
	if out := os.Getenv("FERRY_SPEED_JSON"); out != "" {
		text, err := json.MarshalIndent(SpeedReport{SpeedSchema, speedMachine(g), results}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(out, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// pinPeers is the peers in a folder; none without one.
func pinPeers(dir string) []Peer {
	if dir == "" {
		return nil
	}
	c, py := filepath.Join(dir, "pin_c"), filepath.Join(dir, "pin.py")
	return []Peer{
		{"cuMemHostAlloc", []string{c, "alloc"}},
		{"C, 16 threads on huge pages, one registration", []string{c, "register"}},
		{"PyTorch", []string{"python3", py}},
		{"PyTorch, registering with 8 threads", []string{"python3", py, "register"}},
		{"cached", []string{"python3", py, "cached"}},
	}
}

// TestPeer: a peer is asked in turns, and one that fails is an error.
func TestPeer(t *testing.T) {
	r, err := Peer{"echo", []string{"sh", "-c", "while read n; do echo $n 7; done"}}.start()
	if err != nil {
		t.Skip(err)
	}
	for _, n := range []int{5, 6} {
		if a, b, err := r.sample(n); err != nil || int(a) != n || b != 7 {
			t.Errorf("%d: %v %v %v", n, a, b, err)
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	r, err = Peer{"dead", []string{"sh", "-c", "exit 3"}}.start()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.sample(1); err == nil {
		t.Error("a dead peer gives a sample")
	}
	if r.stop() == nil {
		t.Error("it ended well")
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		unit        string
		ferry, goal float64
		met         bool
		ratio       float64
	}{
		{"ns", 50, 100, true, 4}, {"ns", 200, 100, false, 1}, {"bytes_per_s", 50, 100, false, 0.25}, {"bytes_per_s", 400, 100, true, 2}, {"ns", 1e9, 0, true, 2e-7},
	} {
		got := SpeedResult{Unit: c.unit, Ferry: c.ferry, Peer: 200, Goal: c.goal}.judge()
		if got.Met != c.met || got.Ratio != c.ratio {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
