package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/normal"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/summary"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/trace"
)

// hostile is a name that breaks a page which does not escape it.
const hostile = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"' onclick=x ]]> <!-- {{.}} \u2028 | `a` \\ --></style>&amp;"

// quick returns the document of a result with few sizes, as of a quick run.
func quick(t *testing.T, file string, keep func(p grid.Point) bool) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../../docs/results", file))
	if err != nil {
		t.Fatal(err)
	}
	r, err := grid.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r.Points = slices.DeleteFunc(r.Points, func(p grid.Point) bool { return !keep(p) })
	doc, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// everyOther keeps every second power of two.
func everyOther(p grid.Point) bool { return int(math.Log2(float64(p.Size)))%2 == 0 }

func all(grid.Point) bool { return true }

// summarized returns the document of a run with its summary, compared with a reference unless
// it is nil. Large copies out of page-locked memory were slowed down.
func summarized(t *testing.T, file string, ref *normal.Reference, keep func(p grid.Point) bool) []byte {
	t.Helper()
	r, err := grid.Parse(quick(t, file, keep))
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Points {
		if p := &r.Points[i]; p.Kind == "copy pinned out" && p.Size >= 1<<20 {
			p.Median, p.P5, p.P95 = 2*p.Median, 2*p.P5, 2*p.P95
		}
	}
	r.Skipped = []grid.Skip{{Kind: "copy registered in", Sizes: []int{4096, 8192}, Why: "a reason"}}
	r.LeftOut = []grid.Case{{Kind: "fill", Size: 4096}, {Kind: "fill", Size: 8192}, {Kind: "copy both ways", Size: 4096}}
	report := &summary.Report{Result: r, Summary: summary.Of(r, ref)}
	if ref != nil {
		report.Normal = normal.Compare(r, ref)
	}
	doc, err := report.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// h200 is what is normal for an H200.
func h200(t *testing.T) *normal.Reference {
	t.Helper()
	ref, err := normal.Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func of(t *testing.T, doc []byte) *Page {
	t.Helper()
	p, err := Of(doc)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fromFile(t *testing.T, path string) *Page {
	t.Helper()
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return of(t, doc)
}

// recording is a recording of two drivers with names that break pages.
func recording() *trace.Recording {
	return &trace.Recording{
		Program: hostile, PID: 7, LostOps: 2, LostCalls: 3, Why: hostile,
		Drivers: []trace.DriverInfo{{ID: 1, Clock: "virtual", Profile: "h200"}, {ID: 2, Clock: "host"}},
		Devices: []trace.DeviceInfo{{ID: 0, Driver: 1, Name: "NVIDIA H200"}, {ID: 0, Driver: 2, Name: hostile}},
		Sites:   map[int]trace.Site{1: {File: "/src/" + hostile, Line: 12, Func: hostile}},
		Calls: []trace.Call{
			{ID: 1, Name: "cuMemcpyHtoDAsync", Driver: 1, Start: 0, End: 1300, Site: 1, Stream: 1, Bytes: 4096},
			{ID: 2, Name: "cuLaunchKernel", Driver: 1, Start: 1300, End: 5000, Site: 1, Stream: 1, Error: hostile},
			{ID: 3, Name: "cuMemcpyDtoH", Driver: 2, Start: 7_000_000_000, End: 7_000_020_000, Stream: trace.NoStream},
		},
		Operations: []trace.Operation{
			{ID: 1, Call: 1, Name: "[CUDA memcpy HtoD]", Driver: 1, Stream: 1, Engine: "copy in", From: "page-locked", To: "device", Bytes: 4096, Start: 3000, End: 5000},
			{ID: 2, Call: 2, Name: hostile, Driver: 1, Stream: 1, Engine: "compute", Start: 6000, End: 16000, After: 1},
			{ID: 3, Call: 2, Name: "inc", Driver: 1, Stream: 2, Engine: "compute", Start: 7000, End: 17000},
			{ID: 4, Call: 2, Name: "[CUDA memset]", Driver: 1, Stream: 2, Engine: "compute", Untimed: "recorded in a graph"},
			{ID: 1, Call: 3, Name: "[CUDA memcpy DtoH]", Driver: 2, Engine: "copy out", From: "device", To: "pageable", Bytes: 99, Start: 7_000_001_000, End: 7_000_011_000},
		},
	}
}

// samples returns pages of every sort.
func samples(t *testing.T) map[string]*Page {
	t.Helper()
	rec := recording()
	traced, err := OfRecording(rec, tracereport.Summarize(rec))
	if err != nil {
		t.Fatal(err)
	}
	r, err := grid.Parse(quick(t, "grid-h200-e1.json", everyOther))
	if err != nil {
		t.Fatal(err)
	}
	r.Device.Name, r.Points[0].Kind = hostile, hostile
	doc, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Page{
		"bench":    of(t, quick(t, "grid-soft-h200.json", everyOther)),
		"hardware": of(t, quick(t, "grid-h200-e1.json", all)),
		"patterns": of(t, quick(t, "patterns-soft-h200.json", all)),
		"summary":  of(t, summarized(t, "grid-h200-f1.json", h200(t), everyOther)),
		"compare":  fromFile(t, "testdata/compare-reuse.json"),
		"overlap":  fromFile(t, "../../testdata/overlap-fermi-c2050.json"),
		"trace":    traced,
		"hostile":  of(t, doc),
	}
}

func render(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Render(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// unpacked returns a packed text of a page, as the loader does.
func unpacked(t *testing.T, page, id string) string {
	t.Helper()
	found := regexp.MustCompile(`<script type="text/plain" id="` + id + `">([^<]*)</script>`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no %s", id)
	}
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(found[1])))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var scripts = regexp.MustCompile(`(?s)(<(script|style)[^>]*>)(.*?)(</(?:script|style)>)`)

// element is an element of a page.
type element struct {
	name       string
	attributes map[string]string
}

// parse demands that a page is well-formed, and returns its elements. Scripts and styles
// are left out.
func parse(text string) (all []element, err error) {
	d := xml.NewDecoder(strings.NewReader(scripts.ReplaceAllString(text, "$1$4")))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if start, ok := token.(xml.StartElement); ok {
			e := element{start.Name.Local, map[string]string{}}
			for _, a := range start.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			all = append(all, e)
		}
	}
}
