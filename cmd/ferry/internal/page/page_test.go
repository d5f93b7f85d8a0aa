package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/normal"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/trace"
)

// TestContrast: the colours of lines and of dim text have a contrast of at least 4.5 to the
// background, and the text on a span to its colour, as WCAG 2 demands of text.
func TestContrast(t *testing.T) {
	blocks := regexp.MustCompile(`\{(--bg:[^}]*)\}`).FindAllStringSubmatch(pageCSS, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of colours, want light, dark by the system and dark by choice", len(blocks))
	}
	for _, b := range blocks {
		colours := map[string]float64{}
		for _, c := range regexp.MustCompile(`--(\w+):#([0-9a-f]+)`).FindAllStringSubmatch(b[1], -1) {
			colours[c[1]] = luminance(t, c[2])
		}
		demand := func(a, b string) {
			t.Helper()
			x, y := max(colours[a], colours[b]), min(colours[a], colours[b])
			if ratio := (x + 0.05) / (y + 0.05); ratio < 4.5 {
				t.Errorf("%s on %s: contrast %.2f", a, b, ratio)
			}
		}
		for i := range 9 {
			demand(fmt.Sprintf("c%d", i), "bg")
			demand("on", fmt.Sprintf("c%d", i))
		}
		for _, on := range []string{"bg", "soft", "warn", "bar"} {
			demand("fg", on)
		}
		demand("dim", "bg")
		demand("accent", "bg")
	}
}

// luminance returns the relative luminance of a colour in hexadecimal digits.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	v, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(v>>(16-8*i)&255) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// TestPages: pages are well-formed, load nothing, and each chart has a sentence and a table
// with all of its points.
func TestPages(t *testing.T) {
	for name, p := range samples(t) {
		t.Run(name, func(t *testing.T) {
			text := render(t, p)
			elements, err := parse(text)
			if err != nil {
				t.Fatal(err)
			}
			ids := map[string]int{}
			tables := 0
			for _, e := range elements {
				demandNoLoads(t, e)
				if id := e.attributes["id"]; id != "" {
					ids[id]++
				}
				if e.name == "table" {
					tables++
				}
			}
			for id, n := range ids {
				if n != 1 {
					t.Errorf("%d elements have the id %s", n, id)
				}
			}
			if tables != len(p.First)+len(p.Charts)+len(p.Tables) || len(p.Charts) == 0 {
				t.Errorf("%d tables of %d charts and %d tables", tables, len(p.Charts), len(p.First)+len(p.Tables))
			}
			for _, c := range p.Charts {
				demandTable(t, c)
			}
			if strings.Contains(text, "ZgotmplZ") {
				t.Error("the template refused a value")
			}
			if len(text) > 400_000 {
				t.Errorf("%d bytes", len(text))
			}
		})
	}
}

// demandNoLoads demands that an element loads nothing and runs no attribute as a script.
func demandNoLoads(t *testing.T, e element) {
	t.Helper()
	for name, value := range e.attributes {
		switch {
		case slices.Contains([]string{"src", "srcset", "action", "poster", "background", "formaction", "data"}, name), strings.HasPrefix(name, "on"):
			t.Errorf("<%s %s=%q>", e.name, name, value)
		case name == "href" && !strings.HasPrefix(value, "#"):
			t.Errorf("<%s href=%q> leads away", e.name, value)
		case name == "style" && !regexp.MustCompile(`^--from:[\d.]+%;--to:[\d.]+%$`).MatchString(value):
			t.Errorf("<%s style=%q>", e.name, value)
		}
	}
	if slices.Contains([]string{"link", "img", "iframe", "object", "embed", "base", "form"}, e.name) {
		t.Errorf("<%s> in a page", e.name)
	}
}

