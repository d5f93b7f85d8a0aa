package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// line is a kind of package grid and its name in a chart.
type line struct{ kind, name string }

// lines are the lines of the charts, by the chart's ID.
var lines = map[string][]line{
	"bandwidth": {
		{"copy pinned in", "pinned in"}, {"copy pinned out", "pinned out"},
		{"copy pageable in, ferry.Copy", "pageable in"}, {"copy pageable out, ferry.Copy", "pageable out"},
		{"copy pageable in, cuMemcpy", "pageable in, cuMemcpy"}, {"copy pageable out, cuMemcpy", "pageable out, cuMemcpy"},
		{"copy registered in", "registered in"}, {"copy registered out", "registered out"},
		{"copy write-combined in", "write-combined in"},
	},
	"ways": {
		{"copy pinned in", "pinned copy"}, {"copy pageable in, ferry.Copy", "pageable copy"}, {"copy pageable in, cuMemcpy", "pageable cuMemcpy"},
		{"kernel reads pinned", "zero-copy read"}, {"managed: kernel touches what the CPU wrote", "managed on demand"},
		{"managed: prefetch to the device", "managed prefetch"},
	},
	"access": {
		{"kernel reads words", "device stride 1"}, {"kernel reads words, stride 32", "device stride 32"},
		{"kernel reads pinned words", "zero-copy stride 1"}, {"kernel reads pinned words, stride 2", "zero-copy stride 2"},
		{"kernel reads pinned words, stride 8", "zero-copy stride 8"}, {"kernel reads pinned words, stride 32", "zero-copy stride 32"},
	},
	"owning": {
		{"host memory: allocate", "page-locked: allocate"}, {"host memory: free", "page-locked: free"},
		{"host memory: register", "register"}, {"host memory: unregister", "unregister"},
		{"device memory: allocate", "device: allocate"}, {"device memory: free", "device: free"},
		{"pool memory: allocate and free", "pool: allocate and free"},
	},
	"managed": {
		{"managed: kernel first touches", "kernel first touches"}, {"managed: CPU first touches", "CPU first touches"},
		{"managed: kernel touches what the CPU wrote", "kernel, after the CPU wrote"}, {"managed: kernel touches what is there", "kernel, data is there"},
		{"managed: CPU touches what a kernel wrote", "CPU, after a kernel wrote"},
		{"managed: prefetch to the device", "prefetch to the device"}, {"managed: prefetch to the host", "prefetch to the host"},
	},
	"on-device": {
		{"copy on device", "copy"}, {"fill", "fill"}, {"kernel copies on device", "kernel copies"}, {"kernel fills", "kernel fills"},
	},
	"threads": {
		{"4 MiB read, zero-copy", "zero-copy"}, {"4 MiB read, copy and kernel", "copy and kernel"}, {"4 MiB read, device", onDevice},
	},
	"gather": {
		{"1 Mi words gathered, zero-copy", "zero-copy"}, {"1 Mi words gathered, copy and kernel", "copy and kernel"}, {"1 Mi words gathered, device", onDevice},
	},
}

// onDevice is the line of data that is on the device already. It is dashed: no way to bring
// data there is as fast.
const onDevice = "on the device already"

// points are the points of a result by kind.
type points map[string][]grid.Point

// benchPage returns the page of ferry bench.
func benchPage(doc *benchDocument) *Page {
	r := &doc.Result
	p := &Page{Title: "ferry bench", Device: deviceLine(r.Device), Marked: marked(r.Device), Name: "ferry-bench.json"}
	by := points{}
	for _, x := range r.Points {
		if x.Median > 0 && x.Size > 0 {
			by[x.Kind] = append(by[x.Kind], x)
		}
	}
	p.unreliable(r)
	if doc.Normal != nil {
		p.First = append(p.First, normalTable(doc.Normal))
	}
	if doc.Summary != nil {
		p.First = append(p.First, summaryTables(doc.Summary)...)
	}
	p.add(by.bandwidth(r))
	p.add(by.ways())
	p.add(by.reuse())
	p.add(by.passes())
	p.add(by.access())
	p.add(by.threads())
	p.add(by.gather())
	p.add(by.owning())
	p.add(by.managed())
	p.add(by.onDevice())
	p.Tables = append(p.Tables, by.patterns())
	p.Tables = append(p.Tables, allPoints(r), p.missing(r))
	isNil := func(t *Table) bool { return t == nil }
	p.First, p.Tables = slices.DeleteFunc(p.First, isNil), slices.DeleteFunc(p.Tables, isNil)
	return p
}

