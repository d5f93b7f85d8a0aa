package bench

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/pipeline"
)

// TestSpeedPipe checks that each of Ferry's methods is compared with the peer's chunks and
// with its limit. Methods on page-locked memory have a goal in comparison with the limit.
func TestSpeedPipe(t *testing.T) {
	g, cases := open(t, "soft"), []PipeCase{{1 << 20, 1, "both"}, {1 << 18, 4, "kernel"}}
	alone, err := SpeedPipe(g, cases, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alone {
		if r.Ferry <= 0 || r.GoalRatio != 0 || r.PeerName != "" || !r.Met {
			t.Errorf("%+v", r)
		}
	}
	results, err := SpeedPipe(g, cases, 1, []Peer{shell("C", "while read method rounds bytes; do echo $bytes; done")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range results {
		if goal := r.GoalRatio == pipeGoal; r.Peer != 1e9 || goal != (r.PeerName != "chunks" && strings.Contains(r.What, "page-locked")) {
			t.Errorf("%+v", r)
		}
		got = append(got, r.PeerName)
	}
	want := slices.Concat(slices.Repeat([]string{"chunks", "both"}, 4), slices.Repeat([]string{"chunks", "kernel"}, 4))
	if len(alone) != 8 || !slices.Equal(got, want) {
		t.Errorf("%d results without a peer; with one: %q", len(alone), got)
	}
}

// TestPipeVerifies checks that a pipeline whose kernel omits elements is found.
func TestPipeVerifies(t *testing.T) {
	c := PipeCase{Bytes: 1 << 16, Rounds: 2}
	r, err := newPipeRun(open(t, "soft"), []PipeCase{c})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	p := r.pipes["page-locked"]
	if _, err := r.sample("page-locked", c); err != nil {
		t.Fatal(err)
	}
	p.Step = func(s *ferry.Stream, k *pipeline.Chunk) error {
		return s.Launch(r.work, ferry.Cover(k.Len/4, 256), k.Out[0], k.In[0], uint64(k.Len-4), r.rounds)
	}
	if _, err := r.sample("page-locked", c); !errors.Is(err, errDiffer) {
		t.Errorf("four elements are missing; error %v", err)
	}
}
