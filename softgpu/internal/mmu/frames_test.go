package mmu

import (
	"math/rand/v2"
	"testing"
)

// TestFrames takes and gives frames at random. No frame is allocated twice, and
// freed frames are used again.
func TestFrames(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	f := &Frames{Next: 4096}
	type run struct{ base, n uint64 }
	var have []run
	owner := map[uint64]bool{}
	for range 4000 {
		if len(have) > 40 || len(have) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(have))
			p := have[i]
			have = append(have[:i], have[i+1:]...)
			for a := p.base; a < p.base+p.n; a += 4096 {
				delete(owner, a)
			}
			f.Give(p.base, p.n)
			continue
		}
		align := uint64(4096) << rng.IntN(5)
		p := run{n: 4096 * (1 + rng.Uint64N(20))}
		p.base = f.Take(p.n, align)
		if p.base%align != 0 {
			t.Fatalf("%#x is not aligned to %d", p.base, align)
		}
		for a := p.base; a < p.base+p.n; a += 4096 {
			if owner[a] {
				t.Fatalf("%#x was allocated twice", a)
			}
			owner[a] = true
		}
		have = append(have, p)
	}
	if f.Next > 41*20*4096*4 {
		t.Errorf("Next is %d: freed memory is not reused", f.Next)
	}
}
