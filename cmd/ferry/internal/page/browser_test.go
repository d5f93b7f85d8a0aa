package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// saved writes a page to a file.
func saved(t *testing.T, name string, p *Page) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".html")
	if err := os.WriteFile(path, []byte(render(t, p)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// look is a window: its name, its colours, and its width in pixels.
type look struct {
	name, scheme string
	width        int
}

// looks are the windows that the test tries.
var looks = []look{{"light-wide", "light", 1280}, {"dark-wide", "dark", 1280}, {"light-narrow", "light", 400}, {"dark-narrow", "dark", 400}}

// TestBrowser runs the tests in Chromium: one browser, and a tab for each test.
func TestBrowser(t *testing.T) {
	b := newChromium(t)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c *chromium)
	}{
		{"looks", testLooks}, {"zoom", testZoom}, {"legend", testLegend}, {"resize", testResize}, {"theme", testTheme},
		{"copy", testCopy}, {"print", testPrint}, {"without scripts", testWithoutScripts}, {"old browser", testOldBrowser},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, b.tab(t)) })
	}
}

// accessLooks are the looks of each page that axe-core sees. It takes seconds for pages with
// long tables, so that the page "hardware", which is the page "bench" with more rows, has none.
var accessLooks = map[string][]string{
	"bench": {"light-wide", "dark-narrow"}, "summary": {"light-wide"}, "patterns": {"dark-narrow"}, "compare": {"light-wide", "dark-narrow"},
	"overlap": {"light-wide", "dark-narrow"}, "trace": {"light-wide", "dark-narrow"}, "hostile": {"dark-narrow"}, "hardware": nil,
}

// testLooks: in Chromium every page renders without a message on the console and without
// a request, each chart draws all of its points, nothing is wider than the window, and
// axe-core finds nothing serious. One look of each page is drawn.
func testLooks(t *testing.T, c *chromium) {
	script := axe(t)
	if pages := samples(t); len(pages) != len(accessLooks) {
		t.Errorf("%d pages, but looks for axe-core of %d", len(pages), len(accessLooks))
	}
	pages := samples(t)
	for _, s := range drawnSights(t, slices.Sorted(maps.Keys(pages))) {
		name, p := s.page+" "+s.look.name, pages[s.page]
		c.look(s.look.width, s.look.scheme, "screen")
		c.open(saved(t, s.page, p))
		c.settle()
		demandCharts(t, c, name, p)
		demandLabels(t, c, name, p)
		if over := c.number(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
			t.Errorf("%s: the page is %v pixels wider than the window", name, over)
		}
		if slices.Contains(accessLooks[s.page], s.look.name) {
			demandAccess(t, c, name, script)
		}
		c.screenshot(s.page+"-"+s.look.name, s.look.width, 0)
		demandQuiet(t, c, name)
		if hacked := c.text(`String(window.hacked)`); hacked != "undefined" {
			t.Errorf("%s: a name ran as a script", name)
		}
	}
}

// sight is a page in a window.
type sight struct {
	page string
	look look
}

// drawnSights returns one look of each page, or all with FERRY_FULL=1: four of three pages, and
// two of the others, which have the charts and the style of these.
func drawnSights(t *testing.T, pages []string) []sight {
	t.Helper()
	var all []sight
	for _, name := range pages {
		for i, look := range looks {
			if slices.Contains([]string{"bench", "compare", "trace"}, name) || i%3 == 0 {
				all = append(all, sight{name, look})
			}
		}
	}
	return sample.OfEach(t, all, func(s sight) string { return s.page }, len(looks))
}

// demandQuiet demands that there was no message and no request since the page was loaded.
func demandQuiet(t *testing.T, c *chromium, name string) {
	t.Helper()
	if got := c.takeProblems(); len(got) > 0 {
		t.Errorf("%s: %q", name, got)
	}
}

