package explain

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; create it with go test -update", err)
	}
	if got != string(text) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, text)
	}
}

// known returns the causes of a report with the function of the program, without
// repetitions.
func known(r *Report) (all []string) {
	for i := range r.Findings {
		f := &r.Findings[i]
		name := f.Cause + " in " + f.Function[strings.LastIndexByte(f.Function, '.')+1:]
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// planted are programs with what is slow in them.
var planted = []struct {
	name    string
	machine string
	change  func(*profile.Profile)
	run     func(*program)
	far     bool // the memory is on another node
	want    []string
}{
	{"clean-once", "h200", nil, once, false, nil},
	{"clean-overlapped", "h200", nil, overlapped, false, nil},
	{"clean-few", "h200", nil, few, false, nil},
	{"clean-pipeline", "h200", nil, piped, false, nil},
	{"clean-pipeline-short", "h200", nil, pipedShort, false, nil},
	{"pipeline-depth", "h200", nil, oneInFlight, false, []string{"not overlapped in throughPipeline", "synchronising call in throughPipeline"}},
	{"pipeline-small", "h200", nil, smallChunks, false, []string{"too small in throughPipeline"}},
	{"clean-fermi", "fermi-c2050", nil, once, false, nil},
	{"clean-few-pageable", "h200", nil, fewPageable, false, nil},
	{"clean-few-beside-much", "h200", nil, fewBesideMuch, false, nil},
	{"clean-gathered", "h200", nil, gathered, false, nil},
	{"clean-mostly-kernels", "h200", nil, mostlyKernels, false, nil},
	{"pageable-often", "h200", nil, manyPageable, false, []string{"pageable in manyPageable"}},
	{"pageable", "h200", nil, fromPageable, false, []string{"pageable in fromPageable"}},
	{"node", "h200", farMemory, once, true, []string{"wrong NUMA node in once"}},
	{"small", "h200", nil, inPieces, false, []string{"too small in inPieces"}},
	{"sync", "h200", nil, waitsEachTime, false, []string{"synchronising call in waitsEachTime"}},
	{"queued", "h200", nil, smallBehindLarge, false, []string{"queued behind another in smallBehindLarge"}},
	{"order", "fermi-c2050", oneEngine, depthFirst, false, []string{"queued behind another in depthFirst", "not overlapped in depthFirst"}},
	{"serial", "h200", nil, inOneStream, false, []string{"not overlapped in inOneStream"}},
}

// TestPlanted: each program is slow for the reasons that were planted in it, and for no
// others. The good ones get nothing.
func TestPlanted(t *testing.T) {
	for _, c := range planted {
		t.Run(c.name, func(t *testing.T) {
			rec := record(t, machine(t, c.machine, c.change), c.run)
			if c.far {
				rec = onNode(rec, 1, 0)
			}
			rec.PID = 7
			r := Recording("recording.json", rec)
			if got := known(r); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q\n%s", got, c.want, r.Page().Text(100))
			}
			for _, f := range r.Findings {
				if !strings.HasPrefix(f.Site, "programs_test.go:") || f.Line == 0 || f.LostNs <= 0 || f.Transfers == 0 || f.Bytes == 0 || f.Source != Predicted || f.Do == "" {
					t.Errorf("%+v", f)
				}
			}
			if !slices.IsSortedFunc(r.Findings, func(a, b Finding) int { return int(b.LostNs - a.LostNs) }) {
				t.Error("not the worst first")
			}
			if nothing := strings.Contains(r.Page().Text(80), "Nothing found"); nothing != (c.want == nil) {
				t.Errorf("the text says %v\n%s", nothing, r.Page().Text(80))
			}
			golden(t, c.name+".txt", normalized(r.Page().Text(80)))
		})
	}
}

// TestPipelineOfSlices: the advice for a pipeline whose data the CPU moves is other memory. How much
// it loses differs from run to run, so all of its transfers are taken as lost.
func TestPipelineOfSlices(t *testing.T) {
	lines := timelines(record(t, machine(t, "h200", nil), pipedSlices))
	slow := func(l *timeline) (all []loss) {
		for _, t := range l.ops {
			if t.crosses() {
				all = append(all, loss{t: t, at: t.call.Site, ns: t.ns()})
			}
		}
		return all
	}
	for i := range causes {
		c := *causes[i]
		if c.name != "not overlapped" {
			continue
		}
		c.find = slow
		all := groups(lines[0], &c, func(*transfer) bool { return true })
		if len(all) == 0 {
			t.Error("no transfers")
		}
		for _, g := range all {
			if do := g.advice(); !strings.Contains(do, "ferry.AllocHost") || strings.Contains(do, "package pipeline") {
				t.Errorf("%s -> %s: do %q", g.from, g.to, do)
			}
		}
	}
}

// TestNodes: memory on the GPU's own node, or on one that is not known, is no finding, and
// neither is memory of another node that is as fast.
func TestNodes(t *testing.T) {
	slow := machine(t, "h200", farMemory)
	for _, c := range []struct {
		p           *profile.Profile
		memory, gpu int
	}{{slow, 0, 0}, {slow, trace.NoNode, 0}, {slow, 1, trace.NoNode}, {machine(t, "h200", nil), 1, 0}} {
		if r := Recording("x", onNode(record(t, c.p, once), c.memory, c.gpu)); len(r.Findings) > 0 {
			t.Errorf("memory %d, GPU %d: %v", c.memory, c.gpu, known(r))
		}
	}
}

// TestWithoutProfile: a machine that is not known is compared with its own fastest copy.
func TestWithoutProfile(t *testing.T) {
	rec := record(t, machine(t, "h200", func(p *profile.Profile) { p.Name = "mine" }), func(p *program) {
		once(p)
		fromPageable(p)
	})
	for i := range rec.Devices {
		rec.Devices[i].Name = "a GPU of nobody"
	}
	r := Recording("x", rec)
	if got := known(r); !slices.Equal(got, []string{"pageable in fromPageable"}) || !strings.Contains(r.Findings[0].Evidence, "by the fastest copy of the recording") {
		t.Errorf("got %+v", r.Findings)
	}
	lonely := record(t, machine(t, "h200", func(p *profile.Profile) { p.Name = "mine" }), fromPageable)
	lonely.Devices = nil
	if r := Recording("x", lonely); len(r.Findings) > 0 {
		t.Errorf("a loss was made up: %+v", r.Findings)
	}
}

// hardwareTimes makes a recording look as if events had measured it: nothing is known of
// causes, and what waits for its engine seems to have begun at once.
func hardwareTimes(rec *trace.Recording) *trace.Recording {
	for i := range rec.Drivers {
		rec.Drivers[i].Clock, rec.Drivers[i].Profile = "host", ""
	}
	for i := range rec.Operations {
		o := &rec.Operations[i]
		if o.Why == "engine" || o.Why == "queue" {
			o.Start = o.Queued
		}
		o.Why, o.After = "unknown", 0
	}
	return rec
}

// TestEvents: on hardware the same is found, from less. The programs are drawn.
func TestEvents(t *testing.T) {
	for _, c := range sample.Of(t, planted, 6) {
		rec := hardwareTimes(record(t, machine(t, c.machine, c.change), c.run))
		if c.far {
			rec = onNode(rec, 1, 0)
		}
		want := c.want
		if c.name == "order" { // what an engine waits for is not known
			continue
		}
		r := Recording("x", rec)
		if got := known(r); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q\n%s", c.name, got, want, r.Page().Text(100))
		}
		for _, f := range r.Findings {
			if measured := f.Cause == "synchronising call" || f.Cause == "not overlapped" || f.Cause == "queued behind another"; measured != (f.Source == Observed) {
				t.Errorf("%s: %s is %s", c.name, f.Cause, f.Source)
			}
		}
	}
}

