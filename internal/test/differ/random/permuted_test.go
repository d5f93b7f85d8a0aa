package random

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/differ/permute"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// orders is how many orders of blocks TestPermuted runs.
var orders = sample.Count(1, 4)

// TestPermuted runs programs with their basic blocks in another order. The outputs must be
// those of the text as it is: the order of execution is that of the branches. With [sample.Full]
// it runs all programs of the corpus and 1,024 others.
func TestPermuted(t *testing.T) {
	all := slices.Concat(programs(1, 64), programs(recordedSeeds+1, 32))
	if sample.Full() {
		all = programs(1, recordedSeeds+1024)
	}
	var runs, blocks atomic.Int64
	t.Run("programs", func(t *testing.T) {
		for some := range slices.Chunk(all, 32) {
			t.Run(fmt.Sprint(some[0].Seed), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(orders) {
					runs.Add(int64(len(some)))
					blocks.Add(int64(comparePermuted(t, some, seed)))
				}
			})
		}
	})
	t.Logf("%d runs of programs, with %d blocks moved", runs.Load(), blocks.Load())
	if runs.Load() == 0 {
		t.Error("no program was run")
	}
}

// comparePermuted runs programs and their permuted forms, and returns how many blocks were
// moved.
func comparePermuted(t *testing.T, some []*Program, seed uint64) int {
	text := Module(some)
	permuted, moved, err := permute.Blocks(text, seed)
	if err != nil {
		t.Fatal(err)
	}
	if moved < 2*len(some) {
		t.Errorf("%d blocks of %d programs were moved", moved, len(some))
	}
	want, err := runImage(software(t), []byte(text), some)
	if err != nil {
		t.Fatal(err)
	}
	got, err := runImage(software(t), []byte(permuted), some)
	if err != nil {
		t.Fatalf("with the blocks in order %d: %v", seed, err)
	}
	for i, p := range some {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("with the blocks in order %d the program of seed %d computes something else:\n%s", seed, p.Seed, p.Text("k"))
		}
	}
	return moved
}