// demandCharts demands that each chart of a page draws its points, in their colours.
func demandCharts(t *testing.T, c *chromium, name string, p *Page) {
	t.Helper()
	if n := int(c.number(`document.querySelectorAll(".plot canvas").length`)); n != len(p.Charts) {
		t.Errorf("%s: %d charts, want %d", name, n, len(p.Charts))
	}
	for _, chart := range p.Charts {
		want, colours := 0, 0
		if chart.Timeline != nil {
			want, colours = len(chart.Timeline.Spans), len(chart.Timeline.Kinds)
		}
		for _, s := range chart.Series {
			if colours++; !s.Dashed {
				want += len(s.Points)
			}
		}
		if got := c.text(`document.querySelector("#%s .plot").dataset.points`, chart.ID); got != fmt.Sprint(want) {
			t.Errorf("%s: %s draws %s points, want %d", name, chart.ID, got, want)
		}
		least := colours
		if c.number(`innerWidth`) < 600 {
			least-- // a line can be wholly behind another one
		}
		if got := int(c.number(drawnColours, chart.ID)); got < least {
			t.Errorf("%s: %s draws %d colours of %d", name, chart.ID, got, colours)
		}
	}
}

// demandLabels demands that each line of a chart has a label at its end, whole and apart from
// the others, and that the points of no two lines have the same form.
func demandLabels(t *testing.T, c *chromium, name string, p *Page) {
	t.Helper()
	for _, chart := range p.Charts {
		if chart.Timeline != nil {
			continue
		}
		var labels []struct {
			Text   string
			Y, End float64
		}
		c.eval(fmt.Sprintf(`JSON.parse(document.querySelector("#%s .plot").dataset.labels)`, chart.ID), &labels)
		width := c.number(`document.querySelector("#%s canvas").getBoundingClientRect().width`, chart.ID)
		seen := map[string]bool{}
		for i, l := range labels {
			if i > 0 && l.Y-labels[i-1].Y < 13 {
				t.Errorf("%s: %s: the label %q is %v below %q", name, chart.ID, l.Text, l.Y-labels[i-1].Y, labels[i-1].Text)
			}
			if l.End > width || l.Y < 0 {
				t.Errorf("%s: %s: the label %q is cut: it ends at %v of %v", name, chart.ID, l.Text, l.End, width)
			}
			seen[l.Text] = true
		}
		for i, s := range chart.Series {
			want, _, _ := strings.Cut(s.Name, ":")
			if !s.Dashed {
				want = s.Name
			}
			if c.number(`innerWidth`) < 600 {
				want = string(rune('A' + i))
			}
			if !seen[want] || len(seen) != len(chart.Series) {
				t.Errorf("%s: %s: no label %q in %v", name, chart.ID, want, labels)
			}
		}
		forms := c.number(`new Set([...document.querySelectorAll("#%s .legend svg")].map(e => e.outerHTML)).size`, chart.ID)
		if want := len(slices.DeleteFunc(slices.Clone(chart.Series), func(s Series) bool { return s.Dashed })); int(forms) != want {
			t.Errorf("%s: %s: %v forms of points for %d lines", name, chart.ID, forms, want)
		}
	}
}

// drawnColours is a script that counts the entries of a legend whose colour is in the chart.
const drawnColours = `(() => {
	const s = document.getElementById("%s"), canvas = s.querySelector("canvas");
	const d = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
	for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
	return [...s.querySelectorAll(".legend i")].filter(e => { const m = getComputedStyle(e).borderTopColor.match(/\d+/g); return seen.has(m[0] << 16 | m[1] << 8 | +m[2]) }).length;
})()`

