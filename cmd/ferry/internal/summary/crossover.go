package summary

import (
	"math"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// Crossover is a size at which one kind overtakes another: Below is faster below it, and
// Above is faster above it.
type Crossover struct {
	Below string  `json:"below"`
	Above string  `json:"above"`
	Size  float64 `json:"size"` // between two sizes that were measured
	Unit  string  `json:"unit"`
}

// rivals are kinds that do the same for a program.
var rivals = [][]string{
	{"copy pinned in", "copy pageable in, cuMemcpy", "copy pageable in, ferry.Copy", "kernel reads pinned", "managed: kernel touches what the CPU wrote", "managed: prefetch to the device"},
	{"copy pinned out", "copy pageable out, cuMemcpy", "copy pageable out, ferry.Copy", "kernel writes pinned", "managed: CPU touches what a kernel wrote", "managed: prefetch to the host"},
	{"copy on device", "kernel copies on device"},
	{"fill", "kernel fills"},
	{"launches, then a wait", "graph of launches"},
	{"host memory: allocate", "host memory: register"},
	{"host memory: allocate", "device memory: allocate"},
}

// clear is how far two times must be apart to count: less is noise.
const clear = 1.05

// crossovers returns where one of two rivals overtakes the other for good: from the largest
// size downwards, the first change of the faster one that is clear on both sides.
func crossovers(r *grid.Result) []Crossover {
	times := map[string][]grid.Point{}
	for _, p := range r.Points {
		times[p.Kind] = append(times[p.Kind], p)
	}
	out := []Crossover{}
	for _, group := range rivals {
		for i, a := range group {
			for _, b := range group[i+1:] {
				if c, ok := crossover(times[a], times[b]); ok {
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// crossover returns where the times of two kinds cross.
func crossover(a, b []grid.Point) (c Crossover, ok bool) {
	ratios := map[int]float64{}
	for _, p := range a {
		ratios[p.Size] = max(p.Median, 1)
	}
	var sizes []int
	for _, p := range b {
		if ns := ratios[p.Size]; ns > 0 {
			ratios[p.Size] = ns / max(p.Median, 1)
			sizes = append(sizes, p.Size)
		}
	}
	last := 0 // the size of the clear ratio above
	for i := len(sizes) - 1; i >= 0; i-- {
		n := sizes[i]
		ratio := ratios[n]
		switch {
		case ratio < clear && ratio > 1/clear:
			continue
		case last > 0 && (ratio > 1) != (ratios[last] > 1):
			below, above := a[0].Kind, b[0].Kind
			if ratio > 1 {
				below, above = above, below
			}
			return Crossover{below, above, between(n, last, ratio, ratios[last]), a[0].Unit()}, true
		}
		last = n
	}
	return c, false
}

// between returns the size at which the ratio of two times is 1. Its logarithm is taken to be
// linear in that of the size.
func between(low, high int, ratioLow, ratioHigh float64) float64 {
	x, y := math.Log(ratioLow), math.Log(ratioHigh)
	at := math.Log(float64(low)) + math.Log(float64(high)/float64(low))*x/(x-y)
	return math.Round(math.Exp(at))
}
