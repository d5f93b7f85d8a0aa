package overlap

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run makes an experiment on a new device.
func run(t *testing.T, device string, o Options) *Report {
	t.Helper()
	g, err := ferry.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	r, err := Run(t.Context(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// of returns the operations of a kind by stream.
func (r *Report) of(kind string) (all []Operation) {
	for _, o := range r.Operations {
		if o.Kind == kind {
			all = append(all, o)
		}
	}
	return all
}

// common returns the longest time that two operations of different streams run together.
func common(a, b []Operation) (longest int64) {
	for _, x := range a {
		for _, y := range b {
			if x.Stream != y.Stream {
				longest = max(longest, min(x.EndNs, y.EndNs)-max(x.StartNs, y.StartNs))
			}
		}
	}
	return longest
}

// longKernel takes longer than the copies in of four streams.
const longKernel = 2 * time.Millisecond

// TestOneDefault: without a time of kernels both orders run the same work, so that two runs can
// be compared.
func TestOneDefault(t *testing.T) {
	depth := run(t, "soft:fermi-c2050", Options{Order: Depth, Streams: 3})
	breadth := run(t, "soft:fermi-c2050", Options{Order: Breadth, Streams: 3})
	if depth.KernelNs != breadth.KernelNs || depth.OtherNs != breadth.TotalNs || breadth.OtherNs != depth.TotalNs {
		t.Errorf("kernels of %d and %d ns; depth %d, other %d; breadth %d, other %d", depth.KernelNs, breadth.KernelNs,
			depth.TotalNs, depth.OtherNs, breadth.TotalNs, breadth.OtherNs)
	}
}

// TestGuide: on a device of compute capability 2.0 the two orders overlap what the
// programming guide says, with two copy engines and with one.
func TestGuide(t *testing.T) {
	for _, streams := range []int{2, 3, 4} {
		for _, c := range []struct {
			order                                        string
			engines                                      int
			kernel                                       time.Duration
			copies, copiesAndKernels, kernels, inKernels bool
		}{
			{Depth, 2, 0, true, true, false, true},
			{Breadth, 2, longKernel, false, true, true, true},
			{Depth, 1, 0, false, false, false, false},
			{Breadth, 1, longKernel, false, true, true, true},
		} {
			r := run(t, "soft:fermi-c2050", Options{Order: c.order, Streams: streams, Engines: c.engines, Bytes: 1 << 20, Kernel: c.kernel})
			in, kernels, out := r.of("copy in"), r.of("kernel"), r.of("copy out")
			if len(in) != streams || len(kernels) != streams || len(out) != streams || r.Engines != c.engines {
				t.Fatalf("%d, %d and %d operations with %d engines", len(in), len(kernels), len(out), r.Engines)
			}
			for _, x := range []struct {
				what string
				ns   int64
				want bool
			}{
				{"copies", common(in, out), c.copies},
				{"copies and kernels", max(common(in, kernels), common(out, kernels)), c.copiesAndKernels},
				{"copies in and kernels", common(in, kernels), c.inKernels},
				{"kernels", common(kernels, kernels), c.kernels},
			} {
				if (x.ns > 0) != x.want {
					t.Errorf("%s first, %d streams, %d engines: %s overlap by %d ns, want it: %v\n%s", c.order, streams, c.engines, x.what, x.ns, x.want, r.Page().Text(0))
				}
			}
			if last := kernels[streams-1]; c.order == Breadth && (out[0].StartNs < last.EndNs-(last.EndNs-last.StartNs)/2 || out[0].StartNs >= last.EndNs) {
				t.Errorf("breadth first, %d streams, %d engines: the first copy out starts at %d, want the end of the last kernel, %+v", streams, c.engines, out[0].StartNs, last)
			}
			if c.order == Depth && c.engines == 1 && r.Overlap > 0.01 {
				t.Errorf("nothing overlaps, but the overlap is %v", r.Overlap)
			}
		}
	}
}

// TestSentence: the sentence names the operation that waited longest without need, and
// what it waited for.
func TestSentence(t *testing.T) {
	for _, c := range []struct {
		device string
		o      Options
		want   string
	}{
		{"soft:fermi-c2050", Options{Order: Depth, Streams: 3, Engines: 1}, "copy in of stream 2 waited 7.17"},
		{"soft:fermi-c2050", Options{Order: Depth, Streams: 3, Engines: 1}, "the engine \"copy\" keeps the order of issue, and was idle"},
		{"soft:fermi-c2050", Options{Order: Depth, Streams: 2, Kernel: 5 * time.Millisecond}, "a dependency check of old devices"},
		{"soft:h200", Options{Order: Breadth, Streams: 3}, "the engine \"copy in\" serves both, one at a time"},
		{"soft:h200", Options{Order: Breadth, Streams: 1}, "With one stream nothing overlaps"},
	} {
		if r := run(t, c.device, c.o); !strings.Contains(r.Sentence, c.want) {
			t.Errorf("%s %+v: %q, want %q in it", c.device, c.o, r.Sentence, c.want)
		}
	}
}

// TestReport: the numbers of a report agree with each other, and the JSON has the fields
// that programs read.
func TestReport(t *testing.T) {
	for _, device := range []string{"soft:fermi-c2050", "soft:h200", "soft:jetson-tx2"} {
		for _, order := range []string{Depth, Breadth} {
			r := run(t, device, Options{Order: order, Streams: 3, Chunks: 2, Kernel: 300 * time.Microsecond, Bytes: 1 << 20})
			if len(r.Operations) != 18 || r.BoundNs <= 0 || r.BoundNs > r.TotalNs || r.TotalNs > r.SerialNs+r.TotalNs/20 || r.Overlap < 0 || r.Overlap > 1 || r.OtherNs <= 0 {
				t.Errorf("%s %s: %+v", device, order, r)
			}
			for i, o := range r.Operations {
				if o.Kind == "kernel" && (o.EndNs-o.StartNs < 290_000 || o.EndNs-o.StartNs > 330_000) {
					t.Errorf("%s: a kernel of 300 us takes %d ns", device, o.EndNs-o.StartNs)
				}
				if by := o.BlockedBy; by != nil && (*by == i || r.Operations[*by].StartNs > o.StartNs) {
					t.Errorf("%s %s: operation %d waits for %+v", device, order, i, r.Operations[*by])
				}
			}
			text, err := r.JSON()
			if err != nil {
				t.Fatal(err)
			}
			var doc map[string]any
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Fatal(err)
			}
			for _, field := range []string{"schema", "order", "engines", "operations", "total_ns", "overlap", "bound_ns", "sentence"} {
				if _, ok := doc[field]; !ok {
					t.Errorf("the JSON has no field %s", field)
				}
			}
			first, _ := doc["operations"].([]any)[0].(map[string]any)
			for _, field := range []string{"stream", "engine", "start_ns", "end_ns", "blocked_by"} {
				if _, ok := first[field]; !ok {
					t.Errorf("an operation in the JSON has no field %s", field)
				}
			}
		}
	}
}

// TestBound: the bound counts what is in front of and behind the operations of a kind on
// an engine, so that the best order reaches it.
func TestBound(t *testing.T) {
	op := func(kind, engine string, stream int, start, end int64) Operation {
		return Operation{Stream: stream, Kind: kind, Engine: engine, StartNs: start, EndNs: end}
	}
	for _, c := range []struct {
		name string
		f    facts
		ops  []Operation
		want int64
	}{
		{"one copy engine, long kernels", facts{1, true}, []Operation{
			op("copy in", "copy", 0, 0, 10), op("copy in", "copy", 1, 10, 20), op("kernel", "compute", 0, 10, 110),
			op("kernel", "compute", 1, 20, 120), op("copy out", "copy", 0, 120, 130), op("copy out", "copy", 1, 130, 140),
		}, 130},
		{"kernels one at a time", facts{2, false}, []Operation{
			op("copy in", "copy in", 0, 0, 10), op("kernel", "compute", 0, 10, 110), op("copy out", "copy out", 0, 110, 130),
			op("copy in", "copy in", 1, 10, 20), op("kernel", "compute", 1, 110, 210), op("copy out", "copy out", 1, 230, 250),
		}, 230},
	} {
		r := &Report{Streams: 2, Operations: c.ops}
		r.measure(c.f)
		if r.BoundNs != c.want {
			t.Errorf("%s: bound %d, want %d", c.name, r.BoundNs, c.want)
		}
	}
}

// TestText: the timeline of each width fits, and one is as recorded.
func TestText(t *testing.T) {
	r := run(t, "soft:fermi-c2050", Options{Order: Depth, Streams: 3, Engines: 1})
	for _, width := range []int{40, 80, 133} {
		lines := strings.Split(r.Page().Text(width), "\n")
		for _, line := range lines {
			if len(line) > width {
				t.Errorf("width %d: a line of %d characters: %s", width, len(line), line)
			}
		}
	}
	got := r.Page().Text(80)
	path := filepath.Join("testdata", "depth-1.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// hardware is a driver of which nobody can find that it is software.
type hardware struct{ cu.Driver }

// TestRefused: bad options are errors, and hardware keeps its engines. Its operations are
// measured by events, and what they waited for is inferred.
func TestRefused(t *testing.T) {
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(hardware{d}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Order: "width", Streams: 2}, "the order is \"width\""},
		{Options{Order: Depth}, "0 streams, must be 1 to 16"},
		{Options{Order: Depth, Streams: 2, Engines: 4}, "4 copy engines"},
		{Options{Order: Depth, Streams: 2, Chunks: -1}, "-1 chunks"},
		{Options{Order: Depth, Streams: 2, Kernel: time.Hour}, "at most 1s"},
		{Options{Order: Depth, Streams: 16, Bytes: 1 << 30}, "must be at most 1073741824 together"},
		{Options{Order: Depth, Streams: 2, Engines: 2}, "is hardware, whose copy engines cannot be chosen"},
	} {
		if _, err := Run(t.Context(), g, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.o, err, c.want)
		}
	}
	r, err := Run(t.Context(), g, Options{Order: Depth, Streams: 3, Kernel: 100 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Operations) != 9 || r.Predicted || r.Overlap < 0.5 || r.Operations[1].BlockedBy == nil || *r.Operations[1].BlockedBy != 0 {
		t.Errorf("on hardware: %s", r.Page().Text(0))
	}
}

// TestDocument: the document shows a timeline as it is.
func TestDocument(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "docs", "tracing.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile(filepath.Join("testdata", "depth-1.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if before, rest, ok := strings.Cut(string(text), "```text\ndepth first"); ok && *update {
		_, after, _ := strings.Cut(rest, "```\n")
		text = []byte(before + "```text\n" + string(shown) + "```\n" + after)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(text), string(shown)) {
		t.Errorf("docs/tracing.md lacks the timeline of testdata/depth-1.txt:\n%s", shown)
	}
}
