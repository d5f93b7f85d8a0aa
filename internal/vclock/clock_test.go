package vclock

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestClock compares each method with sets of operations, and checks that no clock has changed.
func TestClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const chains, most = 4, 3
	random := func() Clock {
		c := make(Clock, rng.IntN(chains+1))
		for i := range c {
			c[i] = rng.Uint64N(most + 1)
		}
		return c
	}
	points := func(f func(p Point)) {
		for i := range chains + 1 {
			for n := range uint64(most + 1) {
				f(Point{i, n + 1})
			}
		}
	}
	for range 2000 {
		c, d, at := random(), random(), Point{rng.IntN(chains), 1 + rng.Uint64N(most)}
		before := [2]Clock{slices.Clone(c), slices.Clone(d)}
		join, meet, with, all := c.Join(d), c.Meet(d), c.With(at), true
		points(func(p Point) {
			if p.Chain < len(c) && c.At(p.Chain) != c[p.Chain] || p.Chain >= len(c) && c.At(p.Chain) != 0 {
				t.Fatalf("%v.At(%d) is %d", c, p.Chain, c.At(p.Chain))
			}
			has := c.Has(p)
			if has != (p.Chain < len(c) && c[p.Chain] >= p.N) {
				t.Fatalf("%v.Has(%v) is %v", c, p, has)
			}
			all = all && (has || !d.Has(p))
			if join.Has(p) != (has || d.Has(p)) || meet.Has(p) != (has && d.Has(p)) {
				t.Fatalf("%v and %v: the join %v or the meet %v is wrong at %v", c, d, join, meet, p)
			}
			if with.Has(p) != (has || p.Chain == at.Chain && p.N <= at.N) {
				t.Fatalf("%v with %v is %v", c, at, with)
			}
		})
		if c.Contains(d) != all {
			t.Fatalf("%v.Contains(%v) is %v", c, d, !all)
		}
		if !slices.Equal(c, before[0]) || !slices.Equal(d, before[1]) {
			t.Fatalf("%v and %v have become %v and %v", before[0], before[1], c, d)
		}
	}
}

// TestShares: what does not change a clock allocates nothing.
func TestShares(t *testing.T) {
	c, d := Clock{1, 2, 3}, Clock{1, 2}
	if n := testing.AllocsPerRun(10, func() {
		if !d.Join(c).Has(Point{2, 3}) || len(c.Join(d)) != 3 || len(c.With(Point{1, 2})) != 3 {
			t.Error("wrong clock")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
