package explain

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// explained explains a topic on a software GPU.
func explained(t *testing.T, machine, topic string) *Report {
	t.Helper()
	t.Setenv(softgpu.ScheduleVariable, "eager")
	g, err := ferry.Open("soft:" + machine)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	r, err := Topic(t.Context(), g, topic)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTopics: every topic on the H200, and the sum of each path.
func TestTopics(t *testing.T) {
	for _, name := range Topics() {
		r := explained(t, "h200", name)
		golden(t, "topic-"+name+".txt", normalized(r.Page().Text(400)))
		checkSteps(t, r)
		if len(r.Steps) < 8 || !r.Predicted || r.Schema != Schema {
			t.Errorf("%s: %+v", name, r)
		}
		sums := map[string]float64{}
		for _, s := range r.Steps {
			switch {
			case s.CostNs == nil || s.Place == "run" || s.Place == "prediction":
			case s.Place == "in all":
				if got := sums[s.Path]; got < *s.CostNs-0.5 || got > *s.CostNs+0.5 {
					t.Errorf("%s: %s takes %v in all, its steps %v", name, s.Path, *s.CostNs, got)
				}
			default:
				sums[s.Path] += *s.CostNs
			}
		}
	}
	for _, name := range sample.Of(t, Topics(), 1) {
		r := explained(t, "h200", name)
		if again := explained(t, "h200", name); normalized(again.Page().Text(400)) != normalized(r.Page().Text(400)) {
			t.Errorf("%s: another run gives\n%s\nnot\n%s", name, again.Page().Text(100), r.Page().Text(100))
		}
	}
}

// checkSteps demands the fields of every step, and that no number is without a source that
// can have measured or predicted it.
func checkSteps(t *testing.T, r *Report) {
	t.Helper()
	for _, s := range r.Steps {
		if s.Path == "" || s.Place == "" || s.Text == "" || s.Source == "" || s.Source == Manual && (s.CostNs != nil || s.Address != "") || s.CostNs != nil && *s.CostNs < 0 {
			t.Errorf("%s: %+v", r.Subject, s)
		}
	}
}

// TestMachines: every topic can be asked on every machine. One that a machine lacks is said.
// The machines for a topic are drawn.
func TestMachines(t *testing.T) {
	type question struct{ topic, machine string }
	var all []question
	for _, topic := range Topics() {
		for _, machine := range profile.Names() {
			all = append(all, question{topic, machine})
		}
	}
	for _, q := range sample.OfEach(t, all, func(q question) string { return q.topic }, len(profile.Names())) {
		r := explained(t, q.machine, q.topic)
		checkSteps(t, r)
		if len(r.Steps) == 0 && (len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "this device ")) {
			t.Errorf("%s on %s: nothing is said: %+v", q.topic, q.machine, r)
		}
	}
}

// TestWays: the three ways reach the same physical place, and go where they must.
func TestWays(t *testing.T) {
	places := func(r *Report, path string) (all []string) {
		for _, s := range r.Steps {
			if s.Path == path {
				all = append(all, s.Place)
			}
		}
		return all
	}
	last := func(r *Report, path string) (at string) {
		for _, s := range r.Steps {
			if s.Path == path && s.Place == "physical place" {
				at = s.Address
			}
		}
		return at
	}
	r := explained(t, "h200", "zero-copy")
	const kernel, cpu = "a kernel reads page-locked memory", "the CPU reads the same bytes"
	if got, want := places(r, kernel), []string{"virtual address", "GPU MMU", "link packets", "IOMMU", "physical place", "in all"}; !slices.Equal(got, want) {
		t.Errorf("zero-copy goes %q, want %q", got, want)
	}
	if a, b := last(r, kernel), last(r, cpu); a != b || a == "" {
		t.Errorf("the kernel reaches %q, the CPU %q", a, b)
	}
	r = explained(t, "h200", "pageable")
	const staged = "the driver copies pageable memory"
	want := []string{"virtual address", "CPU MMU", "driver", "GPU MMU", "link packets", "IOMMU", "physical place", "in all"}
	if got := places(r, staged); !slices.Equal(got, want) {
		t.Errorf("a pageable copy goes %q, want %q", got, want)
	}
	for i, s := range r.Steps {
		if s.Path == staged && s.Place == "link packets" && r.Steps[i-1].Address != s.Address {
			t.Errorf("the GPU's table leads to %s, the link reads %s", r.Steps[i-1].Address, s.Address)
		}
	}
	r = explained(t, "h200", "bar")
	if got, want := places(r, "the CPU reads device memory through a mapped BAR"), []string{"virtual address", "CPU MMU", "BAR", "link packets", "IOMMU", "GPU MMU", "physical place", "in all"}; !slices.Equal(got, want) {
		t.Errorf("the BAR's way goes %q, want %q", got, want)
	}
}

