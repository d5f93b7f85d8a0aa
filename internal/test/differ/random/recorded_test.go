package random

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/differ"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// optimised is the programs of the corpus that ptxas compiles against the ISA, with the
// reasons. See docs/softgpu/differential.md.
var optimised = map[uint64]string{
	338: "cvt.rmi.ftz.u32.f32 and cvt.sat.s16.u32 are merged into one conversion, which does not saturate at zero",
	351: "abs.s32 of -2^31 is taken for 2^31 by cvt.sat.u64.s32",
}

// TestRecorded runs a sample of the corpus on the software GPU and compares with the recorded
// results of hardware.
func TestRecorded(t *testing.T) {
	var corpus Corpus
	if err := differ.ReadJSON(corpusFile, &corpus); err != nil {
		t.Fatal(err)
	}
	if corpus.Threads != threads || len(corpus.Programs) != corpusSize {
		t.Fatalf("the corpus is %d programs of %d threads, want %d of %d: %s", len(corpus.Programs), corpus.Threads, corpusSize, threads, command)
	}
	for _, some := range sample.Of(t, slices.Collect(slices.Chunk(corpus.Programs, 48)), 4) {
		t.Run(fmt.Sprint(some[0].Seed), func(t *testing.T) {
			t.Parallel()
			checkRecorded(t, some)
		})
	}
}

func checkRecorded(t *testing.T, some []Result) {
	all := programs(some[0].Seed, len(some))
	out, err := run(software(t), all)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range some {
		if text := differ.Sum([]byte(all[i].Text("k"))); text != r.Text {
			t.Fatalf("the program of seed %d has changed since it was recorded; record it with: %s", r.Seed, command)
		}
		got, why := differ.Sum(out[i]), optimised[r.Seed]
		switch {
		case why == "" && got != r.Output:
			t.Errorf("seed %d: hash %s, hardware had %s:\n%s", r.Seed, got, r.Output, all[i].Text("k"))
		case why != "" && got == r.Output:
			t.Errorf("seed %d: hardware agrees, although %s", r.Seed, why)
		}
	}
}
