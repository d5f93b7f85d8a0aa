package random

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/differ"
	"github.com/ferrygpu/ferry/internal/gputest"
)

const (
	corpusFile = "../../../docs/results/random-h200.json"
	corpusSize = 384
	command    = "FERRY_REQUIRE_GPU=1 go test -run TestHardware ./internal/differ/random -update"
)

var (
	update = flag.Bool("update", false, "write what hardware did to the corpus")
	record = flag.String("record", corpusFile, "where -update writes")
	count  = flag.Int("programs", 8192, "how many fresh programs TestHardware compares, at most")
	limit  = flag.Duration("for", 40*time.Second, "how long TestHardware begins with further ones")
)

// TestHardware compares random programs on this machine's GPU and on the software
// GPU: those of the corpus, and fresh ones.
func TestHardware(t *testing.T) {
	corpus := Corpus{Schema: Schema, Threads: threads}
	var err error
	if corpus.Machine, err = differ.On(gputest.Driver(t), command); err != nil {
		t.Fatal(err)
	}
	processes := max(1, runtime.NumCPU()/2)
	begun := time.Now()
	old := start(t, split(1, corpusSize, processes, time.Hour))
	for _, p := range programs(1, corpusSize) {
		corpus.Programs = append(corpus.Programs, Result{p.Seed, differ.Sum([]byte(p.Text("k"))), old.Outputs[p.Seed]})
	}
	t.Logf("%d programs of the corpus, %d wrong, in %.1f s", len(old.Outputs), old.Wrong, time.Since(begun).Seconds())
	seed := freshSeed(t)
	begun = time.Now()
	fresh := start(t, split(seed, *count, processes, *limit))
	corpus.Fresh = Fresh{Seed: seed, Programs: len(fresh.Outputs), Wrong: fresh.Wrong, Seconds: time.Since(begun).Round(time.Millisecond).Seconds()}
	t.Logf("%d fresh programs, %d wrong, in %.1f s", corpus.Fresh.Programs, corpus.Fresh.Wrong, corpus.Fresh.Seconds)
	fresh.add(&old)
	looked := 0
	for kind, n := range fresh.Kinds {
		looked += n
		if why := folded(kind); why != "" {
			t.Logf("%d times: %s:\n%s", n, why, kind)
			corpus.Fresh.Folded += n
			continue
		}
		t.Errorf("%d times:\n%s\n%s", n, kind, fresh.First[kind])
	}
	if looked < fresh.Wrong {
		t.Errorf("%d programs more went wrong and were not looked at", fresh.Wrong-looked)
	}
	if *update {
		if err := differ.WriteJSON(*record, corpus); err != nil {
			t.Fatal(err)
		}
	}
}

// split is n programs as a task for each process.
func split(from uint64, n, processes int, limit time.Duration) []task {
	var all []task
	for i := range processes {
		first, end := n*i/processes, n*(i+1)/processes
		all = append(all, task{From: from + uint64(first), Count: end - first, For: limit})
	}
	return all
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

// TestMiscompiled: the programs that are left out of the comparison are those
// that hardware still runs otherwise.
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
			t.Errorf("hardware and software agree on\n%s: it need not be left out", body(p))
		}
	}
}