// plain hides that a driver is emulated, so that it is explained as hardware.
type plain struct{ cu.Driver }

// TestAsHardware: without page tables and virtual times each step is observed, predicted
// or from the manual, and no predicted step has an address of another run.
func TestAsHardware(t *testing.T) {
	p := machine(t, "h200", nil)
	d, err := softgpu.Open(softgpu.Options{Profile: p, Schedule: softgpu.Eager})
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(plain{d}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, name := range Topics() {
		r, err := Topic(t.Context(), g, name)
		if err != nil {
			t.Fatal(err)
		}
		checkSources(t, r)
	}
}

// checkSources checks a report of hardware.
func checkSources(t *testing.T, r *Report) {
	t.Helper()
	checkSteps(t, r)
	count := map[Source]int{}
	for _, s := range r.Steps {
		count[s.Source]++
		switch {
		case s.Source == Predicted && (s.Address != "" || strings.Contains(s.Text, "0x") || s.Place == "run" || s.CostNs == nil):
			t.Errorf("%s: a prediction of another run: %+v", r.Subject, s)
		case s.Source == Observed && s.CostNs != nil && s.Place != "run":
			t.Errorf("%s: a cost that nothing measured: %+v", r.Subject, s)
		}
	}
	if r.Predicted || count[Observed] == 0 || count[Predicted] == 0 && r.Subject != "uva" {
		t.Errorf("%s: %v\n%s", r.Subject, count, r.Page().Text(100))
	}
	t.Log(r.Page().Text(100))
}

// TestHardware explains all topics on a GPU.
func TestHardware(t *testing.T) {
	g, err := ferry.Open("cuda")
	switch {
	case err != nil && os.Getenv("FERRY_REQUIRE_GPU") == "1":
		t.Fatalf("FERRY_REQUIRE_GPU is 1, but: %v", err)
	case err != nil:
		t.Skipf("no GPU here: %v", err)
	}
	defer g.Close()
	for _, name := range Topics() {
		r, err := Topic(t.Context(), g, name)
		if err != nil {
			t.Fatal(err)
		}
		checkSources(t, r)
	}
}

// TestUnknownTopic: what is no topic is an error, and so is a context that has ended.
func TestUnknownTopic(t *testing.T) {
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := Topic(t.Context(), g, "zero"); err == nil || !strings.Contains(err.Error(), `"zero"`) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range Topics() {
		if _, err := Topic(ctx, g, name); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDocument: the fields that the document promises.
func TestDocument(t *testing.T) {
	text, err := explained(t, "h200", "zero-copy").JSON()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema   string
		Steps    []map[string]any
		Findings []map[string]any
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Schema != "ferry.explain/1" || doc.Findings == nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, s := range doc.Steps {
		for _, key := range []string{"place", "address", "cost_ns", "source"} {
			if _, has := s[key]; !has {
				t.Errorf("%v has no %s", s, key)
			}
		}
	}
}
