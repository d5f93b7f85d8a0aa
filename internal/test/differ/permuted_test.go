package differ

import (
	"flag"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/differ/permute"
)

var orders = flag.Int("orders", 0, "how many orders of blocks TestPermuted runs for every pair of kernel and target; 0 is one, for a sample")

// TestPermuted runs the kernels with the basic blocks of each function in another order. The
// outputs must be those of the text as it is: the order of execution is that of the
// branches. The sample has one target of each family; -orders 2 takes all targets.
func TestPermuted(t *testing.T) {
	var pairs, blocks atomic.Int64
	t.Run("modules", func(t *testing.T) {
		for at, family := range Families() {
			all := targets(t, family)
			if *orders == 0 {
				all = all[at%len(all):][:1]
			}
			for _, target := range all {
				t.Run(family+"/"+target, func(t *testing.T) {
					t.Parallel()
					text := source(t, family, target)
					for seed := range uint64(max(1, *orders)) {
						n, moved := comparePermuted(t, family, target, text, seed)
						pairs.Add(int64(n))
						blocks.Add(int64(moved))
					}
				})
			}
		}
	})
	t.Logf("%d runs of kernels, with %d blocks moved", pairs.Load(), blocks.Load())
	if pairs.Load() == 0 {
		t.Error("no kernel was run")
	}
}

// comparePermuted runs all kernels of a module and of its permuted form.
func comparePermuted(t *testing.T, family, target string, text []byte, seed uint64) (kernels, moved int) {
	permuted, moved, err := permute.Blocks(string(text), seed)
	if err != nil {
		t.Fatal(err)
	}
	if moved == 0 {
		t.Errorf("no block was moved")
	}
	plain, other := bench(t, software(t), text), bench(t, software(t), []byte(permuted))
	for _, c := range CasesOf(family) {
		if !c.On(target) {
			continue
		}
		kernels++
		in := c.Inputs(7)
		want, err := plain.Run(c, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := other.Run(c, in)
		if err == nil {
			_, err = Compare(c, got, want)
		}
		if err != nil {
			t.Fatalf("with the blocks in order %d: %v", seed, err)
		}
	}
	return kernels, moved
}
