//go:build race

package softgpu

import (
	"math/rand/v2"
	"testing"
)

// TestRaceMarks: what a launch tells the race detector are ranges with exactly the bytes that it has read or
// written, in order, and no two of one kind touch.
func TestRaceMarks(t *testing.T) {
	const from, size = 1<<20 - 500, 3 << racePageShift
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var marks raceMarks
		want := map[raceHow]map[uintptr]bool{kernelRead: {}, kernelWrite: {}}
		add := func(how raceHow, p, n uintptr) {
			for i := range n {
				want[how][p+i] = true
			}
		}
		for range 1 + rng.IntN(20) {
			how, n := kernelRead+raceHow(rng.IntN(2)), uintptr(1)<<rng.IntN(6)
			if rng.IntN(2) == 0 {
				p, n := from+uintptr(rng.IntN(size)), uintptr(rng.IntN(300))
				marks.add(how == kernelWrite, p, n)
				add(how, p, n)
				continue
			}
			var offs [32]uint64
			mask, stride := rng.Uint32(), rng.IntN(100)
			for i := range offs {
				offs[i] = uint64(i * stride)
				if stride == 0 {
					offs[i] = rng.Uint64N(size)
				}
				if mask>>i&1 != 0 {
					add(how, from+uintptr(offs[i]), n)
				}
			}
			marks.addLanes(how == kernelWrite, from, offs, mask, n)
		}
		last := map[raceHow]uintptr{}
		marks.flush(func(a raceAccess) {
			if a.p <= last[a.how] || a.n == 0 {
				t.Fatalf("round %d: %d bytes at %d follow a range that ends at %d", round, a.n, a.p, last[a.how])
			}
			last[a.how] = a.p + a.n
			for i := range a.n {
				if !want[a.how][a.p+i] {
					t.Fatalf("round %d: byte %d is told of, but was not accessed", round, a.p+i)
				}
				delete(want[a.how], a.p+i)
			}
		})
		if n := len(want[kernelRead]) + len(want[kernelWrite]); n > 0 {
			t.Fatalf("round %d: %d bytes are not told of", round, n)
		}
	}
}