// demandTable demands a sentence, and a table with the points of a chart.
func demandTable(t *testing.T, c *Chart) {
	t.Helper()
	if !strings.HasSuffix(c.Sentence, ".") || strings.Contains(c.Sentence, "NaN") || strings.Contains(c.Sentence, "Inf") || strings.Contains(c.Sentence, "%!") {
		t.Errorf("%s: the sentence is %q", c.ID, c.Sentence)
	}
	if c.Table == nil || len(c.Table.Rows) == 0 {
		t.Fatalf("%s: no table", c.ID)
	}
	for _, r := range c.Table.Rows {
		if len(r.Cells) != len(c.Table.Head) {
			t.Errorf("%s: a row of %d cells under %d heads", c.ID, len(r.Cells), len(c.Table.Head))
		}
	}
	if c.Timeline != nil {
		return
	}
	xs := c.xs()
	if len(c.Table.Rows) != len(xs) {
		t.Fatalf("%s: %d rows for %d places", c.ID, len(c.Table.Rows), len(xs))
	}
	for i, x := range xs {
		for k := range c.Series {
			want := "-"
			if y, ok := c.Series[k].at(x); ok {
				want = c.Y.Unit.cell(y)
			}
			if got := c.Table.Rows[i].Cells[k+1]; got != want || !strings.HasPrefix(c.Table.Head[k+1], c.Series[k].Name) {
				t.Errorf("%s at %v: %s is %q, want %q", c.ID, x, c.Series[k].Name, got, want)
			}
		}
	}
}

// TestNoLoads: neither scripts nor styles load anything. An address may stand in a comment.
func TestNoLoads(t *testing.T) {
	comments := regexp.MustCompile(`(?s)/\*.*?\*/`)
	for name, text := range map[string]string{"load.js": loadJS, "page.js": pageJS, "page.css": pageCSS, "uPlot.js": uplotJS, "uPlot.css": uplotCSS} {
		text = strings.ReplaceAll(comments.ReplaceAllString(text, ""), "http://www.w3.org/2000/svg", "") // the name of SVG is no address
		for _, bad := range []string{"http:", "https:", "url(", "@import", "fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon", "innerHTML", "eval("} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %s", name, bad)
			}
		}
	}
	text := render(t, samples(t)["bench"])
	if got := unpacked(t, text, "script"); got != uplotJS+"\n"+pageJS {
		t.Errorf("the script of the page has %d bytes, want uPlot's and the page's", len(got))
	}
	if !strings.Contains(text, `content="default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;; script-src &#39;sha256-`) {
		t.Error("no policy that forbids loads")
	}
}

// TestQuickSize: the page of a quick run has at most 120,000 bytes, also if its times have a
// spread.
func TestQuickSize(t *testing.T) {
	for _, file := range []string{"grid-soft-h200.json", "grid-h200-f1.json", "grid-h200-g1.json"} {
		p := of(t, summarized(t, file, nil, func(p grid.Point) bool { return p.Quick() }))
		all := p.Tables[slices.IndexFunc(p.Tables, func(t *Table) bool { return t.Title == "All results" })]
		if n := len(render(t, p)); n > 120_000 || len(all.Rows) < 200 {
			t.Errorf("%s: %d bytes for %d points", file, n, len(all.Rows))
		}
		if spread := !strings.Contains(file, "soft"); spread != strings.Contains(all.Sentence, " to 28 samples;") || spread != (len(all.Head) == 4) {
			t.Errorf("%s: the columns are %q: %s", file, all.Head, all.Sentence)
		}
	}
}

// TestSpan: rows of a group share their first cell, and only neighbours are a group.
func TestSpan(t *testing.T) {
	table := &Table{Grouped: true}
	for _, first := range []string{"a", "a", "b", "a", "a", "a"} {
		table.Rows = append(table.Rows, Row{Cells: []string{first}})
	}
	for _, want := range [][]int{{2, 0, 1, 3, 0, 0}, {1, 1, 1, 1, 1, 1}} {
		for i := range table.Rows {
			if got := table.Span(i); got != want[i] {
				t.Errorf("row %d: got %d, want %d", i, got, want[i])
			}
		}
		table.Grouped = false
	}
}

// TestHostile: names are text, wherever they are.
func TestHostile(t *testing.T) {
	for _, name := range []string{"hostile", "trace"} {
		text := render(t, samples(t)[name])
		if n := strings.Count(text, "<script"); n != 4 {
			t.Errorf("%s: %d scripts, want 4", name, n)
		}
		if strings.Contains(text, "<img") {
			t.Errorf("%s: a name is not escaped", name)
		}
	}
}

