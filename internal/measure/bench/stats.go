package bench

import (
	"slices"
	"time"
)

// Point is the times of one kind at one size.
type Point struct {
	Samples int
	Median  time.Duration
	MAD     time.Duration // median absolute deviation
	P5, P95 time.Duration
}

// summarize returns the point of at least one sample. It sorts the samples.
func summarize(samples []time.Duration) Point {
	slices.Sort(samples)
	return Point{
		Samples: len(samples),
		Median:  Median(samples),
		MAD:     Deviation(samples),
		P5:      quantile(samples, 5),
		P95:     quantile(samples, 95),
	}
}

// Median returns the median of samples, which is the mean of the two middle ones if their
// number is even. It does not change their order.
func Median[T time.Duration | float64](samples []T) T {
	s := slices.Sorted(slices.Values(samples))
	low, high := s[(len(s)-1)/2], s[len(s)/2]
	return low + (high-low)/2
}

// Deviation returns the median absolute deviation.
func Deviation[T time.Duration | float64](samples []T) T {
	m := Median(samples)
	var distances []T
	for _, s := range samples {
		distances = append(distances, max(s-m, m-s))
	}
	return Median(distances)
}

// quantile returns the sample with the nearest rank: percent of the sorted samples do not
// exceed it.
func quantile(sorted []time.Duration, percent int) time.Duration {
	rank := (percent*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}

// stable reports whether the deviation is below one percent of the median.
func (p Point) stable() bool { return p.MAD*100 < p.Median }
