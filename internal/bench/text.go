package bench

import (
	"fmt"
	"strings"
	"time"
)

const (
	sizeWidth  = 6
	timeWidth  = 9 // with a space and the mark: all columns fit 80
	bestMark   = "*"
	colourOn   = "\x1b[1;32m"
	colourOff  = "\x1b[0m"
	sizeColumn = "floats"
)

// Text is the comparison as a table for people: the device, a row a size, a
// column a kind, the best kind of each row marked, and below where one kind
// overtakes another. Columns of kinds that the device lacks hold a dash. With
// colour the mark is coloured, too.
func (c *Comparison) Text(colour bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", c.Device.Line())
	fmt.Fprintf(&b, "vector addition c = a + b, from submission until the CPU can see c (%s best):\n\n", bestMark)
	writeHeader(&b)
	for i := range c.Rows {
		c.Rows[i].write(&b, colour)
	}
	b.WriteByte('\n')
	for _, line := range c.findings() {
		fmt.Fprintf(&b, "%s\n", line)
	}
	fmt.Fprintf(&b, "\n%s\n", c.footnote())
	return b.String()
}

func writeHeader(b *strings.Builder) {
	for line := range 2 {
		text := ""
		if line == 1 {
			text = sizeColumn
		}
		row := fmt.Sprintf("%*s", sizeWidth, text)
		for _, k := range Kinds() {
			row += fmt.Sprintf("%*s", k.width(), kindTable[k].column[line])
		}
		fmt.Fprintf(b, "%s\n", row)
	}
}

// width is that of the kind's column.
func (k Kind) width() int {
	over := kindTable[k].column
	return max(timeWidth, len(over[0])+1, len(over[1])+1)
}

func (r *Row) write(b *strings.Builder, colour bool) {
	best, found := r.Best()
	fmt.Fprintf(b, "%*s", sizeWidth, r.size())
	for k, p := range r.Points {
		text := "-"
		if p != nil {
			text = timeText(p.Median)
		}
		marked := found && Kind(k) == best
		if marked {
			text = bestMark + text
		}
		padding := strings.Repeat(" ", max(Kind(k).width()-len(text), 1))
		if marked && colour {
			text = colourOn + text + colourOff
		}
		b.WriteString(padding + text)
	}
	if !r.Verified {
		b.WriteString("  WRONG RESULTS")
	}
	b.WriteByte('\n')
}

// timeText is a time with three digits and its unit.
func timeText(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		// What three digits round up to a whole unit is shown in that unit.
		if float64(d) >= 0.9995*float64(unit.size) {
			return threeDigits(float64(d)/float64(unit.size)) + " " + unit.name
		}
	}
	return fmt.Sprintf("%d ns", d)
}

func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// footnote says how many samples the medians are of and how far they spread.
func (c *Comparison) footnote() string {
	fewest, most, worst := 0, 0, 0.0
	var at string
	for i := range c.Rows {
		r := &c.Rows[i]
		for k, p := range r.Points {
			if p == nil {
				continue
			}
			if fewest == 0 || p.Samples < fewest {
				fewest = p.Samples
			}
			most = max(most, p.Samples)
			if spread := 100 * float64(p.MAD) / float64(max(p.Median, 1)); spread > worst {
				worst, at = spread, fmt.Sprintf("%s, %s", Kind(k), r.size())
			}
		}
	}
	if !c.verified() {
		return "Results were WRONG where it says so; those times mean nothing."
	}
	samples := fmt.Sprintf("%d", most)
	if fewest != most {
		samples = fmt.Sprintf("%d to %d", fewest, most)
	}
	if c.Device.Emulated {
		return fmt.Sprintf("Times of a virtual clock, %s a point. Every result was verified.", plural(samples))
	}
	note := fmt.Sprintf("Medians of %s a point. Every result was verified.", plural(samples))
	if at == "" {
		return note
	}
	return note + fmt.Sprintf("\nThe median absolute deviation is at most %.1f %% (%s).", worst, at)
}

// verified says whether every result was right.
func (c *Comparison) verified() bool {
	for i := range c.Rows {
		if !c.Rows[i].Verified {
			return false
		}
	}
	return true
}

func plural(samples string) string {
	if samples == "1" {
		return "1 sample"
	}
	return samples + " samples"
}