// series returns the lines of a chart that were measured: times, or rates for [Rate].
func (by points) series(id string, unit Unit) (all []Series) {
	for _, l := range lines[id] {
		s := Series{Name: l.name, Dashed: l.name == onDevice}
		for _, x := range by[l.kind] {
			y := x.Median
			if unit == Rate {
				y = float64(x.Size) / x.Median
			}
			s.Points = append(s.Points, Point{float64(x.Size), y})
		}
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// chart returns a chart of lines by size, or nil if none was measured.
func (by points) chart(id, title string, x Axis, y Unit) *Chart {
	label := map[Unit]string{Time: "time", Rate: "bandwidth (GB/s)"}[y]
	c := &Chart{ID: id, Title: title, X: x, Y: Axis{label, y}, Series: by.series(id, y)}
	if len(c.Series) == 0 {
		return nil
	}
	return c
}

// size is the axis of most charts.
var size = Axis{"size", Bytes}

func (by points) bandwidth(r *grid.Result) *Chart {
	c := by.chart("bandwidth", "Bandwidth of copies over the link", size, Rate)
	if c == nil {
		return nil
	}
	best, top := c.highest()
	c.Sentence = fmt.Sprintf("%s is the fastest: %s at %s.", first(best.Name), Rate.text(top.Y), sizeText(top.X))
	if half, ok := best.reaches(top.Y / 2); ok {
		c.Sentence += fmt.Sprintf(" It has half of that from %s on.", sizeText(half))
	}
	rate, name := linkRate(r.Machine, r.Device)
	if rate > 0 {
		c.Sentence += fmt.Sprintf(" That is %.0f %% of the ceiling of %s (%s).", 100*top.Y/rate, Rate.text(rate), name)
		c.bound("ceiling: "+name, rate)
	} else {
		c.Sentence += " The dashed line is that rate, because the rate of the link is not known."
		c.bound("fastest copy here", top.Y)
	}
	return c
}

func (by points) ways() *Chart {
	c := by.chart("ways", "Ways to bring data to a kernel: time by size", size, Time)
	if c == nil {
		return nil
	}
	c.Sentence = join(c.fastest(), c.crossovers(nil), "The read takes part in the time of zero-copy, and of managed memory on demand.")
	return c
}

func (by points) access() *Chart {
	c := by.chart("access", "Access patterns: what a kernel reads in a second", Axis{"bytes that are used", Bytes}, Rate)
	if c == nil {
		return nil
	}
	for _, place := range []string{"device", "zero-copy"} {
		if text := c.spread(place + " "); text != "" {
			c.Sentence = join(c.Sentence, text)
		}
	}
	if c.Sentence == "" {
		c.Sentence = c.extremes("fastest")
	}
	return c
}

func (by points) threads() *Chart {
	c := by.chart("threads", "Few threads: a kernel that reads 4 MiB", Axis{"threads", Count}, Time)
	if c == nil {
		return nil
	}
	c.Sentence = join(c.fastest(), c.crossovers([][2]string{{"zero-copy", "copy and kernel"}}))
	return c
}

func (by points) gather() *Chart {
	c := by.chart("gather", "Random access: a kernel gathers 1 Mi words", Axis{"size of the table", Bytes}, Time)
	if c == nil {
		return nil
	}
	c.Sentence = join(c.fastest(), c.crossovers([][2]string{{"zero-copy", "copy and kernel"}}))
	return c
}

func (by points) owning() *Chart {
	c := by.chart("owning", "The cost of owning memory", size, Time)
	if c == nil {
		return nil
	}
	c.Sentence = c.extremes("dearest")
	if per, ok := c.perCopy(by); ok {
		c.Sentence += per
	}
	return c
}

func (by points) managed() *Chart {
	c := by.chart("managed", "Managed memory: time by size", size, Time)
	if c == nil {
		return nil
	}
	c.Sentence = c.extremes("slowest")
	return c
}

func (by points) onDevice() *Chart {
	c := by.chart("on-device", "Bandwidth on the device", size, Rate)
	if c == nil {
		return nil
	}
	best, top := c.highest()
	c.Sentence = fmt.Sprintf("The most is %s, by %s at %s. A copy reads and writes each byte, and counts it once.", Rate.text(top.Y), best.Name, sizeText(top.X))
	return c
}

// perCopy says how many copies cost as much as to own the memory of the largest size.
func (c *Chart) perCopy(by points) (text string, ok bool) {
	copies := by["copy pinned in"]
	for i := range c.Series {
		s := &c.Series[i]
		if s.Name != "page-locked: allocate" || len(copies) == 0 {
			continue
		}
		last := copies[len(copies)-1]
		if y, found := s.at(float64(last.Size)); found {
			return fmt.Sprintf(" At %s a page-locked allocation costs as much as %s copies of its memory.", sizeText(float64(last.Size)), digits(y/last.Median)), true
		}
	}
	return "", false
}

// allPoints returns the table of all results. Times of a virtual clock have no spread, and
// then the table has no column for it.
func allPoints(r *grid.Result) *Table {
	t := &Table{Title: "All results", Words: 1, Grouped: true, Head: []string{"kind", "size, or number", "median (us)"}}
	spread := slices.ContainsFunc(r.Points, func(x grid.Point) bool { return x.P5 != x.Median || x.P95 != x.Median })
	if spread {
		bySamples := func(a, b grid.Point) int { return cmp.Compare(a.Samples, b.Samples) }
		t.Head = append(t.Head, "5 % to 95 % (us)")
		t.Sentence = fmt.Sprintf("The medians are of %d to %d samples; the data of the download has the number of each.",
			slices.MinFunc(r.Points, bySamples).Samples, slices.MaxFunc(r.Points, bySamples).Samples)
	}
	for _, x := range r.Points {
		kind := x.Kind
		if r.Predicted && x.Marked() != "" {
			kind += " (do not rely on it)"
		}
		cells := []string{kind, x.SizeText(), Time.cell(x.Median)}
		if spread {
			cells = append(cells, Time.cell(x.P5)+" to "+Time.cell(x.P95))
		}
		t.Rows = append(t.Rows, Row{Cells: cells})
	}
	return t
}

// patterns returns the table of patterns that were measured both by zero-copy and by a copy
// before the kernel, at their largest size. The bar shows the ratio.
func (by points) patterns() *Table {
	t := &Table{Title: "Access patterns: zero-copy or a copy first, at the largest size", Words: 1,
		Head: []string{"pattern", "size, or number", "zero-copy (us)", "copy and kernel (us)", "zero-copy takes, of copy and kernel"}}
	for _, base := range by.both() {
		zero, copied, ok := largest(by[base+zeroCopy], by[base+copyFirst])
		if !ok {
			continue
		}
		ratio := zero.Median / copied.Median
		t.Rows = append(t.Rows, Row{Bar: barOf(ratio),
			Cells: []string{base, zero.SizeText(), Time.cell(zero.Median), Time.cell(copied.Median), digits(ratio) + " times"}})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	wins := 0
	for _, r := range t.Rows {
		if r.Bar < 0 {
			wins++
		}
	}
	t.Sentence = fmt.Sprintf("Zero-copy takes less time than a copy and the kernel in %d of %d patterns. A bar to the left shows by how much; the end is a factor of 16.", wins, len(t.Rows))
	slices.SortStableFunc(t.Rows, func(a, b Row) int { return cmp.Compare(a.Bar, b.Bar) })
	return t
}

// The ends of the names of two kinds with the same pattern.
const (
	zeroCopy  = ", zero-copy"
	copyFirst = ", copy and kernel"
)

// both returns the sorted names of patterns that have both ways.
func (by points) both() (names []string) {
	for kind := range by {
		if base, ok := strings.CutSuffix(kind, zeroCopy); ok && len(by[base+copyFirst]) > 0 {
			names = append(names, base)
		}
	}
	slices.Sort(names)
	return names
}

// largest returns the points of the largest size that both kinds have.
func largest(a, b []grid.Point) (x, y grid.Point, ok bool) {
	for _, p := range a {
		for _, q := range b {
			if p.Size == q.Size && p.Size > x.Size {
				x, y, ok = p, q, true
			}
		}
	}
	return x, y, ok
}