// TestHostileDocument: a document that is not escaped as Go escapes it.
func TestHostileDocument(t *testing.T) {
	text := render(t, of(t, []byte(`{"schema": "ferry.grid/1", "more": "</script><script>window.hacked=1</script><!--"}`)))
	if n := strings.Count(text, "<script"); n != 4 || strings.Count(text, "<!--") != 1 {
		t.Errorf("%d scripts, want 4", n)
	}
}

// TestDocument: the page has the whole document, and the name of its file.
func TestDocument(t *testing.T) {
	for name, p := range samples(t) {
		var got, want any
		if json.Unmarshal([]byte(unpacked(t, render(t, p), "document")), &got) != nil || json.Unmarshal(p.Raw, &want) != nil {
			t.Fatalf("%s: no document", name)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) || len(a) < 300 {
			t.Errorf("%s: the document differs", name)
		}
		if !strings.HasSuffix(p.Name, ".json") {
			t.Errorf("%s: the data's file is %q", name, p.Name)
		}
	}
}

// TestMarked: predictions are marked with the profile at the top, at every chart and every
// table, and on every axis with a time. Measurements are not.
func TestMarked(t *testing.T) {
	pages := samples(t)
	for name, want := range map[string]string{"bench": "profile h200", "compare": "profile h200", "overlap": "profile fermi-c2050", "trace": "profile h200"} {
		p := pages[name]
		text := render(t, p)
		if p.Marked != want || strings.Contains(text, "Predicted, not measured") != (name != "trace") || strings.Contains(text, "Partly predicted") != (name == "trace") {
			t.Errorf("%s: marked %q, want %q", name, p.Marked, want)
		}
		places := len(p.First) + len(p.Charts) + len(p.Tables)
		if n := strings.Count(text, `<p class="tag">predicted by `+want); n != places {
			t.Errorf("%s: %d of %d places are marked", name, n, places)
		}
		if n := strings.Count(text, ", predicted by "+want+"</caption>"); n != places {
			t.Errorf("%s: %d of %d tables are marked", name, n, places)
		}
		for _, d := range p.data() {
			if !strings.Contains(d.X.Label+d.Y.Label, want) && d.Y.Unit != Ratio {
				t.Errorf("%s: %s: no axis is marked", name, d.ID)
			}
		}
	}
	if text := render(t, pages["hardware"]); strings.Contains(text, "redicted") && strings.Contains(text, `class="marked"`) {
		t.Error("measurements are marked as predicted")
	}
}

// TestEmpty: charts without data are left out.
func TestEmpty(t *testing.T) {
	p := of(t, quick(t, "grid-soft-h200.json", func(p grid.Point) bool { return p.Kind == "copy pinned in" || p.Kind == "fill" }))
	var ids []string
	for _, c := range p.Charts {
		ids = append(ids, c.ID)
	}
	if got := strings.Join(ids, " "); got != "bandwidth ways on-device" {
		t.Errorf("charts: %s", got)
	}
	none := of(t, quick(t, "grid-soft-h200.json", func(grid.Point) bool { return false }))
	if _, err := parse(render(t, none)); err != nil || len(none.Charts) != 0 {
		t.Errorf("%v, %d charts of nothing", err, len(none.Charts))
	}
	if p := of(t, []byte(`{"schema": "ferry.compare/1", "rows": [], "partial": "interrupted"}`)); len(p.Charts) != 0 || !strings.Contains(render(t, p), "partial: interrupted.") {
		t.Error("an empty comparison")
	}
	if p := of(t, []byte(`{"schema": "ferry.overlap/1", "operations": [{"blocked_by": 99}]}`)); !strings.Contains(render(t, p), "<table") {
		t.Error("a wrong number of an operation")
	}
}

