package differ

import (
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/differ/permute"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// orders is how many orders of blocks TestPermuted runs.
var orders = sample.Count(1, 4)

// TestPermuted runs the kernels with the basic blocks of each function in another order. The
// outputs must be those of the text as it is: the order of execution is that of the
// branches. The sample has one target of each family.
func TestPermuted(t *testing.T) {
	var pairs, blocks atomic.Int64
	t.Run("modules", func(t *testing.T) {
		for _, family := range Families() {
			for _, target := range sample.Of(t, targets(t, family), 1) {
				t.Run(family+"/"+target, func(t *testing.T) {
					t.Parallel()
					text := source(t, family, target)
					for seed := range uint64(orders) {
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
