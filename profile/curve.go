package profile

import (
	"sort"
	"time"
)

// Curve is a time against a number of bytes.
type Curve struct {
	Points []Point `json:"points"` // by rising bytes
	Source string  `json:"source"` // a key of Profile.Sources
}

// Point is one place of a curve.
type Point struct {
	Bytes float64 `json:"bytes"`
	Ns    float64 `json:"ns"`
}

// Line is the curve of a fixed time and a rate in bytes a second.
func Line(ns, bytesPerSecond float64, source string) Curve {
	const far = 1e9
	return Curve{Points: []Point{{0, ns}, {far, ns + far/bytesPerSecond*1e9}}, Source: source}
}

// Ns is the time of bytes in nanoseconds: straight between points, before the
// first as at the first, past the last on with the last slope. A curve without
// points costs nothing.
func (c Curve) Ns(bytes float64) float64 {
	p := c.Points
	switch {
	case len(p) == 0:
		return 0
	case len(p) == 1 || bytes <= p[0].Bytes:
		return p[0].Ns
	}
	i := sort.Search(len(p)-1, func(i int) bool { return p[i].Bytes >= bytes })
	i = max(i, 1)
	a, b := p[i-1], p[i]
	return a.Ns + (bytes-a.Bytes)*(b.Ns-a.Ns)/(b.Bytes-a.Bytes)
}

// Time is Ns as a duration.
func (c Curve) Time(bytes int) time.Duration { return time.Duration(c.Ns(float64(bytes)) + 0.5) }