// TestWrong: what is no result is an error.
func TestWrong(t *testing.T) {
	for doc, want := range map[string]string{
		"":                           "unexpected end",
		"[]":                         "cannot unmarshal",
		`{"schema": "ferry.info/1"}`: `no page for the schema "ferry.info/1"`,
		`{"schema": "ferry.grid/1", "points": [{"size": "x"}]}`:        "points",
		`{"schema": "ferry.compare/1", "rows": [{"pinned_ns": "x"}]}`:  "pinned_ns",
		`{"schema": "ferry.overlap/1", "operations": {"stream": "x"}}`: "operations",
	} {
		if p, err := Of([]byte(doc)); err == nil || p != nil || !strings.Contains(err.Error(), want) && want != "pinned_ns" {
			t.Errorf("%s: got %v, want %s", doc, err, want)
		}
	}
}

// TestSentences: what the sentences say is so.
func TestSentences(t *testing.T) {
	c := &Chart{X: Axis{"size", Bytes}, Y: Axis{"time", Time}, Series: []Series{
		{Name: "a", Points: []Point{{1024, 10}, {2048, 10}, {4096, 1000}}},
		{Name: "b", Points: []Point{{1024, 20}, {2048, 20}, {4096, 20}}},
		{Name: "c", Points: []Point{{1024, 21}, {2048, 21}, {4096, 19.9}}},
		{Name: "floor", Dashed: true, Points: []Point{{1024, 1}, {2048, 1}}},
	}}
	if got, want := c.fastest(), "Fastest: a from 1 KiB to 2 KiB; c at 4 KiB."; got != want {
		t.Errorf("got %s", got)
	}
	got := c.crossovers([][2]string{{"b", "c"}, {"a", "b"}, {"a", "none"}, {"floor", "a"}})
	if want := "A and c cross at about 2.23 KiB; b and c cross at about 3.75 KiB; a and b cross at about 2.22 KiB."; got != want {
		t.Errorf("got %s", got)
	}
	for i, want := range []string{"c beats a from 2.23 KiB", "c beats b from 3.75 KiB", "b beats a from 2.22 KiB"} {
		if c.Marks[i].Text != want {
			t.Errorf("mark %d: %s", i, c.Marks[i].Text)
		}
	}
	if x := crossing(Point{1, 1}, Point{100, 100}, Point{1, 10}, Point{100, 10}); math.Abs(x-10) > 1e-9 {
		t.Errorf("the lines cross at %v, want 10", x)
	}
	if got, want := c.extremes("slowest"), "At 4 KiB, a is the slowest (1.00 us), and c has the least (20 ns)."; got != want {
		t.Errorf("got %s", got)
	}
}

// TestSummary: the page shows the summary, what is not normal, and what was not measured.
func TestSummary(t *testing.T) {
	p := samples(t)["summary"]
	if len(p.First) != 4 || len(p.Tables) != 2 {
		t.Fatalf("%d tables before the charts, %d after", len(p.First), len(p.Tables))
	}
	is, kinds, causes, crossings := p.First[0], p.First[1], p.First[2], p.First[3]
	if !strings.HasSuffix(is.Sentence, " rows are normal for h200, 5 are slower and 0 faster. The range of normal is that of 7 measured machines (NVIDIA H200).") {
		t.Errorf("got %s", is.Sentence)
	}
	if len(is.Rows) != 5 || is.Rows[0].Cells[0] != "copy pinned out" || is.Rows[0].Cells[2] != "slower" || is.Rows[0].Bar <= 0 {
		t.Errorf("got %+v", is.Rows)
	}
	for i, r := range kinds.Rows {
		if r.Cells[0] == "copy pinned out" && (r.Cells[1] != "not normal" || r.Cells[2] != "27.61 GB/s" || r.Cells[3] != "63.02 GB/s" || r.Cells[4] != "44") {
			t.Errorf("row %d: got %q", i, r.Cells)
		}
	}
	if len(kinds.Rows) != 50 || !strings.HasPrefix(kinds.Sentence, "15 of 50 kinds with a ceiling reach 95 % of it or more: against link 63.0 GB/s") {
		t.Errorf("%d kinds: %s", len(kinds.Rows), kinds.Sentence)
	}
	if text := render(t, p); !strings.Contains(text, " ±") || strings.Contains(text, "+-") {
		t.Error("a standard error has no sign ±")
	}
	if len(causes.Rows) < 5 || causes.Rows[0].Cells[1] == "" || len(crossings.Rows) == 0 || !strings.HasSuffix(crossings.Rows[0].Cells[0], "iB") {
		t.Errorf("causes %+v, crossovers %+v", causes.Rows, crossings.Rows)
	}
	want := "Skipped: 1 kind. The last table says why.\nLeft out, because the time was over: 3 cases of 2 kinds. The last table names them."
	if got := strings.Join(p.Notes, "\n"); got != want {
		t.Errorf("notes: %s", got)
	}
	if got := p.Tables[1].Rows; len(got) != 3 || got[1].Cells[0] != "fill" || got[1].Cells[2] != "2" {
		t.Errorf("not measured: %+v", got)
	}
	all := normalTable(&normal.Report{Reference: "x", Normal: 2, Rows: []normal.Entry{{Ratio: 1.01, State: normal.Normal}, {Ratio: 0.9, State: normal.Normal}}})
	if len(all.Rows) != 2 || all.Rows[0].Cells[6] != "0.90 times" || !strings.Contains(all.Sentence, "furthest") {
		t.Errorf("all are normal: %+v", all)
	}
	if p := of(t, []byte(`{"schema": "ferry.grid/1", "normal": {"rows": null}, "summary": {}}`)); len(p.First) != 0 {
		t.Errorf("tables of nothing: %+v", p.First)
	}
}

