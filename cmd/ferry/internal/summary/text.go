package summary

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Text returns the summary as a table with a row for each kind, the causes that occur, and
// the crossovers.
func (s *Summary) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "summary: at the largest size, %s\n\n", s.Ceilings())
	fmt.Fprintf(&b, "%-42s  %11s  %11s  %6s  %-10s  %17s  %19s\n", "kind", "value", "ceiling", "%", "cause", "a, us", "b")
	for _, k := range s.Kinds {
		c := k.Cells()
		line := fmt.Sprintf("%-42s  %11s  %11s  %6s  %-10s  %17s  %19s", k.Kind, c.Value, c.Ceiling, c.Percent, k.Cause, c.A, c.B)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString("\nT = a + V/b with standard errors; \"bends\": a time is over 25 % from the line\n")
	for _, c := range slices.Sorted(maps.Keys(s.Causes)) {
		fmt.Fprintf(&b, "%s: %s\n", c, s.Causes[c])
	}
	if len(s.Crossovers) > 0 {
		b.WriteString("\ncrossovers\n")
	}
	for _, c := range s.Crossovers {
		fmt.Fprintf(&b, "  from %s: %s is faster than %s\n", c.SizeText(), c.Above, c.Below)
	}
	return b.String()
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
