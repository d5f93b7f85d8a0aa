package advise

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// advice returns the report of a job on a software GPU.
func advice(t *testing.T, device string, j Job, o *Options) *Report {
	t.Helper()
	complete(&j)
	g, err := ferry.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	r, err := For(t.Context(), g, j, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// find returns an alternative by kind and path.
func (r *Report) find(t *testing.T, kind, path string) *Alternative {
	t.Helper()
	for i := range r.Alternatives {
		if a := &r.Alternatives[i]; a.Kind == kind && a.Path == path {
			return a
		}
	}
	t.Fatalf("no alternative %s, %s", kind, path)
	return nil
}

// TestReport: alternatives are sorted, their terms add up, each says why, and lines fit.
func TestReport(t *testing.T) {
	r := advice(t, "soft:h200", Job{In: 1 << 20, Out: 1 << 20, Reuse: 2, Rate: 1e6, HostReads: true}, &Options{NoFlips: true})
	if !slices.IsSortedFunc(r.Alternatives, func(a, b Alternative) int { return int(a.Predicted - b.Predicted) }) || r.Best != r.Alternatives[0].Choice {
		t.Errorf("not sorted: %+v, best %+v", r.Alternatives, r.Best)
	}
	for _, a := range r.Alternatives {
		sum := int64(0)
		for _, x := range a.Terms {
			sum += x.Ns
			if x.Ns <= 0 || x.Source != "timeline" && x.Source != "run" {
				t.Errorf("%v: term %+v", a.way, x)
			}
		}
		if sum != a.Predicted || a.Why == "" {
			t.Errorf("%v: terms add up to %d of %d; why %q", a.way, sum, a.Predicted, a.Why)
		}
		if nsOf(a.Terms, termReads) == 0 {
			t.Errorf("%v: no time for reading the results", a.way)
		}
	}
	if link := nsOf(r.find(t, ZeroCopy, Mapped).Terms, termLink); link < 30e3 || link > 60e3 {
		t.Errorf("the link of zero-copy takes %d ns for 2 MiB in and 1 MiB out", link)
	}
	if why := r.find(t, ZeroCopy, Mapped).Why; !strings.Contains(why, "each of 2 passes crosses it") {
		t.Errorf("why zero-copy loses: %q", why)
	}
	if why := r.find(t, Pinned, Copied).Why; !strings.Contains(why, "follow each other") {
		t.Errorf("why a copy loses: %q", why)
	}
	for line := range strings.Lines(r.Page().Text(80)) {
		if len(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("a line of %d columns: %s", len(line)-1, line)
		}
	}
	if !strings.Contains(r.Page().Text(0), "1000000 calls a second are too many") {
		t.Errorf("nothing about the rate: %s", r.Page().Text(0))
	}
}

// TestDocument: the fields that other programs read.
func TestDocument(t *testing.T) {
	r := advice(t, "soft:h200", Job{In: 256 << 10, Reuse: 2}, &Options{NoFlips: true})
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema       string
		Best         map[string]any
		Alternatives []map[string]any
		Flips        []map[string]any
		Go           string
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Schema != "ferry.advise/1" || doc.Flips == nil || !strings.Contains(doc.Go, "func process(") {
		t.Fatalf("%v: %s", err, text)
	}
	for _, m := range append(doc.Alternatives, doc.Best) {
		for _, name := range []string{"kind", "path", "chunk_bytes", "streams", "predicted_ns"} {
			if _, has := m[name]; !has {
				t.Errorf("%v lacks %s", m, name)
			}
		}
	}
	if _, has := doc.Alternatives[0]["terms"]; !has || doc.Alternatives[0]["why"] == nil {
		t.Errorf("%v lacks terms or why", doc.Alternatives[0])
	}
}

// flipOf returns the flips of a parameter.
func flipsOf(r *Report, parameter string) (all []Flip) {
	for _, f := range r.Flips {
		if f.Parameter == parameter {
			all = append(all, f)
		}
	}
	return all
}

// TestFlips: 512 KiB read once are for zero-copy. Read twice it is not.
// Where an answer changes, the value before has the old one. One of the two jobs is drawn.
func TestFlips(t *testing.T) {
	for _, f := range sample.Of(t, []func(*testing.T){flipsFromOnce, flipsFromSix}, 1) {
		f(t)
	}
}

func flipsFromOnce(t *testing.T) {
	r := advice(t, "soft:h200", Job{In: 512 << 10}, nil)
	if r.Best.Kind != ZeroCopy {
		t.Fatalf("best is %+v", r.Best)
	}
	reuse := flipsOf(r, "reuse")
	if len(reuse) != 1 || reuse[0].At != "2" || reuse[0].Kind != Pinned || reuse[0].Instead <= reuse[0].Predicted {
		t.Errorf("flips of reuse: %+v", reuse)
	}
	if !slices.ContainsFunc(flipsOf(r, "access"), func(f Flip) bool { return f.At == Random && f.Kind == Pinned }) {
		t.Errorf("flips of access: %+v", r.Flips)
	}
}

func flipsFromSix(t *testing.T) {
	back := advice(t, "soft:h200", Job{In: 512 << 10, Reuse: 6}, nil)
	if x := flipsOf(back, "reuse"); len(x) != 1 || x[0].At != "1" || x[0].Kind != ZeroCopy {
		t.Errorf("flips of reuse from 6: %+v", x)
	}
}

// TestSources: each source has the kinds of memory that it allows.
func TestSources(t *testing.T) {
	for source, want := range map[string][]string{
		Slice: {Pageable, Pinned, ZeroCopy, WriteCombined, Managed}, File: {Pageable, Pinned, ZeroCopy, WriteCombined, Managed}, Existing: {Pageable, Registered},
	} {
		r := advice(t, "soft:h200", Job{In: 128 << 10, Source: source}, &Options{NoFlips: true})
		got := map[string]bool{}
		for _, a := range r.Alternatives {
			got[a.Kind] = true
		}
		for _, kind := range want {
			if !got[kind] {
				t.Errorf("%s lacks %s", source, kind)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %v, want %v", source, got, want)
		}
	}
}

// TestLacking: kinds that a device lacks are left out, and said.
func TestLacking(t *testing.T) {
	r := advice(t, "soft:fermi-c2050", Job{In: 64 << 10}, &Options{NoFlips: true})
	for _, a := range r.Alternatives {
		if a.Kind == Managed {
			t.Errorf("%v on a device without managed memory", a.way)
		}
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "no managed, on demand: CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY is 0") {
		t.Errorf("notes %q", r.Notes)
	}
}

// TestKernelTime: a kernel of 1 ms lasts that long on every path, also in chunks.
func TestKernelTime(t *testing.T) {
	p, j := h200(t), Job{In: 1 << 20, Out: 1 << 20, Kernel: time.Millisecond}
	for _, w := range []way{copied, mapped, {Pinned, Pipelined, 4, 2}, {kind: Managed, path: Prefetched}} {
		if got := us(t, p, w, j); got < 995 || got > 1700 {
			t.Errorf("%v: %v us", w, got)
		}
	}
}

// TestVerify: on the software GPU, measurements are the predictions, and the advice holds.
func TestVerify(t *testing.T) {
	g, err := ferry.Open("soft:h200")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	j := Job{In: 256 << 10, Out: 256 << 10}
	complete(&j)
	r, err := For(t.Context(), g, j, &Options{NoFlips: true})
	if err == nil {
		err = Verify(t.Context(), g, r, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Alternatives {
		if a.Measured == nil || math.Abs(float64(*a.Measured-a.Predicted)) > 0.03*float64(a.Predicted) {
			t.Errorf("%v: predicted %d, measured %v", a.way, a.Predicted, *a.Measured)
		}
	}
	if v := r.Verified; !v.Holds || v.Ratio > 1.01 || !v.Emulated || !strings.Contains(strings.Join(strings.Fields(r.Page().Text(0)), " "), "whose times are predictions, too") {
		t.Errorf("%+v", v)
	}
}

// TestJudge: the advice holds if the advised one is at most 5 % slower than the best.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		advised, same, other int64
		holds                bool
		ratio, kind          float64
	}{
		{100, 200, 120, true, 1, 1},
		{104, 200, 100, true, 1.04, 1.04},
		{106, 200, 100, false, 1.06, 1.06},
		{130, 100, 110, false, 1.3, 1},
	} {
		r := &Report{Alternatives: make([]Alternative, 3)}
		for i, ns := range []int64{c.advised, c.same, c.other} {
			r.Alternatives[i].Measured = &ns
			r.Alternatives[i].Kind = []string{Pinned, Pinned, ZeroCopy}[i]
		}
		r.Best = r.Alternatives[0].Choice
		var v Verification
		v.judge(r)
		if v.Holds != c.holds || v.Ratio != c.ratio || v.Kind != c.kind {
			t.Errorf("%+v: got %+v", c, v)
		}
	}
}

// TestTimeline: the terms of a timeline are what ran at each moment.
func TestTimeline(t *testing.T) {
	spans := []span{{"kernel", 30, 50}, {"copy in", 10, 20}, {"copy out", 40, 70}, {"copy in", 15, 35}}
	want := []Term{{termSubmit, 5, "timeline"}, {"copy in", 20, "timeline"}, {"copy in + kernel", 5, "timeline"},
		{"kernel", 5, "timeline"}, {"kernel + copy out", 10, "timeline"}, {"copy out", 20, "timeline"}, {termReturn, 10, "timeline"}}
	if got := timeline(spans, 5, 80); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := timeline(nil, 5, 80); len(got) != 1 || got[0].Ns != 75 {
		t.Errorf("without operations: %v", got)
	}
	for want, op := range map[string]cu.Operation{
		"kernel": {Kernel: "f", Engine: "compute"}, "copy in": {Engine: "copy in"}, "copy out": {Engine: "copy", From: "device", To: "host"},
		"": {Engine: "host"},
	} {
		if got := operation(&op); got != want {
			t.Errorf("%+v: got %q", op, got)
		}
	}
}

// hardwarePoints are the jobs of TestHardware.
func hardwarePoints() (all []Job) {
	for _, n := range []int{64 << 10, 1 << 20, 8 << 20, 64 << 20} {
		for _, reuse := range []int{1, 2, 8} {
			all = append(all, Job{In: n, Out: n / 2, Reuse: reuse})
		}
	}
	return append(all,
		Job{In: 4 << 20}, Job{In: 64 << 20}, Job{Out: 8 << 20},
		Job{In: 4 << 20, Access: Access{Stencil, 4}}, Job{In: 1 << 20, Out: 1 << 20, Access: Access{Kind: Random}},
		Job{In: 64 << 10, Out: 64 << 10, Access: Access{Kind: Table}}, Job{In: 16 << 20, Access: Access{Stride, 32}},
		Job{In: 4 << 20, Threads: 32})
}

// predictions returns the reports of jobs, without code and flips. It uses all cores.
func predictions(t *testing.T, g *ferry.GPU, jobs []Job) []*Report {
	t.Helper()
	reports := make([]*Report, len(jobs))
	var wg sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, j := range jobs {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			complete(&j)
			r, err := For(t.Context(), g, j, &Options{NoFlips: true})
			if err != nil {
				t.Errorf("%s: %v", j.text(), err)
				return
			}
			r.Go = ""
			reports[i] = r
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return reports
}

// TestHardware verifies the advice at 20 points on a GPU. It writes the reports to the file
// that FERRY_ADVISE_OUT names. FERRY_ADVISE_DEVICE replaces the GPU, for a trial of the test. It demands that nearly all hold.
func TestHardware(t *testing.T) {
	g, err := ferry.Open(cmp.Or(os.Getenv("FERRY_ADVISE_DEVICE"), "cuda"))
	if err != nil {
		if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
			t.Fatal(err)
		}
		t.Skip("needs a GPU: ", err)
	}
	defer g.Close()
	reports := predictions(t, g, hardwarePoints())
	ways, kinds := 0, 0
	for _, r := range reports {
		if err := Verify(t.Context(), g, r, nil); err != nil {
			t.Fatalf("%s: %v", r.job.text(), err)
		}
		v, j := r.Verified, r.job
		if v.Holds {
			ways++
		}
		if v.Kind <= tolerance {
			kinds++
		}
		t.Logf("%s advised %v, ratio %.3f, its kind %.3f; fastest %s, %s", j.text(), r.Alternatives[0].way, v.Ratio, v.Kind, v.Best.Kind, v.Best.Path)
	}
	t.Logf("of %d points, %d advised ways and %d advised kinds are within 5 %% of the best", len(reports), ways, kinds)
	if path := os.Getenv("FERRY_ADVISE_OUT"); path != "" {
		text, err := json.MarshalIndent(reports, "", " ")
		if err == nil {
			err = os.WriteFile(path, append(text, '\n'), 0o666)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if kinds < len(reports)-1 {
		t.Errorf("%d of %d advised kinds are within 5 %% of the best", kinds, len(reports))
	}
}

// TestTooLarge: ways that need more device memory than there is are left out, and said.
func TestTooLarge(t *testing.T) {
	r := advice(t, "soft:fermi-c2050", Job{In: 4 << 30, Reuse: 8, Access: Access{Stride, 1 << 12}}, &Options{NoFlips: true})
	if r.Best.Kind != ZeroCopy || len(r.Alternatives) != 2 || !strings.Contains(strings.Join(r.Notes, "\n"), "no pinned, copy: it needs 4.0 GiB of device memory, and the device has 2.6 GiB") {
		t.Errorf("best %+v, notes %q", r.Best, r.Notes)
	}
	if why := r.Alternatives[0].Why; strings.Contains(why, "once") {
		t.Errorf("why the best of 8 passes wins: %q", why)
	}
}
