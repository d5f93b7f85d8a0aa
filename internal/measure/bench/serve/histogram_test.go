package serve

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestBuckets checks at powers of two and beside them that a duration is in its bucket, that
// buckets adjoin, and that they are at most 1/128 wide.
func TestBuckets(t *testing.T) {
	for bit := range 39 {
		for _, beside := range []time.Duration{-1, 0, 1} {
			d := 1<<bit + beside
			b := bucketOf(d)
			low := time.Duration(0)
			if b > 0 {
				low = upper(b-1) + 1
			}
			if d < low || d > upper(b) || upper(b)-low > low/128 {
				t.Errorf("%d ns: bucket %d from %d to %d ns", d, b, low, upper(b))
			}
		}
	}
	for _, d := range []time.Duration{-1, math.MinInt64} {
		if b := bucketOf(d); b != 0 {
			t.Errorf("%d ns: bucket %d, want 0", d, b)
		}
	}
	if b := bucketOf(math.MaxInt64); b != buckets-1 || upper(b) != 1<<mostBits-1 {
		t.Errorf("the last bucket is %d to %d ns, of %d", b, upper(b), buckets)
	}
}

// TestQuantiles compares quantiles with sorted samples, over several distributions and parts
// that are merged.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draws := map[string]func() time.Duration{
		"exponential": func() time.Duration { return time.Duration(random.ExpFloat64() * 50e3) },
		"wide":        func() time.Duration { return time.Duration(math.Exp(random.Float64() * 24)) },
		"small":       func() time.Duration { return time.Duration(random.IntN(300)) },
		"equal":       func() time.Duration { return 123_456_789 },
	}
	for name, draw := range draws {
		for _, n := range []int{1, 2, 999, 1000, 20_000} {
			var samples []time.Duration
			var all histogram
			parts := make([]histogram, 3)
			for i := range n {
				d := draw()
				samples = append(samples, d)
				parts[i%3].add(d)
			}
			for i := range parts {
				all.merge(&parts[i])
			}
			slices.Sort(samples)
			for _, share := range []float64{0.001, 0.5, 0.99, 0.999, 1} {
				rank := max(int(math.Ceil(share*float64(n)-1e-9)), 1)
				want, got := samples[rank-1], all.quantile(share)
				if got < want || got-want > want/100 {
					t.Errorf("%s, %d samples: quantile %v is %v, want %v to 1%% more", name, n, share, got, want)
				}
			}
			if all.longest != samples[n-1] {
				t.Errorf("%s, %d samples: longest %v, want %v", name, n, all.longest, samples[n-1])
			}
		}
	}
	if got := new(histogram).quantile(0.5); got != 0 {
		t.Errorf("an empty histogram has the quantile %v", got)
	}
}

// TestAddAllocates checks that counting allocates nothing.
func TestAddAllocates(t *testing.T) {
	h := new(histogram)
	if n := testing.AllocsPerRun(100, func() { h.add(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
