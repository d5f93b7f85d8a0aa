package bench

import (
	"fmt"
	"strings"
	"time"
)

// writeReuse writes a table for each number of launches on the same inputs.
func (c *Comparison) writeReuse(b *strings.Builder, colour bool) {
	for _, reuse := range c.Reuse {
		fmt.Fprintf(b, "the same with the kernel launched %d times on a and b (%s best):\n\n", reuse.Times, bestMark)
		c.writeTable(b, reuse.Rows, colour)
		for i, line := range bestRuns(reuse.Rows) {
			if i == 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(b, "launched %d times: %s\n", reuse.Times, line)
		}
		b.WriteByte('\n')
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

// writeRates writes the table of rates, if the link was measured.
func (c *Comparison) writeRates(b *strings.Builder) {
	if c.Link == nil {
		return
	}
	fmt.Fprintf(b, "a copy of 64 MiB: %.1f GB/s in, %.1f GB/s out; the bytes of a, b and c by the\n", c.Link.In/1e9, c.Link.Out/1e9)
	fmt.Fprintf(b, "time, and the part of it that this link needs for a and b in while c goes out:\n\n")
	fmt.Fprintf(b, "%*s%14s%14s%14s%26s\n", sizeWidth, "", Pinned, ZeroCopy, ZeroCopyIn, ZeroCopyKernel)
	fmt.Fprintf(b, "%*s", sizeWidth, sizeColumn)
	for range rated {
		fmt.Fprintf(b, "%9s%5s", "GB/s", "link")
	}
	fmt.Fprintf(b, "%12s%9s%5s\n", "time", "GB/s", "link")
	for i := range c.Rows {
		c.Rows[i].writeRates(b, c.Link)
	}
	b.WriteByte('\n')
}

func (r *Row) writeRates(b *strings.Builder, link *Link) {
	fmt.Fprintf(b, "%*s", sizeWidth, r.size())
	for _, k := range rated {
		r.writeRate(b, r.Points[k], link)
	}
	text := "-"
	if p := r.Points[ZeroCopyKernel]; p != nil {
		text = timeText(p.Median)
	}
	fmt.Fprintf(b, "%12s", text)
	r.writeRate(b, r.Points[ZeroCopyKernel], link)
	b.WriteByte('\n')
}

func (r *Row) writeRate(b *strings.Builder, p *Point, link *Link) {
	if p == nil {
		fmt.Fprintf(b, "%9s%5s", "-", "-")
		return
	}
	fmt.Fprintf(b, "%9s%4.0f%%", threeDigits(r.rate(p)), r.linkPercent(p, link))
}
