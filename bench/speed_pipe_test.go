package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestSpeedPipe measures pipelines. With FERRY_SPEED_JSON it writes the results there;
// FERRY_PEERS is the folder of pipe_c.
func TestSpeedPipe(t *testing.T) {
	name, cases := "soft", []PipeCase{{1 << 20, 1, 1, "both"}, {1 << 18, 4, 1, "kernel"}}
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		name, cases = "cuda", []PipeCase{{1 << 30, 1, 9, "both"}, {64 << 20, 1, 9, "both"}, {4 << 20, 1, 9, "both"}, {1 << 30, 8192, 9, "kernel"}}
	}
	var peer *Peer
	if dir := os.Getenv("FERRY_PEERS"); dir != "" {
		peer = &Peer{"C", []string{filepath.Join(dir, "pipe_c"), filepath.Join(dir, "work.ptx")}}
	}
	g, err := ferry.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	results, err := SpeedPipe(g, cases, peer)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Ferry <= 0 {
			t.Errorf("%s: %v", r.What, r.Ferry)
		}
		t.Logf("%s: %.4g; %s %.4g; ratio %.3f, met %v", r.What, r.Ferry, r.PeerName, r.Peer, r.Ratio, r.Met)
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

// TestPipeVerifies: a pipeline whose kernel does too little is seen.
func TestPipeVerifies(t *testing.T) {
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c := PipeCase{Bytes: 1 << 16, Rounds: 2}
	r, err := newPipeRun(g, []PipeCase{c})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	p := r.pipes["page-locked"]
	if _, err := r.sample("page-locked", c, nil); err != nil {
		t.Fatal(err)
	}
	p.Step = func(s *ferry.Stream, k *ferry.Chunk) error {
		return s.Launch(r.work, ferry.Grid(k.Len/4, 256), k.Out[0], k.In[0], uint64(k.Len-4), r.rounds)
	}
	if _, err := r.sample("page-locked", c, nil); err != errWrongResult {
		t.Errorf("four elements are missing, and the error is %v", err)
	}
}
