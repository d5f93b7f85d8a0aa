package bench

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/internal/printable"
)

// Comparison is the result of [Compare].
type Comparison struct {
	Device info.Device
	Kernel *OwnKernel // nil for the vector addition
	Rows   []Row
	Reuse  []Reuse // with several launches on the same inputs
	Link   *Link   // nil if it was not measured
}

// Reuse is the rows with a number of launches on the same inputs.
type Reuse struct {
	Times int
	Rows  []Row
}

// Row is the times of all kinds at one size.
type Row struct {
	Elements int                // of each vector, float32
	Points   [pointCount]*Point // by Kind; nil if the device lacks the kind
	Verified bool               // every result of every sample was right
}

// Best returns the fastest kind that moves the data to the CPU, so not [KernelAlone] or
// [ZeroCopyKernel]. It returns false if there is none.
func (r *Row) Best() (Kind, bool) {
	best, found := Kind(0), false
	for k := range pointCount {
		p := r.Points[k]
		if p != nil && k.whole() && (!found || p.Median < r.Points[best].Median) {
			best, found = k, true
		}
	}
	return best, found
}

// exponent returns e for a row of 2^e elements.
func (r *Row) exponent() int { return bits.Len(uint(r.Elements)) - 1 }

// size returns the row's size as text.
func (r *Row) size() string { return fmt.Sprintf("2^%d", r.exponent()) }

// findings returns the sentences below the table. They state the best kind for each range
// of sizes, the sizes at which one kind beats another one, and the kinds that the device
// lacks.
func (c *Comparison) findings() []string {
	lines := append(bestRuns(c.Rows), c.readOnce()...)
	for _, pair := range [][2]Kind{
		{Pinned, Pageable}, {ZeroCopy, Pinned}, {ManagedPrefetched, Managed},
	} {
		if line := c.beats(pair[0], pair[1]); line != "" {
			lines = append(lines, line)
		}
	}
	return append(lines, c.lacking()...)
}

// lacking returns a sentence with the reason for each kind that the device lacks.
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

// has reports whether kind k was measured.
func (c *Comparison) has(k Kind) bool {
	return slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Points[k] != nil })
}

// bestRuns returns a sentence for each run of sizes with the same best kind.
func bestRuns(rows []Row) []string {
	var lines []string
	for first := 0; first < len(rows); {
		best, found := rows[first].Best()
		last := first
		for last+1 < len(rows) {
			if k, ok := rows[last+1].Best(); k != best || ok != found {
				break
			}
			last++
		}
		if found {
			lines = append(lines, fmt.Sprintf("%s is best %s", best, sizes(rows, first, last)))
		}
		first = last + 1
	}
	return lines
}

// sizes describes a range of rows.
func sizes(rows []Row, first, last int) string {
	if first == last {
		return "at " + rows[first].size()
	}
	return fmt.Sprintf("from %s to %s", rows[first].size(), rows[last].size())
}

// beats states the sizes at which kind a is faster than b. It returns "" if the device
// lacks one of them.
func (c *Comparison) beats(a, b Kind) string {
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

const (
	timeWidth  = 8 // with the mark, so that a line has at most 80 columns
	bestMark   = "*"
	colourOn   = "\x1b[1;32m"
	colourOff  = "\x1b[0m"
	sizeColumn = "floats"
)

// Page returns the comparison: the device, a table with a row per size and a column per kind,
// and the findings. The best kind of each row is marked. Columns of kinds that the device lacks
// have a dash. With colour, the marked times are coloured.
func (c *Comparison) Page(colour bool) *layout.Page {
	p := new(layout.Page)
	p.Linef("%s\n", printable.Line(c.Device.Line()))
	p.Linef("%s, from submission until the CPU can see c (%s best):\n", printable.Line(c.work()), bestMark)
	p.Table(c.table(c.Rows, colour))
	p.Line("")
	c.addReuse(p, colour)
	c.addRates(p)
	for _, line := range c.findings() {
		p.Line(printable.Text(line))
	}
	p.Line("\n" + c.footnote())
	return p
}

// work returns what is done, in words.
func (c *Comparison) work() string {
	if c.Kernel != nil {
		return fmt.Sprintf("c = %s(a, b) of %s", c.Kernel.Name, c.Kernel.File)
	}
	return "vector addition c = a + b"
}

// columns returns the kinds of the table.
func (c *Comparison) columns() []Kind {
	if c.has(PageableInKernels) {
		return append(Kinds(), PageableInKernels)
	}
	return Kinds()
}

// table returns a table with a row per size and a column per kind.
func (c *Comparison) table(rows []Row, colour bool) *layout.Table {
	kinds := c.columns()
	t := &layout.Table{Columns: []layout.Column{{Name: sizeColumn, Right: true}}, Narrow: true}
	for _, k := range kinds {
		t.Columns = append(t.Columns, layout.Column{Name: k.heading(), Right: true, Width: timeWidth})
	}
	t.Columns = append(t.Columns, layout.Column{}) // for what is wrong
	for i := range rows {
		t.Row(rows[i].cells(kinds, colour)...)
	}
	return t
}

// heading returns the lines above the kind's column.
func (k Kind) heading() string {
	return strings.TrimPrefix(strings.Join(kindTable[k].column[:], "\n"), "\n")
}

// cells returns the size, the time of each kind, and whether the results were wrong.
func (r *Row) cells(kinds []Kind, colour bool) []string {
	best, found := r.Best()
	cells := []string{r.size()}
	for _, k := range kinds {
		p, text := r.Points[k], "-"
		if p != nil {
			text = timeText(p.Median)
		}
		if marked := found && k == best; marked && colour {
			text = colourOn + bestMark + text + colourOff
		} else if marked {
			text = bestMark + text
		}
		cells = append(cells, text)
	}
	if !r.Verified {
		cells = append(cells, "WRONG RESULTS")
	}
	return cells
}

// timeText formats a time with three digits and its unit.
func timeText(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		// A time that three digits round up to 1 of the unit is shown in that unit.
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

// footnote states the number of samples and their spread.
func (c *Comparison) footnote() string {
	fewest, most, worst := 0, 0, 0.0
	var at string
	for r := range c.all() {
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
		return "Some results were WRONG, as marked. Their times mean nothing."
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

// verified reports whether every result was right.
func (c *Comparison) verified() bool {
	for r := range c.all() {
		if !r.Verified {
			return false
		}
	}
	return true
}

// all returns the rows of all tables.
func (c *Comparison) all() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		tables := [][]Row{c.Rows}
		for _, reuse := range c.Reuse {
			tables = append(tables, reuse.Rows)
		}
		for _, rows := range tables {
			for i := range rows {
				if !yield(&rows[i]) {
					return
				}
			}
		}
	}
}

func plural(samples string) string {
	if samples == "1" {
		return "1 sample"
	}
	return samples + " samples"
}
