package page

import (
	"encoding/json"
	"slices"
)

// Page is the content of a file.
type Page struct {
	Title  string   // the command, such as "ferry bench"
	Device string   // a line about the device
	Marked string   // what predicts the numbers, such as "profile h200"; "" if they were measured
	Mixed  bool     // some numbers are measured nevertheless
	Notes  []string // what the reader must know, such as why the result is not whole
	First  []*Table // tables before the charts
	Charts []*Chart
	Tables []*Table        // tables without a chart, after the charts
	Raw    json.RawMessage // the document of --json
	Name   string          // of the file for Raw
}

// Chart is a chart with its sentence and its table. It has series or a timeline.
type Chart struct {
	ID       string // unique in the page; letters and dashes
	Title    string
	Sentence string // what the chart shows, computed from its data
	X, Y     Axis
	Series   []Series
	Marks    []Mark
	Timeline *Timeline
	Table    *Table
}

// Axis is an axis of a chart.
type Axis struct {
	Label string
	Unit  Unit
}

// Unit is what the numbers of an axis are.
type Unit string

// The units. Axes are logarithmic, except those of [Seconds].
const (
	Bytes   Unit = "bytes"
	Count   Unit = "count"
	Time    Unit = "time"    // nanoseconds
	Rate    Unit = "rate"    // GB/s
	Ratio   Unit = "ratio"   // without a dimension
	Seconds Unit = "seconds" // nanoseconds on a linear axis
)

// Series is a line of a chart.
type Series struct {
	Name   string
	Dashed bool // a bound, not a result
	Points []Point
}

// Point is a point of a series. Both numbers are greater than 0.
type Point struct{ X, Y float64 }

// Mark is a vertical line with a label, such as a crossover.
type Mark struct {
	X     float64 `json:"x"`
	Text  string  `json:"text"`
	Short string  `json:"short"` // for a narrow chart
}

// Timeline is what ran when. Times are nanoseconds from the start.
type Timeline struct {
	Lanes []string // from the top
	Kinds []string // each has a colour
	Spans []Span
}

// Span is an operation in a lane.
type Span struct {
	Lane, Kind int // indices
	Start, End int64
	Text       string // its name
	More       string // further facts, such as what it waited for
}

// Table is a table of text.
type Table struct {
	Title    string
	Sentence string // what it shows, for a table without a chart; may be empty
	Head     []string
	Words    int // the first columns, which are text; the others are numbers
	Rows     []Row
	Closed   bool // whether it is closed at first, however short it is
	Grouped  bool // whether neighbours with the same first cell share it
}

// Row is a row of a table. Bar is drawn behind the text of the last cell: -1 is to the left
// end, 1 to the right end, 0 is no bar.
type Row struct {
	Cells []string
	Bar   float64
}

// Span returns how many rows the first cell of a row covers: 0 if a row above covers this one.
func (t *Table) Span(row int) int {
	n := 1
	if !t.Grouped {
		return n
	}
	first := t.Rows[row].Cells[0]
	if row > 0 && t.Rows[row-1].Cells[0] == first {
		return 0
	}
	for row+n < len(t.Rows) && t.Rows[row+n].Cells[0] == first {
		n++
	}
	return n
}

// add adds a chart if it has data.
func (p *Page) add(c *Chart) {
	if c != nil && (len(c.Series) > 0 || c.Timeline != nil && len(c.Timeline.Spans) > 0) {
		p.Charts = append(p.Charts, c)
	}
}

// note adds a note unless it is empty.
func (p *Page) note(text string) {
	if text != "" {
		p.Notes = append(p.Notes, text)
	}
}

// xs returns the sorted places of all points.
func (c *Chart) xs() (all []float64) {
	for _, s := range c.Series {
		for _, p := range s.Points {
			all = append(all, p.X)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// at returns the value of a series at a place.
func (s *Series) at(x float64) (float64, bool) {
	for _, p := range s.Points {
		if p.X == x {
			return p.Y, true
		}
	}
	return 0, false
}

// pivot returns the table of a chart: a row for each place, a column for each series.
func (c *Chart) pivot() *Table {
	t := &Table{Title: c.Title, Head: []string{c.X.Label}}
	for _, s := range c.Series {
		t.Head = append(t.Head, s.Name+" ("+c.Y.Unit.name()+")")
	}
	for _, x := range c.xs() {
		row := Row{Cells: []string{c.X.Unit.text(x)}}
		for i := range c.Series {
			text := "-"
			if y, ok := c.Series[i].at(x); ok {
				text = c.Y.Unit.cell(y)
			}
			row.Cells = append(row.Cells, text)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
