package bench

import (
	"slices"
	"time"
)

// Point is the times of one kind at one size.
type Point struct {
	Samples int
	Median  time.Duration
	MAD     time.Duration // median distance from the median
	P5, P95 time.Duration
}

// summarize makes a point of at least one sample. It sorts them.
func summarize(samples []time.Duration) Point {
	slices.Sort(samples)
	middle := median(samples)
	distances := make([]time.Duration, len(samples))
	for i, s := range samples {
		distances[i] = max(s-middle, middle-s)
	}
	slices.Sort(distances)
	return Point{
		Samples: len(samples),
		Median:  middle,
		MAD:     median(distances),
		P5:      quantile(samples, 5),
		P95:     quantile(samples, 95),
	}
}

// median is the middle of sorted samples, the mean of the two middle ones where
// their number is even.
func median(sorted []time.Duration) time.Duration {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	low, high := sorted[n/2-1], sorted[n/2]
	return low + (high-low)/2
}

// quantile is the sample that percent of the sorted samples do not exceed, the
// nearest of those that are there.
func quantile(sorted []time.Duration, percent int) time.Duration {
	rank := (percent*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}

// steady says whether the spread is below one percent of the median.
func (p Point) steady() bool { return p.MAD*100 < p.Median }