// TestUnreliable: families of patterns that predictions are wrong for are marked.
func TestUnreliable(t *testing.T) {
	p := of(t, []byte(`{"schema": "ferry.grid/1", "predicted": true, "marked": {"managed memory": "a reason"}, "points": []}`))
	if len(p.Notes) != 1 || p.Notes[0] != `Do not rely on the predictions of the family "managed memory": a reason.` {
		t.Errorf("got %q", p.Notes)
	}
	marked, c := 0, grid.Case{}
	for _, x := range grid.Patterns.Cases() {
		if x.Marked() != "" {
			c = x
		}
	}
	for _, predicted := range []bool{true, false} {
		r := allPoints(&grid.Result{Predicted: predicted, Points: []grid.Point{{Case: c, Median: 1}}}).Rows[0].Cells[0]
		if strings.HasSuffix(r, " (do not rely on it)") {
			marked++
		}
	}
	if c.Kind != "" && marked != 1 {
		t.Errorf("%v: %d of a prediction and a measurement are marked", c, marked)
	}
}

// TestCompareReuse: the chart shows the largest size at which reuse changes the best kind, and
// the table the best kinds of all sizes.
func TestCompareReuse(t *testing.T) {
	p := of(t, []byte(`{"schema": "ferry.compare/1", "kernel": {"name": "mine"},
		"rows": [{"bytes": 4096, "pinned_ns": 20, "zero_copy_ns": 10, "kernel_ns": 1, "verified": true}, {"bytes": 8192, "pinned_ns": 40, "zero_copy_ns": 10, "verified": true}],
		"reuse": [{"times": 4, "rows": [{"bytes": 4096, "pinned_ns": 20, "zero_copy_ns": 40}, {"bytes": 8192, "pinned_ns": 40, "zero_copy_ns": 30, "pageable_in_kernels_ns": 31}]},
			{"times": 1, "rows": [{"bytes": 4096, "pinned_ns": 99}]}, {"times": -1, "rows": []}]}`))
	c := p.Charts[len(p.Charts)-1]
	want := "Fastest: zero-copy at 1; pinned at 4. Zero-copy and pinned cross at about 2. This is the largest size at which reuse changes the best kind. Zero-copy crosses the link in each launch, a copy once."
	if c.ID != "reuse" || c.Title != "The kernel mine with several launches on the same inputs, at 4 KiB" || c.Sentence != want || len(c.Marks) != 1 || math.Abs(c.Marks[0].X-2) > 1e-9 {
		t.Errorf("got %s, %s, %s, %+v", c.ID, c.Title, c.Sentence, c.Marks)
	}
	if len(c.Series) != 3 || !c.Series[2].Dashed || c.Series[0].Points[1] != (Point{4, 20}) {
		t.Errorf("got %+v", c.Series)
	}
	got, err := json.Marshal(p.Tables[0].Rows)
	if wanted := `[{"Cells":["4 KiB","zero-copy, 0.0100","pinned, 0.0200"],"Bar":0},{"Cells":["8 KiB","zero-copy, 0.0100","zero-copy, 0.0300"],"Bar":0}]`; err != nil || string(got) != wanted {
		t.Errorf("got %s", got)
	}
	if len(p.Notes) != 1 || p.Notes[0] != "The results of 2 of 4 rows were wrong. Their times mean nothing." {
		t.Errorf("notes: %q", p.Notes)
	}
	if strings.Contains(p.Charts[0].Sentence, "read once") || !strings.HasPrefix(p.Charts[0].Title, "The kernel mine by") {
		t.Errorf("an own kernel: %s: %s", p.Charts[0].Title, p.Charts[0].Sentence)
	}
	same := &comparison{Rows: oneKind(4096, 10), Reuse: []reuseRows{{2, oneKind(4096, 20)}}}
	if c := same.reuse(); !strings.Contains(c.Sentence, "is the same at all sizes") {
		t.Errorf("got %s", c.Sentence)
	}
}

