package page

import "strconv"

// chartData is what the script of the page gets of a chart.
type chartData struct {
	ID     string       `json:"id"`
	X      axisData     `json:"x"`
	Y      axisData     `json:"y"`
	Xs     []number     `json:"xs,omitempty"`
	Series []seriesData `json:"series,omitempty"`
	Marks  []Mark       `json:"marks,omitempty"`
	Lanes  []string     `json:"lanes,omitempty"`
	Kinds  []string     `json:"kinds,omitempty"`
	// Spans are lane, kind, start, end, and the indices of two texts. They are in the order
	// of their starts.
	Spans [][6]int64 `json:"spans,omitempty"`
	Texts []string   `json:"texts,omitempty"`
}

type axisData struct {
	Label string `json:"label"`
	Unit  Unit   `json:"unit"`
}

type seriesData struct {
	Name   string    `json:"name"`
	Dashed bool      `json:"dashed,omitempty"`
	Ys     []*number `json:"ys"` // null where there is no point
}

// number is written with five digits.
type number float64

// MarshalJSON returns the number with five significant digits; whole numbers are exact.
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); f == float64(int64(f)) {
		return strconv.AppendInt(nil, int64(f), 10), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 5, 64), nil
}

// data returns the data of all charts.
func (p *Page) data() []chartData {
	all := []chartData{}
	for _, c := range p.Charts {
		d := chartData{ID: c.ID, X: axisData{c.X.Label, c.X.Unit}, Y: axisData{c.Y.Label, c.Y.Unit}, Marks: c.Marks}
		if p.Marked != "" {
			d.X.Label, d.Y.Label = d.X.mark(p.Marked), d.Y.mark(p.Marked)
		}
		for _, x := range c.xs() {
			d.Xs = append(d.Xs, number(x))
		}
		for i := range c.Series {
			d.Series = append(d.Series, c.Series[i].data(c.xs()))
		}
		if c.Timeline != nil {
			d.spans(c.Timeline)
		}
		all = append(all, d)
	}
	return all
}

// mark returns the label of an axis of times or rates, marked as predicted.
func (a axisData) mark(by string) string {
	switch a.Unit {
	case Time, Rate, Seconds:
		return a.Label + ", predicted by " + by
	}
	return a.Label
}

func (s *Series) data(xs []float64) seriesData {
	d := seriesData{Name: s.Name, Dashed: s.Dashed}
	for _, x := range xs {
		var at *number
		if y, ok := s.at(x); ok {
			n := number(y)
			at = &n
		}
		d.Ys = append(d.Ys, at)
	}
	return d
}

// spans adds a timeline. Each text is kept once.
func (d *chartData) spans(t *Timeline) {
	d.Lanes, d.Kinds = t.Lanes, t.Kinds
	place := map[string]int64{}
	index := func(text string) int64 {
		i, ok := place[text]
		if !ok {
			i = int64(len(d.Texts))
			place[text] = i
			d.Texts = append(d.Texts, text)
		}
		return i
	}
	for _, i := range byStart(len(t.Spans), func(i int) int64 { return t.Spans[i].Start }) {
		s := &t.Spans[i]
		d.Spans = append(d.Spans, [6]int64{int64(s.Lane), int64(s.Kind), s.Start, s.End, index(s.Text), index(s.More)})
	}
}
