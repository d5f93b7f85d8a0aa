package grid

import (
	"fmt"
	"strings"
)

// Text is the result as a table for people, a row a case.
func (r *Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Device.Line())
	last := ""
	for _, p := range r.Points {
		k := kindOf(p.Case)
		if p.Kind != last {
			fmt.Fprintf(&b, "\n%s\n", p.Kind)
			last = p.Kind
		}
		rate := ""
		if k.unit == "bytes" {
			rate = fmt.Sprintf("%9.3f GB/s", float64(p.Size)/p.Median)
		}
		fmt.Fprintf(&b, "%12s %-18s %12.2f us%s\n", size(p.Size, k.unit), k.unit, p.Median/1e3, rate)
	}
	return b.String()
}

// size is a number, in KiB and MiB where it counts bytes.
func size(n int, unit string) string {
	switch {
	case !strings.HasPrefix(unit, "bytes"):
		return fmt.Sprint(n)
	case n >= mib:
		return fmt.Sprintf("%d Mi", n/mib)
	}
	return fmt.Sprintf("%d Ki", n/kib)
}
