package bench

import (
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	series := func(n int) []time.Duration { // n, n-1, ... 1
		var s []time.Duration
		for i := n; i > 0; i-- {
			s = append(s, time.Duration(i))
		}
		return s
	}
	for _, c := range []struct {
		name    string
		samples []time.Duration
		want    Point
	}{
		{"one", []time.Duration{7}, Point{1, 7, 0, 7, 7}},
		{"two", []time.Duration{9, 5}, Point{2, 7, 2, 5, 9}},
		{"equal", []time.Duration{4, 4, 4, 4}, Point{4, 4, 0, 4, 4}},
		{"an outlier", []time.Duration{10, 11, 1000, 9, 10}, Point{5, 10, 1, 9, 1000}},
		{"even", []time.Duration{1, 2, 10, 11}, Point{4, 6, 4, 1, 11}},
		{"hundred", series(100), Point{100, 50, 25, 5, 95}},
		{"odd", series(21), Point{21, 11, 5, 2, 20}},
	} {
		if got := summarize(c.samples); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestStable(t *testing.T) {
	for _, c := range []struct {
		median, mad time.Duration
		want        bool
	}{{1000, 0, true}, {1000, 9, true}, {1000, 10, false}, {10, 1, false}} {
		if got := (Point{Median: c.median, MAD: c.mad}).stable(); got != c.want {
			t.Errorf("median %d, MAD %d: got %v", c.median, c.mad, got)
		}
	}
}
