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
	return Point{
		Samples: len(samples),
		Median:  middle(samples),
		MAD:     spread(samples),
		P5:      quantile(samples, 5),
		P95:     quantile(samples, 95),
	}
}

// middle is the median of samples, the mean of the two middle ones where their
// number is even; it leaves them as they are.
func middle[T time.Duration | float64](samples []T) T {
	s := slices.Sorted(slices.Values(samples))
	low, high := s[(len(s)-1)/2], s[len(s)/2]
	return low + (high-low)/2
}

// spread is the median distance from the median.
func spread[T time.Duration | float64](samples []T) T {
	m := middle(samples)
	var distances []T
	for _, s := range samples {
		distances = append(distances, max(s-m, m-s))
	}
	return middle(distances)
}

// quantile is the sample that percent of the sorted samples do not exceed, the
// nearest of those that are there.
func quantile(sorted []time.Duration, percent int) time.Duration {
	rank := (percent*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}

// steady says whether the spread is below one percent of the median.
func (p Point) steady() bool { return p.MAD*100 < p.Median }
