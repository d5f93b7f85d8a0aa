package bench

import (
	"fmt"
	"time"

	"github.com/ferrygpu/ferry/internal/layout"
)

// addReuse adds a table for each number of launches on the same inputs.
func (c *Comparison) addReuse(p *layout.Page, colour bool) {
	for _, reuse := range c.Reuse {
		p.Linef("the same with the kernel launched %d times on a and b (%s best):\n", reuse.Times, bestMark)
		p.Table(c.table(reuse.Rows, colour))
		p.Line("")
		for _, line := range bestRuns(reuse.Rows) {
			p.Linef("launched %d times: %s", reuse.Times, line)
		}
		if len(bestRuns(reuse.Rows)) > 0 {
			p.Line("")
		}
	}
}

// readOnce returns a sentence for each run of sizes at which zero-copy is best only because
// the kernel reads its inputs once. It compares with the least reuse that was measured.
// Without one it estimates a second launch.
func (c *Comparison) readOnce() []string {
	var lines []string
	flips := make([]bool, len(c.Rows))
	other := make([]Kind, len(c.Rows))
	for i := range c.Rows {
		other[i], flips[i] = c.flips(i)
	}
	for first := 0; first < len(flips); first++ {
		last := first
		for last+1 < len(flips) && flips[first] && flips[last+1] && other[last+1] == other[first] {
			last++
		}
		if flips[first] {
			lines = append(lines, fmt.Sprintf("%s, zero-copy is best because the data is read once:\n  %s",
				sizes(c.Rows, first, last), c.reason(other[first])))
		}
		first = last
	}
	return lines
}

// reason says what shows that zero-copy loses at a larger reuse.
func (c *Comparison) reason(better Kind) string {
	if len(c.Reuse) > 0 {
		return fmt.Sprintf("read %d times, %s is best", c.Reuse[0].Times, better)
	}
	return "a second read over the link would cost more than the copies (see --reuse)"
}

// flips reports whether zero-copy is best in a row, but not if the inputs are read again.
// It returns the kind that is best then.
func (c *Comparison) flips(i int) (Kind, bool) {
	r := &c.Rows[i]
	if best, found := r.Best(); !found || best != ZeroCopy && best != ZeroCopyIn {
		return 0, false
	}
	if len(c.Reuse) == 0 {
		return Pinned, r.wouldFlip()
	}
	if i >= len(c.Reuse[0].Rows) {
		return 0, false
	}
	then, found := c.Reuse[0].Rows[i].Best()
	return then, found && then != ZeroCopy && then != ZeroCopyIn
}

// wouldFlip estimates whether a second launch makes copying faster. What zero-copy takes
// beyond the kernel alone is for the link, and would be paid again. A copy would only pay
// for a second kernel.
func (r *Row) wouldFlip() bool {
	best, _ := r.Best()
	zero, copied, alone := r.Points[best], r.Points[Pinned], r.Points[KernelAlone]
	if copied == nil || alone == nil {
		return false
	}
	again := max(zero.Median-alone.Median, 0)
	return zero.Median+again > copied.Median+alone.Median
}

// rate returns the bytes of a, b and c by the time of a point, in GB/s.
func (r *Row) rate(p *Point) float64 { return 12 * float64(r.Elements) / float64(max(p.Median, 1)) }

// linkPercent returns the part of a time that the link needs at least: a and b go in while c
// goes out.
func (r *Row) linkPercent(p *Point, link *Link) float64 {
	n := float64(r.Elements)
	least := max(8*n/link.In, 4*n/link.Out) * float64(time.Second)
	return 100 * least / float64(max(p.Median, 1))
}

// rated are the kinds of the table of rates.
var rated = []Kind{Pinned, ZeroCopy, ZeroCopyIn}

// addRates adds the table of rates, if the link was measured.
func (c *Comparison) addRates(p *layout.Page) {
	if c.Link == nil {
		return
	}
	p.Linef("a copy of 64 MiB: %.1f GB/s in, %.1f GB/s out; the bytes of a, b and c by the "+
		"time, and the part of it that this link needs for a and b in while c goes out:\n", c.Link.In/1e9, c.Link.Out/1e9)
	t := &layout.Table{Columns: []layout.Column{{Name: sizeColumn, Right: true}}, Narrow: true}
	add := func(of Kind, what string, width int) {
		t.Columns = append(t.Columns, layout.Column{Name: of.heading() + "\n" + what, Right: true, Width: width})
	}
	link := layout.Column{Name: "link", Right: true}
	for _, k := range rated {
		add(k, "GB/s", 8)
		t.Columns = append(t.Columns, link)
	}
	add(ZeroCopyKernel, "time", 8)
	t.Columns = append(t.Columns, layout.Column{Name: "GB/s", Right: true, Width: 8}, link)
	for i := range c.Rows {
		t.Row(c.Rows[i].rates(c.Link)...)
	}
	p.Table(t)
	p.Line("")
}

// rates returns the cells of a row of the table of rates.
func (r *Row) rates(link *Link) []string {
	cells := []string{r.size()}
	for _, k := range rated {
		cells = append(cells, r.rateCells(r.Points[k], link)...)
	}
	text := "-"
	if p := r.Points[ZeroCopyKernel]; p != nil {
		text = timeText(p.Median)
	}
	return append(append(cells, text), r.rateCells(r.Points[ZeroCopyKernel], link)...)
}

// rateCells returns the rate of a point, and the part of its time that the link needs.
func (r *Row) rateCells(p *Point, link *Link) []string {
	if p == nil {
		return []string{"-", "-"}
	}
	return []string{threeDigits(r.rate(p)), fmt.Sprintf("%.0f%%", r.linkPercent(p, link))}
}
