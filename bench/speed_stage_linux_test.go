package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestSpeedStage measures copies of ordinary memory. With FERRY_SPEED_JSON it writes
// the results there; FERRY_PEERS is the folder of stage_c and stage.py.
func TestSpeedStage(t *testing.T) {
	name, most, samples := "soft", 1<<20, 1
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		name, most, samples = "cuda", 1<<30, 7
	}
	if text := os.Getenv("FERRY_SPEED_BYTES"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	g, err := ferry.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	results, err := SpeedStage(g, StageCases(most, samples), stagePeers(os.Getenv("FERRY_PEERS")), mapped)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Ferry <= 0 || r.Peer <= 0 {
			t.Errorf("%s: %v, %s %v", r.What, r.Ferry, r.PeerName, r.Peer)
		}
		if r.Goal > 0 {
			t.Logf("%s: %.4g; %s %.4g; ratio %.3f, met %v", r.What, r.Ferry, r.PeerName, r.Peer, r.Ratio, r.Met)
		}
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

// stagePeers is the peers in a folder; none without one.
func stagePeers(dir string) (peers []Peer) {
	for name, command := range map[string][]string{"stage_c": nil, "stage.py": {"python3"}} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); dir != "" && err == nil {
			peers = append(peers, Peer{name, append(command, path)})
		}
	}
	return peers
}

// mapped is memory on ordinary or huge pages.
func mapped(n int, huge bool) ([]byte, error) {
	m, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	advice := syscall.MADV_NOHUGEPAGE
	if huge {
		advice = syscall.MADV_HUGEPAGE
	}
	_ = syscall.Madvise(m, advice) // without huge pages in the kernel there is nothing to advise
	clear(m)
	return m, nil
}

// TestScatter: what was not copied is seen.
func TestScatter(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 1000, 300_001} {
		p := make([]byte, n)
		scatter(p, 1)
		if !scattered(p, 1) {
			t.Errorf("%d bytes are not what was written", n)
		}
		p[n-1] ^= 1
		if scattered(p, 1) || scattered(p[:n], 2) {
			t.Errorf("of %d bytes the last differs, or all, and nobody sees it", n)
		}
	}
}

// TestStageCases: every power of two is there, both ways, and large ones on huge pages.
func TestStageCases(t *testing.T) {
	count := map[string]int{}
	for _, c := range StageCases(1<<30, 7) {
		count[c.Direction+" "+c.Pages]++
		if c.Samples < 4 {
			t.Errorf("%+v", c)
		}
	}
	if count["in 4k"] != 31 || count["out 4k"] != 31 || count["in huge"] != 1 || count["out huge"] != 1 {
		t.Error(count)
	}
}

// TestStageLimit: a peer that says up to what size it copies is asked for no more.
func TestStageLimit(t *testing.T) {
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	peer := Peer{"sh", []string{"sh", "-c", `echo "short<=2 long"; while read x; do echo 5; done`}}
	results, err := SpeedStage(g, StageCases(4, 1), []Peer{peer}, mapped)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range results {
		got[r.PeerName]++
	}
	if got["short"] != 4 || got["long"] != 6 || got[cuMemcpyHere] != 6 {
		t.Error(got)
	}
}