// demandAccess demands that axe-core finds nothing serious or critical.
func demandAccess(t *testing.T, c *chromium, name, script string) {
	t.Helper()
	c.eval(`typeof axe === "object" ? 0 : (() => {`+script+`; return 0})()`, nil)
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	c.eval(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations)`, &found)
	for _, v := range found {
		text := fmt.Sprintf("%s: axe-core: %s (%s): %s: %d places, such as %.300s: %s", name, v.ID, v.Impact, v.Help, len(v.Nodes), v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
		if v.Impact == "serious" || v.Impact == "critical" {
			t.Error(text)
		} else {
			t.Log(text)
		}
	}
}

// drawn returns how many points a chart draws. It is fewer when it is zoomed.
func drawn(c *chromium, id string) int {
	c.t.Helper()
	return int(c.number(`+document.querySelector("#%s .plot").dataset.points`, id))
}

// testZoom: dragging, buttons and keys zoom, and show all again.
func testZoom(t *testing.T, c *chromium) {
	c.look(1280, "light", "screen")
	pages := samples(t)
	for name, id := range map[string]string{"bench": "bandwidth", "trace": "timeline"} {
		c.open(saved(t, name, pages[name]))
		c.settle()
		whole := drawn(c, id)
		all := func() {
			t.Helper()
			c.eval(fmt.Sprintf(`document.querySelector("#%s [data-do=all]").click()`, id), nil)
			c.settle()
			if n := drawn(c, id); n != whole {
				t.Errorf("%s: %d points after Show all, want %d", name, n, whole)
			}
		}
		zoomed := func(how string) {
			t.Helper()
			if n := drawn(c, id); n >= whole || n == 0 {
				t.Errorf("%s: %s: %d points of %d", name, how, n, whole)
			}
		}
		c.drag(id, 0.02, 0.2)
		zoomed("dragging")
		all()
		for range 3 {
			c.eval(fmt.Sprintf(`document.querySelector("#%s [data-do=in]").click()`, id), nil)
		}
		c.settle()
		middle := drawn(c, id)
		if name == "bench" {
			zoomed("zoom in")
		}
		c.eval(fmt.Sprintf(`document.querySelector("#%s [data-do=out]").click()`, id), nil)
		c.settle()
		if n := drawn(c, id); name == "bench" && n <= middle {
			t.Errorf("zoom out: %d points after %d", n, middle)
		}
		for range 9 {
			c.eval(fmt.Sprintf(`document.querySelector("#%s [data-do=left]").click()`, id), nil)
		}
		c.settle()
		if n := drawn(c, id); name == "bench" && (n == 0 || n >= whole) || name == "trace" && n == middle && n == whole {
			t.Errorf("%s: moved to the left: %d points", name, n)
		}
		left := c.text(`document.querySelector("#%s canvas").toDataURL()`, id)
		c.eval(fmt.Sprintf(`document.querySelector("#%s [data-do=right]").click()`, id), nil)
		c.settle()
		if c.text(`document.querySelector("#%s canvas").toDataURL()`, id) == left {
			t.Errorf("%s: moving to the right shows the same", name)
		}
		all()
		c.eval(fmt.Sprintf(`document.querySelector("#%s .plot").focus()`, id), nil)
		c.key("Home")
		start := c.text(`document.querySelector("#%s .readout").textContent`, id)
		c.key("ArrowRight")
		if next := c.text(`document.querySelector("#%s .readout").textContent`, id); next == start || next == "" {
			t.Errorf("%s: the right arrow says %q", name, next)
		}
		if live := c.text(`document.querySelector("#%s .readout").getAttribute("aria-live")`, id); live != "polite" {
			t.Errorf("%s: after a key the values are %s", name, live)
		}
		for range 3 {
			c.key("+")
		}
		if name == "bench" {
			zoomed("plus")
			if !strings.HasPrefix(start, "4 KiB: pinned in 0.5") {
				t.Errorf("the first point is %q", start)
			}
		}
		c.key("0")
		if n := drawn(c, id); n != whole {
			t.Errorf("%s: %d points after 0, want %d", name, n, whole)
		}
		demandQuiet(t, c, name)
	}
}

// testLegend: a line of the legend hides and shows its points.
func testLegend(t *testing.T, c *chromium) {
	c.look(1280, "light", "screen")
	pages := samples(t)
	for name, id := range map[string]string{"bench": "bandwidth", "overlap": "overlap"} {
		c.open(saved(t, name, pages[name]))
		c.settle()
		whole := drawn(c, id)
		for _, want := range []string{"false", "true"} {
			got := c.text(`(() => { const b = document.querySelector("#%s .legend button"); b.click(); return b.getAttribute("aria-pressed") })()`, id)
			c.settle()
			if name == "bench" {
				shown := strings.Contains(c.text(`document.querySelector("#%s .plot").dataset.labels`, id), `"pinned in"`)
				if shown != (want == "true") {
					t.Errorf("pressed %s: the label is shown: %t", got, shown)
				}
			}
			if n := drawn(c, id); got != want || (n < whole) != (want == "false") {
				t.Errorf("%s: pressed %s, want %s; %d points of %d", name, got, want, n, whole)
			}
		}
	}
}

// testResize: labels and lanes follow the width of the window.
func testResize(t *testing.T, c *chromium) {
	pages := samples(t)
	for _, name := range []string{"compare", "trace"} {
		c.look(400, "light", "screen")
		c.open(saved(t, name, pages[name]))
		c.settle()
		narrow := c.number(`document.querySelector("canvas").height`)
		for _, width := range []int{1280, 400} {
			c.look(width, "light", "screen")
			c.settle()
			c.settle()
			demandCharts(t, c, name, pages[name])
			demandLabels(t, c, name, pages[name])
		}
		if back := c.number(`document.querySelector("canvas").height`); back != narrow {
			t.Errorf("%s: a chart is %v pixels high, %v after the window was wide", name, narrow, back)
		}
		demandQuiet(t, c, name)
	}
}

// testTheme: the select changes the colours of the page and of its charts, and a system that
// changes its own changes both.
func testTheme(t *testing.T, c *chromium) {
	c.look(1280, "light", "screen")
	p := samples(t)["bench"]
	c.open(saved(t, "bench", p))
	background := func() string { t.Helper(); return c.text(`getComputedStyle(document.body).backgroundColor`) }
	choose := func(theme string) {
		t.Helper()
		c.eval(fmt.Sprintf(`(() => { const e = document.getElementById("theme"); e.value = %q; e.dispatchEvent(new Event("change")) })()`, theme), nil)
		c.settle()
		demandCharts(t, c, "theme "+theme, p)
	}
	light := background()
	choose("dark")
	dark := background()
	c.look(1280, "dark", "screen")
	choose("")
	if system := background(); dark == light || system != dark {
		t.Errorf("light %s, dark %s, a dark system %s", light, dark, system)
	}
	choose("light")
	if got := background(); got != light {
		t.Errorf("light on a dark system is %s, want %s", got, light)
	}
	c.look(1280, "dark", "print")
	choose("dark")
	if got := background(); got != light {
		t.Errorf("on paper the background is %s, want %s", got, light)
	}
	demandQuiet(t, c, "theme")
}

// testCopy: copying gives Markdown with all cells of the tables, in rows of one width, and
// the download gives the document.
func testCopy(t *testing.T, c *chromium) {
	c.look(1280, "light", "screen")
	for _, name := range []string{"bench", "hostile"} {
		p := samples(t)[name]
		c.open(saved(t, name, p))
		c.eval(`document.querySelector("#bandwidth [data-do=copy]").click()`, nil)
		c.settle()
		one := c.text(`navigator.clipboard.readText()`)
		chart := p.Charts[0]
		if !strings.Contains(one, "## Bandwidth of copies over the link\n") || strings.Count(one, "\n| ") != len(chart.Table.Rows)+2 || strings.Contains(one, "## Ways") {
			t.Errorf("%s: a chart's Markdown is %s", name, one)
		}
		c.eval(`document.getElementById("copy-all").click()`, nil)
		c.settle()
		text := c.text(`navigator.clipboard.readText()`)
		if got := c.text(`document.getElementById("status").textContent`); got != "The page is copied." {
			t.Errorf("%s: the status is %q", name, got)
		}
		rows := 0
		for _, chart := range p.Charts {
			rows += len(chart.Table.Rows) + 2
		}
		for _, table := range slices.Concat(p.First, p.Tables) {
			rows += len(table.Rows) + 2
		}
		if got := strings.Count(text, "\n| "); got != rows {
			t.Errorf("%s: the Markdown has %d rows, want %d", name, got, rows)
		}
		demandRows(t, text)
		if p.Marked != "" && strings.Count(text, p.Marked) < len(p.Charts) {
			t.Errorf("%s: the Markdown does not mark predictions", name)
		}
		if strings.Contains(text, "<script") && !strings.Contains(text, `\<script`) {
			t.Errorf("%s: a name is not escaped in Markdown", name)
		}
		demandQuiet(t, c, name)
		demandDownload(t, c, p)
	}
}

// demandRows demands that all rows of each table in Markdown have the same number of cells.
func demandRows(t *testing.T, text string) {
	t.Helper()
	cells := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| ") {
			cells = 0
			continue
		}
		n := strings.Count(line, "|") - strings.Count(line, `\|`)
		if cells != 0 && n != cells {
			t.Errorf("a row of %d cells in a table of %d: %s", n-1, cells-1, line)
		}
		cells = n
	}
}

// demandDownload demands that the button downloads the document.
func demandDownload(t *testing.T, c *chromium, p *Page) {
	t.Helper()
	dir := t.TempDir()
	session := c.session
	c.session = ""
	c.call("Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": dir}, nil)
	c.session = session
	c.eval(`document.getElementById("download").click()`, nil)
	var got []byte
	for range 100 {
		c.eval(`new Promise(done => setTimeout(() => done(1), 100))`, nil)
		if got, _ = os.ReadFile(filepath.Join(dir, p.Name)); len(got) > 0 {
			break
		}
	}
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Errorf("the download: %v: %.100s", err, got)
	}
	if err := json.Unmarshal(p.Raw, &b); err != nil {
		t.Error(err)
	}
	if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
		t.Errorf("the download is not the document: %.100s", x)
	}
	c.takeProblems() // the download is a request
}

// testPrint: on paper all tables are open, charts fit, and controls are not shown.
func testPrint(t *testing.T, c *chromium) {
	c.look(1280, "dark", "screen")
	p := samples(t)["bench"]
	c.open(saved(t, "bench", p))
	c.settle()
	var pdf struct{ Data string }
	c.call("Page.printToPDF", map[string]any{"printBackground": true}, &pdf)
	if len(pdf.Data) < 10_000 {
		t.Errorf("a PDF of %d bytes", len(pdf.Data))
	}
	c.eval(`dispatchEvent(new Event("beforeprint"))`, nil)
	c.look(700, "dark", "print")
	c.settle()
	if n := int(c.number(`document.querySelectorAll("details:not([open])").length`)); n != 0 {
		t.Errorf("%d tables are closed on paper", n)
	}
	if n := int(c.number(`[...document.querySelectorAll("button, select")].filter(e => e.offsetParent && !e.closest(".legend")).length`)); n != 0 {
		t.Errorf("%d controls on paper", n)
	}
	if over := c.number(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		t.Errorf("%v pixels wider than the paper", over)
	}
	c.screenshot("bench-print", 700, 0)
	c.eval(`dispatchEvent(new Event("afterprint"))`, nil)
	if n := int(c.number(`document.querySelectorAll("details:not([open])").length`)); n == 0 {
		t.Error("after printing all tables are open")
	}
}

// testWithoutScripts: the sentences and tables are shown without scripts.
func testWithoutScripts(t *testing.T, c *chromium) {
	c.look(1280, "light", "screen")
	c.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	p := samples(t)["overlap"]
	c.open(saved(t, "overlap", p))
	rows := int(c.number(`[...document.querySelectorAll("tbody tr")].filter(e => e.checkVisibility()).length`))
	if rows != len(p.Charts[0].Table.Rows) {
		t.Errorf("%d rows are shown, want %d", rows, len(p.Charts[0].Table.Rows))
	}
	if shown := int(c.number(`[...document.querySelectorAll("button, select, .plot")].filter(e => e.checkVisibility()).length`)); shown != 0 {
		t.Errorf("%d controls are shown that do nothing", shown)
	}
	c.screenshot("overlap-no-scripts", 1280, 0)
}

// testOldBrowser: a browser that cannot unpack the charts shows the tables, and says why.
func testOldBrowser(t *testing.T, c *chromium) {
	c.look(1280, "light", "screen")
	c.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": "delete window.DecompressionStream"}, nil)
	p := samples(t)["overlap"]
	c.open(saved(t, "overlap", p))
	if rows := int(c.number(`[...document.querySelectorAll("tbody tr")].filter(e => e.checkVisibility({visibilityProperty: true})).length`)); rows != len(p.Charts[0].Table.Rows) {
		t.Errorf("%d rows are shown, want %d", rows, len(p.Charts[0].Table.Rows))
	}
	if shown := int(c.number(`[...document.querySelectorAll("button, select, .plot")].filter(e => e.checkVisibility()).length`)); shown != 0 {
		t.Errorf("%d controls are shown that do nothing", shown)
	}
	if got := c.text(`[...document.querySelectorAll(".note")].filter(e => e.checkVisibility()).map(e => e.textContent).join()`); !strings.Contains(got, "too old") {
		t.Errorf("the notes are %q", got)
	}
	demandQuiet(t, c, "old browser")
}
