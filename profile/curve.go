package profile

import (
	"sort"
	"time"
)

// Curve is a time as a function of a number of bytes.
type Curve struct {
	Points []Point `json:"points"` // by increasing bytes
	Source string  `json:"source"` // a key of Profile.Sources
}

// Point is one point of a curve.
type Point struct {
	Bytes float64 `json:"bytes"`
	Ns    float64 `json:"ns"`
}

// Line returns the curve with a fixed time and a rate in bytes per second.
func Line(ns, bytesPerSecond float64, source string) Curve {
	const far = 1e9
	return Curve{Points: []Point{{0, ns}, {far, ns + far/bytesPerSecond*1e9}}, Source: source}
}

// Ns returns the time of bytes in nanoseconds. It is linear between points. Before the
// first point it is the time of that point; after the last one the last slope
// continues. A curve without points is zero.
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

// Time returns Ns as a duration, at most 31 years.
func (c Curve) Time(bytes int) time.Duration {
	const most = 1e18
	return time.Duration(min(c.Ns(float64(bytes))+0.5, most))
}
