package random

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/internal/differ"
)

// optimised is programs of the corpus that hardware runs otherwise than the ISA
// says, since ptxas makes one conversion of two: see docs/softgpu/differential.md.
var optimised = map[uint64]string{
	338: "cvt.rmi.ftz.u32.f32 and cvt.sat.s16.u32 become one conversion, which does not stop at zero",
	351: "abs.s32 of -2^31 is taken for 2^31 by cvt.sat.u64.s32",
}

// TestRecorded runs the corpus on the software GPU and compares with what
// hardware did.
func TestRecorded(t *testing.T) {
	var corpus Corpus
	if err := differ.ReadJSON(corpusFile, &corpus); err != nil {
		t.Fatal(err)
	}
	if corpus.Threads != threads || len(corpus.Programs) != corpusSize {
		t.Fatalf("the corpus is %d programs of %d threads, want %d of %d: %s", len(corpus.Programs), corpus.Threads, corpusSize, threads, command)
	}
	if testing.Short() {
		corpus.Programs = corpus.Programs[:96]
	}
	for some := range slices.Chunk(corpus.Programs, 48) {
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
			t.Fatalf("seed %d makes another program than the one recorded: %s", r.Seed, command)
		}
		got, why := differ.Sum(out[i]), optimised[r.Seed]
		switch {
		case why == "" && got != r.Output:
			t.Errorf("seed %d: hash %s, hardware had %s:\n%s", r.Seed, got, r.Output, all[i].Text("k"))
		case why != "" && got == r.Output:
			t.Errorf("seed %d: hardware agrees; it is not so that %s", r.Seed, why)
		}
	}
}
