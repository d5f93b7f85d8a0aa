package random

import (
	"flag"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/differ"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

const (
	corpusFile = "../../../../docs/results/random-h200.json"
	corpusSize = recordedSeeds
	command    = "FERRY_REQUIRE_GPU=1 go test -run TestHardware ./internal/test/differ/random -update"
)

var (
	update = flag.Bool("update", false, "write the results of hardware to the corpus")
	record = flag.String("record", corpusFile, "the file that -update writes")
	count  = flag.Int("programs", 8192, "the most fresh programs that TestHardware compares")
	limit  = flag.Duration("for", 40*time.Second, "TestHardware starts no more programs after this time")
)

// TestHardware compares random programs on this machine's GPU and on the software GPU:
// the programs of the corpus, and fresh ones.
func TestHardware(t *testing.T) {
	corpus := Corpus{Schema: Schema, Threads: threads}
	var err error
	if corpus.Machine, err = differ.MachineOf(gputest.Driver(t), command); err != nil {
		t.Fatal(err)
	}
	seed, processes := freshSeed(t), max(1, runtime.NumCPU()-2)
	tasks := make([]task, processes)
	for i := range tasks {
		tasks[i] = task{Ranges: []seedRange{part(1, corpusSize, i, processes), part(seed, *count, i, processes)}, For: *limit}
	}
	begun := time.Now()
	all := start(t, tasks)
	for _, p := range programs(1, corpusSize) {
		corpus.Programs = append(corpus.Programs, Result{p.Seed, differ.Sum([]byte(p.Text("k"))), all.Outputs[p.Seed]})
		if all.Outputs[p.Seed] == "" {
			t.Errorf("program %d of the corpus was not run", p.Seed)
		}
	}
	fresh := len(slices.DeleteFunc(slices.Clone(all.Wrong), func(seed uint64) bool { return seed <= corpusSize }))
	corpus.Fresh = Fresh{Seed: seed, Programs: len(all.Outputs) - corpusSize, Wrong: fresh, Seconds: time.Since(begun).Round(time.Millisecond).Seconds()}
	t.Logf("%d programs of the corpus, %d wrong, and %d fresh ones, %d wrong, in %.1f s",
		corpusSize, len(all.Wrong)-fresh, corpus.Fresh.Programs, fresh, corpus.Fresh.Seconds)
	corpus.Fresh.Kinds = kinds(all.Findings)
	report(t, all, corpus.Fresh.Kinds)
	if *update {
		if err := differ.WriteJSON(*record, corpus); err != nil {
			t.Fatal(err)
		}
	}
}

// kinds groups findings by kind.
func kinds(all []finding) []Kind {
	by := map[string]*Kind{}
	for _, f := range all {
		k := by[f.Kind]
		if k == nil {
			k = &Kind{Program: f.Kind, Why: folded(f.Kind)}
			by[f.Kind] = k
		}
		k.Seeds = append(k.Seeds, f.Seed)
		if f.Plain {
			k.Plain++
		}
	}
	var sorted []Kind
	for _, name := range slices.Sorted(maps.Keys(by)) {
		sorted = append(sorted, *by[name])
	}
	return sorted
}

// report logs all findings. If hardware agrees with the software GPU without optimisation,
// the difference is an error of ptxas. Other findings fail the test.
func report(t *testing.T, all results, kinds []Kind) {
	for _, k := range kinds {
		t.Logf("%d times, %d of them only with optimisation: %s\n%s", len(k.Seeds), k.Plain, k.Why, k.Program)
	}
	for _, f := range all.Findings {
		say := t.Errorf
		if f.Plain {
			say = t.Logf
		}
		say("%s", f.Text)
	}
	if n := len(all.Wrong) - len(all.Findings); n > 0 {
		t.Errorf("%d more programs were wrong and are not reported", n)
	}
}

// part returns part i of n programs, divided into parts.
func part(from uint64, n, i, parts int) seedRange {
	first, end := n*i/parts, n*(i+1)/parts
	return seedRange{From: from + uint64(first), Count: end - first}
}

func freshSeed(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano()) >> 10
	if text := os.Getenv("FERRY_DIFFER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("FERRY_DIFFER_SEED=%d", seed)
	return seed
}

// TestMiscompiled checks that ptxas still miscompiles the programs of [Miscompiled].
func TestMiscompiled(t *testing.T) {
	hard, soft := cu.Driver(gputest.Driver(t)), software(t)
	for _, p := range Miscompiled() {
		want, err := run(hard, []*Program{p})
		if err != nil {
			t.Fatal(err)
		}
		got, err := run(soft, []*Program{p})
		if err != nil {
			t.Fatal(err)
		}
		if string(got[0]) == string(want[0]) {
			t.Errorf("hardware and software agree on\n%s: remove it from Miscompiled", body(p))
		}
	}
}
