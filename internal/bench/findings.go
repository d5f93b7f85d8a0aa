package bench

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// findings are the sentences below the table: which kind is best where, and
// where one kind overtakes another.
func (c *Comparison) findings() []string {
	lines := c.bestRuns()
	for _, pair := range [][2]Kind{
		{Pinned, Pageable}, {ZeroCopy, Pinned}, {ManagedPrefetched, Managed},
	} {
		if line := c.overtakes(pair[0], pair[1]); line != "" {
			lines = append(lines, line)
		}
	}
	return append(lines, c.lacking()...)
}

// lacking says which kinds the device lacks, and why.
func (c *Comparison) lacking() []string {
	var lines []string
	for k, a := range map[Kind]cu.DeviceAttribute{
		ZeroCopy: cu.DeviceAttributeCanMapHostMemory, ZeroCopyIn: cu.DeviceAttributeCanMapHostMemory,
		Managed: cu.DeviceAttributeManagedMemory, ManagedPrefetched: cu.DeviceAttributeConcurrentManagedAccess,
	} {
		if k == ManagedPrefetched && !c.has(Managed) {
			a = cu.DeviceAttributeManagedMemory
		}
		if len(c.Rows) > 0 && !c.has(k) {
			lines = append(lines, fmt.Sprintf("no %s: %v is 0", k, a))
		}
	}
	slices.Sort(lines)
	return lines
}

// has says whether kind k was measured.
func (c *Comparison) has(k Kind) bool {
	return slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Points[k] != nil })
}

// bestRuns has a sentence for each run of sizes with the same best kind.
func (c *Comparison) bestRuns() []string {
	var lines []string
	for first := 0; first < len(c.Rows); {
		best, found := c.Rows[first].Best()
		last := first
		for last+1 < len(c.Rows) {
			if k, ok := c.Rows[last+1].Best(); k != best || ok != found {
				break
			}
			last++
		}
		if found {
			lines = append(lines, fmt.Sprintf("%s is best %s", best, c.span(first, last)))
		}
		first = last + 1
	}
	return lines
}

func (c *Comparison) span(first, last int) string {
	if first == last {
		return "at " + c.Rows[first].size()
	}
	return fmt.Sprintf("from %s to %s", c.Rows[first].size(), c.Rows[last].size())
}

// overtakes says from which size on kind a is faster than b; empty where the
// device lacks one of them.
func (c *Comparison) overtakes(a, b Kind) string {
	var wins []bool
	for i := range c.Rows {
		p, q := c.Rows[i].Points[a], c.Rows[i].Points[b]
		if p == nil || q == nil {
			return ""
		}
		wins = append(wins, p.Median < q.Median)
	}
	if len(wins) == 0 {
		return ""
	}
	changes, at := 0, 0
	for i := 1; i < len(wins); i++ {
		if wins[i] != wins[i-1] {
			changes, at = changes+1, i
		}
	}
	switch {
	case changes == 0 && wins[0]:
		return fmt.Sprintf("%s beats %s at every size", a, b)
	case changes == 0:
		return fmt.Sprintf("%s beats %s at no size", a, b)
	case changes == 1 && wins[at]:
		return fmt.Sprintf("%s beats %s from %s on", a, b, c.Rows[at].size())
	case changes == 1:
		return fmt.Sprintf("%s beats %s up to %s", a, b, c.Rows[at-1].size())
	case wins[len(wins)-1]:
		return fmt.Sprintf("%s beats %s from %s on, and at some sizes below", a, b, c.Rows[at].size())
	}
	return fmt.Sprintf("%s beats %s at some sizes up to %s", a, b, c.Rows[at-1].size())
}