// oneKind returns a row with one kind.
func oneKind(bytes, ns float64) []comparisonRow {
	return []comparisonRow{{bytes: bytes, verified: true, ns: map[string]*float64{"pinned": &ns}}}
}

// TestLinkRate: the rate of the link is that of the document, or of the profile.
func TestLinkRate(t *testing.T) {
	mine := "mine"
	for _, c := range []struct {
		m    *grid.Machine
		d    info.Device
		want float64
	}{
		{&grid.Machine{Generation: 4, Lanes: 8, Link: 15.75e9}, info.Device{Profile: &mine}, 15.75},
		{nil, info.Device{Profile: &mine}, 0}, {&grid.Machine{}, info.Device{Name: "no product"}, 0},
		{nil, info.Device{Name: "NVIDIA H200"}, 63.02},
	} {
		if got, name := linkRate(c.m, c.d); math.Abs(got-c.want) > 0.01 || (name == "") != (c.want == 0) {
			t.Errorf("%+v, %+v: got %v, %q", c.m, c.d, got, name)
		}
	}
}

// TestReuse: from the computed number of passes on, a copy and passes on the device take
// less time than passes over the link.
func TestReuse(t *testing.T) {
	by := points{}
	for kind, ns := range map[string]float64{"copy pinned in": 1000, "kernel reads pinned words": 600, "kernel reads words": 100} {
		by[kind] = []grid.Point{{Case: grid.Case{Kind: kind, Size: 1 << 20}, Median: ns}}
	}
	c := by.reuse()
	if c == nil || c.Series[0].Points[0] != (Point{1 << 20, 2}) || !strings.HasPrefix(c.Sentence, "At 1 MiB a copy first wins from 2.00 passes on.") {
		t.Fatalf("got %+v", c)
	}
	by = points{}
	for kind, ns := range map[string]float64{
		"all words in 1 pass" + zeroCopy: 10, "all words in 1 pass" + copyFirst: 20, "all words in 4 passes" + zeroCopy: 40, "all words in 4 passes" + copyFirst: 20,
	} {
		by[kind] = []grid.Point{{Case: grid.Case{Kind: kind, Size: 1 << 20}, Median: ns}}
	}
	if c := by.passes(); c == nil || c.Sentence != "At 1 MiB copying wins from about 2.00 passes on." {
		t.Errorf("got %+v", c)
	}
}

