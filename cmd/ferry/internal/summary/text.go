package summary

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
)

// Page returns the summary: a table with a row for each kind, the causes that occur, and the
// crossovers.
func (s *Summary) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("summary: at the largest size, %s\n", s.Ceilings())
	t := &layout.Table{Columns: []layout.Column{{Name: "kind"}, {Name: "value", Right: true}, {Name: "ceiling", Right: true}, {Name: "%", Right: true},
		{Name: "cause"}, {Name: "a, us", Right: true}, {Name: "b", Right: true}}}
	for _, k := range s.Kinds {
		c := k.Cells()
		t.Row(k.Kind, c.Value, c.Ceiling, c.Percent, k.Cause, c.A, c.B)
	}
	p.Table(t)
	p.Line("\nT = a + V/b with standard errors; \"bends\": a time is over 25 % from the line")
	for _, c := range slices.Sorted(maps.Keys(s.Causes)) {
		p.Hang(2, c+": "+s.Causes[c])
	}
	if len(s.Crossovers) > 0 {
		p.Line("\ncrossovers")
	}
	for _, c := range s.Crossovers {
		p.Hang(4, fmt.Sprintf("  from %s: %s is faster than %s", c.SizeText(), c.Above, c.Below))
	}
	return p
}

// Cells are the numbers of a kind as text with units. What is not known is "-".
type Cells struct{ Value, Ceiling, Percent, A, B string }

// Cells returns the numbers of a kind as text.
func (k *Kind) Cells() Cells {
	c := Cells{Value: k.rate(k.Rate), Ceiling: k.rate(k.Ceiling), Percent: percent(k.Percent)}
	c.A, c.B = k.Fit.text(inBytes(k.Unit))
	return c
}

// Ceilings says where the ceilings come from.
func (s *Summary) Ceilings() string {
	var parts []string
	if m := s.Machine; m.Link > 0 {
		parts = append(parts, fmt.Sprintf("link %.1f GB/s (PCIe %d x%d)", m.Link/1e9, m.Generation, m.Lanes))
	}
	if s.Machine.Memory > 0 {
		parts = append(parts, fmt.Sprintf("memory %.0f GB/s", s.Machine.Memory/1e9))
	}
	if s.Reference != "" {
		parts = append(parts, fmt.Sprintf("else the times of %s", s.Reference))
	}
	if len(parts) == 0 {
		return "no ceiling is known"
	}
	return "against " + strings.Join(parts, ", ")
}

// rate formats a rate of a kind: in bytes, or as the time of one unit.
func (k *Kind) rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "-"
	case inBytes(k.Unit):
		return gigabytes(perSecond) + " GB/s"
	}
	if us := 1e6 / perSecond; us >= 0.1 {
		return fmt.Sprintf("%.2f us", us)
	}
	return fmt.Sprintf("%.3f ns", 1e9/perSecond)
}

// gigabytes formats bytes in a second.
func gigabytes(v float64) string {
	switch v /= 1e9; {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// percent formats a percentage.
func percent(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// text formats a and b of a fit with their errors.
func (f *Fit) text(bytes bool) (a, b string) {
	if f == nil {
		return "-", "-"
	}
	a = fmt.Sprintf("%.2f +-%.2f", f.A/1e3, f.AError/1e3)
	switch {
	case f.Worst > 0.25:
		return a, "bends"
	case f.B == 0:
		return a, "constant"
	case bytes:
		return a, fmt.Sprintf("%s +-%s GB/s", gigabytes(f.B), gigabytes(f.BError))
	}
	return a, fmt.Sprintf("%.3g +-%.1g /us", f.B/1e6, f.BError/1e6)
}

// SizeText returns the size as text.
func (c *Crossover) SizeText() string {
	switch n := c.Size; {
	case !inBytes(c.Unit):
		return fmt.Sprintf("%.0f %s", math.Ceil(n), c.Unit)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	default:
		return fmt.Sprintf("%.0f KiB", n/(1<<10))
	}
}