// TestEmptyRecording: a recording without operations, or of another state, is explained.
func TestEmptyRecording(t *testing.T) {
	for _, rec := range []*trace.Recording{
		{Program: "x"},
		{Program: "x", Operations: []trace.Operation{{ID: 1, Untimed: "no events", From: "pageable", To: "device", Bytes: 1 << 30}}, Cut: "line 3"},
		{Program: "x", Operations: []trace.Operation{{ID: 1, Call: 99, From: "pageable", To: "device", Bytes: 1 << 30, End: 1}}},
		{Program: "x", Operations: []trace.Operation{{ID: 1, From: "page-locked", To: "device", Bytes: 5}, {ID: 2, From: "page-locked", To: "device", Bytes: 5, Why: "engine", After: 7}}},
	} {
		if r := Recording("x", rec); len(r.Findings) > 0 || !strings.Contains(r.Page().Text(0), "Nothing found") {
			t.Errorf("%s", r.Page().Text(0))
		}
	}
}

var (
	addresses = regexp.MustCompile(`0x[0-9a-f]+`)
	indices   = regexp.MustCompile(`\[\d+\]`)
	lines     = regexp.MustCompile(`\.go:\d+`)
	columns   = regexp.MustCompile(`(\S)  +`)
)

// normalized replaces what differs from run to run, and the widths of columns.
func normalized(text string) string {
	text = addresses.ReplaceAllString(text, "0xADDRESS")
	text = indices.ReplaceAllString(text, "[N]")
	text = lines.ReplaceAllString(text, ".go:N")
	return columns.ReplaceAllString(text, "$1  ")
}

// TestFindSync: what is lost is the time in which the device had nothing to do, without the
// host's own work between the wait and the next call.
func TestFindSync(t *testing.T) {
	copyAt := func(start, end, called int64) *transfer {
		return &transfer{Operation: &trace.Operation{Start: start, End: end, From: "page-locked", To: "device", Bytes: 1 << 20},
			call: &trace.Call{Start: called, End: called + 1}}
	}
	for _, c := range []struct {
		name string
		wait trace.Call // the host's wait for the first copy, which ends at 100
		next *transfer
		want []int64
	}{
		{"the next call follows at once", trace.Call{Start: 2, End: 110}, copyAt(120, 200, 110), []int64{20}},
		{"the host works for 50", trace.Call{Start: 2, End: 110}, copyAt(170, 200, 160), []int64{20}},
		{"no wait", trace.Call{Start: 300, End: 310}, copyAt(120, 200, 110), nil},
		{"the wait is over before the copy ends", trace.Call{Start: 2, End: 50}, copyAt(120, 200, 110), nil},
		{"the wait ends after the next call", trace.Call{Start: 2, End: 115}, copyAt(120, 200, 110), nil},
		{"the device was never idle", trace.Call{Start: 2, End: 110}, copyAt(100, 200, 110), nil},
	} {
		l := &timeline{ops: []*transfer{copyAt(0, 100, 0), c.next}, waits: []*trace.Call{&c.wait}}
		var got []int64
		for _, x := range findSync(l) {
			got = append(got, x.ns)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: lost %v ns, want %v", c.name, got, c.want)
		}
	}
}