// TestData: the script gets the numbers of the series, to five digits.
func TestData(t *testing.T) {
	for name, p := range samples(t) {
		for i, d := range p.data() {
			c := p.Charts[i]
			for k, s := range d.Series {
				for n, x := range d.Xs {
					want, ok := c.Series[k].at(float64(x))
					if got := s.Ys[n]; (got != nil) != ok || ok && float64(*got) != want {
						t.Errorf("%s: %s: %s at %v: got %v, want %v", name, c.ID, s.Name, x, got, want)
					}
				}
			}
		}
	}
	for n, want := range map[number]string{1 << 40: "1099511627776", 0.000123456: "0.00012346", 2.5: "2.5", 1e7 + 0.5: "1e+07"} {
		if got, err := n.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%v is written as %s, want %s", float64(n), got, want)
		}
	}
}

// TestTimeline: spans of a lane do not overlap, each operation has its span, and two drivers
// share no lane.
func TestTimeline(t *testing.T) {
	for _, name := range []string{"trace", "overlap"} {
		c := samples(t)[name].Charts[0]
		ends := map[int]int64{}
		for _, i := range byStart(len(c.Timeline.Spans), func(i int) int64 { return c.Timeline.Spans[i].Start }) {
			s := c.Timeline.Spans[i]
			if s.Start < ends[s.Lane] || s.End < s.Start || s.Lane >= len(c.Timeline.Lanes) || s.Kind >= len(c.Timeline.Kinds) {
				t.Errorf("%s: span %+v begins before the one before it ends", name, s)
			}
			ends[s.Lane] = s.End
		}
		if name == "overlap" && len(c.Timeline.Spans) != 2*len(c.Table.Rows) {
			t.Errorf("%d spans of %d operations", len(c.Timeline.Spans), len(c.Table.Rows))
		}
	}
	lanes := strings.Join(samples(t)["trace"].Charts[0].Timeline.Lanes, "\n")
	for _, want := range []string{"driver calls, driver 1\ndriver calls, driver 2\n", "engine: copy in, device 0 of driver 1", "engine: compute, device 0 of driver 1 (2)", "stream 2, device 0 of driver 1"} {
		if !strings.Contains(lanes, want) {
			t.Errorf("no lane %q in\n%s", want, lanes)
		}
	}
}

// TestLongRecording: a page shows the longest operations, and says so.
func TestLongRecording(t *testing.T) {
	r := &trace.Recording{Program: "long", Drivers: []trace.DriverInfo{{ID: 1, Clock: "host"}}, Devices: []trace.DeviceInfo{{Driver: 1, Name: "x"}}}
	for i := range int64(100_000) {
		r.Operations = append(r.Operations, trace.Operation{ID: uint64(i + 1), Name: "k", Driver: 1, Stream: 1, Engine: "compute", Start: 1000 * i, End: 1000*i + 100 + i%500})
	}
	p, err := OfRecording(r, tracereport.Summarize(r))
	if err != nil {
		t.Fatal(err)
	}
	c := p.Charts[0]
	if len(c.Timeline.Spans) != 2*maxSpans || !strings.Contains(c.Sentence, "longest 1500 operations of 100000") {
		t.Errorf("%d spans: %s", len(c.Timeline.Spans), c.Sentence)
	}
	for _, s := range c.Timeline.Spans {
		if s.End-s.Start < 590 {
			t.Fatalf("a short operation is shown: %+v", s)
		}
	}
	if n := len(render(t, p)); n > 600_000 {
		t.Errorf("%d bytes", n)
	}
}

// TestLibraries: the files of others are those whose checksums are written down.
func TestLibraries(t *testing.T) {
	for dir, texts := range map[string]map[string]string{
		"uplot":        {"dist/uPlot.iife.min.js": uplotJS, "dist/uPlot.min.css": uplotCSS, "LICENSE": uplotLicence},
		"testdata/axe": {"axe.min.js": axe(t)},
	} {
		readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range texts {
			sum := sha256.Sum256([]byte(text))
			if !strings.Contains(string(readme), "`"+name+"` | `"+hex.EncodeToString(sum[:])+"`") {
				t.Errorf("%s: %s has another checksum", dir, name)
			}
		}
	}
	if !strings.Contains(render(t, samples(t)["overlap"]), "Copyright (c) 2022 Leon Sorokin") {
		t.Error("a page lacks the licence of uPlot")
	}
}

// axe returns the script of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	f, err := os.Open("testdata/axe/axe.min.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
