package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ferrygpu/ferry/internal/measure/bench"
)

// schema is the schema of the report.
const schema = "ferry.loadbench/1"

// report is what a run found.
type report struct {
	Schema  string      `json:"schema"`
	Machine string      `json:"machine"`
	Commit  string      `json:"commit"`
	Rows    []rowReport `json:"rows"`
}

// rowReport is a row of the report.
type rowReport struct {
	Name     string          `json:"name"`
	What     string          `json:"what"`
	Tensors  int             `json:"tensors"`
	Bytes    int64           `json:"bytes"`
	Entrants []entrantReport `json:"entrants"`
	Goals    []goalReport    `json:"goals,omitempty"`
}

// entrantReport has the median of an entrant's samples, and the medians of its figures.
type entrantReport struct {
	Name    string             `json:"name"`
	Samples int                `json:"samples"`
	NS      int64              `json:"ns"`
	MAD     int64              `json:"mad_ns"`
	Rate    float64            `json:"bytes_per_s"`
	Figures map[string]float64 `json:"figures,omitempty"`
	Error   string             `json:"error,omitempty"`
}

// goalReport is a goal and what was reached: a ratio, a time, or bytes that are page-locked.
type goalReport struct {
	Goal   string        `json:"goal"`
	Ratio  float64       `json:"ratio,omitempty"`
	Took   time.Duration `json:"ns,omitempty"`
	Pinned float64       `json:"page_locked_bytes,omitempty"`
	Met    bool          `json:"met"`
}

// reportRow summarizes the samples of a row.
func (m *runner) reportRow(r row) rowReport {
	f := r.file(m.files)
	out := rowReport{Name: r.name, What: r.what, Tensors: len(f.tensors), Bytes: f.bytes}
	for _, e := range r.entrants {
		out.Entrants = append(out.Entrants, summarize(e, slices.Collect(func(yield func(sample) bool) {
			for _, s := range m.data {
				if s.Row == r.name && s.Entrant == e.name && (s.Round > 0 || s.Error != "") && !yield(s) {
					return
				}
			}
		})))
	}
	for _, g := range r.goals {
		if x, ok := out.judge(g); ok {
			out.Goals = append(out.Goals, x)
		}
	}
	return out
}

// summarize returns the medians of samples.
func summarize(e entrant, samples []sample) entrantReport {
	out := entrantReport{Name: e.name, Figures: map[string]float64{}}
	var times []float64
	figures := map[string][]float64{}
	for _, s := range samples {
		if s.Error != "" {
			out.Error = s.Error
			continue
		}
		times = append(times, float64(s.NS))
		out.Rate = float64(s.Bytes)
		for name, x := range s.Figures {
			figures[name] = append(figures[name], x)
		}
	}
	if len(times) == 0 {
		return out
	}
	for name, all := range figures {
		out.Figures[name] = bench.Median(all)
	}
	out.Samples, out.NS, out.MAD = len(times), int64(bench.Median(times)), int64(bench.Deviation(times))
	out.Rate *= 1e9 / float64(out.NS)
	return out
}

// of returns the report of an entrant, or an empty one.
func (r rowReport) of(e entrant) entrantReport {
	for _, x := range r.Entrants {
		if x.Name == e.name {
			return x
		}
	}
	return entrantReport{}
}

// judge compares an entrant with its goal. ok is false if one of those in the goal was not measured.
func (r rowReport) judge(g goal) (out goalReport, ok bool) {
	own := r.of(g.entrant).NS
	out = goalReport{Goal: g.String()}
	if g.pinned > 0 {
		out.Pinned = r.of(g.entrant).Figures["pinned"]
		out.Met = out.Pinned <= g.pinned
		return out, out.Pinned > 0
	}
	if len(g.against) == 0 {
		out.Took, out.Met = time.Duration(own), time.Duration(own) <= g.atMost
		return out, own > 0
	}
	slowest := int64(0)
	for _, e := range g.against {
		theirs := r.of(e).NS
		if theirs == 0 {
			return out, false
		}
		slowest = max(slowest, theirs)
	}
	if own == 0 {
		return out, false
	}
	out.Ratio = float64(slowest) / float64(own)
	out.Met = out.Ratio >= g.atLeast
	return out, true
}

// text returns the report as a table.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Machine)
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "\n%s: %s, %d tensors, %.2f GiB\n", row.Name, row.What, row.Tensors, float64(row.Bytes)/(1<<30))
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, e := range row.Entrants {
			fmt.Fprintf(w, "  %s\t%s\n", e.Name, e.text())
		}
		_ = w.Flush()
		for _, g := range row.Goals {
			fmt.Fprintf(&b, "  goal: %s: %s\n", g.Goal, g.text())
		}
	}
	return b.String()
}

func (e entrantReport) text() string {
	if e.Samples == 0 {
		return "not measured: " + cmp.Or(e.Error, "no time was left")
	}
	text := fmt.Sprintf("%.3f ms\t%.2f GB/s\tMAD %.1f %%\tn %d", float64(e.NS)/1e6, e.Rate/1e9, 100*float64(e.MAD)/float64(e.NS), e.Samples)
	for _, name := range slices.Sorted(maps.Keys(e.Figures)) {
		text += fmt.Sprintf("\t%s %.0f", name, e.Figures[name])
	}
	return text
}

func (g goalReport) text() string {
	verdict := "missed"
	if g.Met {
		verdict = "met"
	}
	if g.Pinned > 0 {
		return fmt.Sprintf("%.1f MiB, %s", g.Pinned/(1<<20), verdict)
	}
	if g.Took > 0 {
		return fmt.Sprintf("%v, %s", g.Took, verdict)
	}
	return fmt.Sprintf("%.3f, %s", g.Ratio, verdict)
}

// write writes the report as JSON.
func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
