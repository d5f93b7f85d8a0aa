package differ

import (
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

const (
	recordFile = "../../../docs/results/differential-h200.json"
	command    = "FERRY_REQUIRE_GPU=1 go test -run TestHardware ./internal/test/differ -update"
)

var (
	update = flag.Bool("update", false, "write the results of hardware to the record, and the tables to the documentation")
	record = flag.String("record", recordFile, "the file that TestHardware -update writes")
)

// seedVariable sets the seed of the fresh inputs of TestHardware. The default is the time.
const seedVariable = "FERRY_DIFFER_SEED"

func freshSeed(t testing.TB) uint64 {
	seed := uint64(time.Now().UnixNano()) >> 10
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// TestHardware runs every kernel on this machine's GPU and on the software GPU,
// with the recorded inputs and with fresh ones.
func TestHardware(t *testing.T) {
	gpu := gputest.Driver(t)
	seed := freshSeed(t)
	all := &Record{Schema: Schema, Seed: 1, Fresh: []uint64{seed, seed + 1, seed + 2}}
	var err error
	if all.Machine, err = MachineOf(gpu, command); err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(gpu, 0) // keeps the context, which else would be created for each module
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	// The search trees of tree_walk can be deeper than the stack that a thread has by default.
	if err := gpu.CtxSetLimit(g.CUContext(), cu.LimitStackSize, 16<<10); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	found := map[string][]Result{}
	t.Run("modules", func(t *testing.T) {
		eachModule(t, func(t *testing.T, family, target string) {
			ptx := source(t, family, target)
			hard, soft := bench(t, gpu, ptx), bench(t, software(t), ptx)
			for _, c := range CasesOf(family) {
				if !c.On(target) {
					continue
				}
				r := both(t, hard, soft, c, target, append([]uint64{all.Seed}, all.Fresh...))
				r.PTX = Sum(ptx)
				mu.Lock()
				found[c.Kernel] = append(found[c.Kernel], r)
				mu.Unlock()
			}
		})
	})
	for i := range Cases {
		for _, target := range targets(t, Cases[i].Family) {
			for _, r := range found[Cases[i].Kernel] {
				if r.Target == target {
					all.Results = append(all.Results, r)
				}
			}
		}
	}
	t.Logf("%d kernels, %d with their targets", len(found), len(all.Results))
	if *update {
		if err := WriteJSON(*record, all); err != nil {
			t.Fatal(err)
		}
	}
}

// both runs a kernel on both benches for each seed. The result has the outputs of the
// first seed.
func both(t *testing.T, hard, soft *Bench, c *Case, target string, seeds []uint64) Result {
	r := Result{Family: c.Family, Kernel: c.Kernel, Target: target, Equal: true}
	for i, seed := range seeds {
		want, err := hard.Run(c, c.Inputs(seed))
		if err != nil {
			t.Fatalf("hardware: %v", err)
		}
		if i == 0 {
			r.Outputs = Outputs(c, want)
		}
		got, err := soft.Run(c, c.Inputs(seed))
		compared := 0
		if err == nil {
			compared, err = Compare(c, got, want)
		}
		r.Compared += compared
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			r.Equal, r.Wrong = false, err.Error()
		}
	}
	return r
}
