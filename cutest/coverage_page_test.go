package cutest_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cutest"
)

// page is docs/generated/coverage.md while it is made.
type page struct {
	runs    []*run
	groups  []group
	reasons []string                  // of skips, with a footnote for each
	counts  map[string]map[string]int // by title of the run, then result
	cases   int
}

type group struct {
	name string
	rows []string
}

const notRun = "not run"

func (p *page) add(c cutest.Case) {
	name, _, _ := strings.Cut(c.ID, "/")
	i := slices.IndexFunc(p.groups, func(g group) bool { return g.name == name })
	if i < 0 {
		i = len(p.groups)
		p.groups = append(p.groups, group{name: name})
	}
	rule := escape(c.Rule)
	if c.Surprise != "" {
		rule += ". *On hardware: " + escape(c.Surprise) + "*"
	}
	row := fmt.Sprintf("| `%s` | %s | %s |", c.ID, rule, escape(c.Source))
	for _, r := range p.runs {
		row += " " + p.cell(r, c.ID) + " |"
	}
	p.groups[i].rows = append(p.groups[i].rows, row)
	p.cases++
}

// cell returns the result of a case in a run, and counts it.
func (p *page) cell(r *run, id string) string {
	o, ok := r.cases[id]
	if !ok {
		o.Result = notRun
	}
	if p.counts == nil {
		p.counts = map[string]map[string]int{}
	}
	if p.counts[r.title] == nil {
		p.counts[r.title] = map[string]int{}
	}
	p.counts[r.title][o.Result]++
	if o.Result == "skip" {
		return fmt.Sprintf("skip [%d]", p.footnote(o.Reason))
	}
	return o.Result
}

// footnote returns the number of a reason.
func (p *page) footnote(reason string) int {
	i := slices.Index(p.reasons, reason)
	if i < 0 {
		i = len(p.reasons)
		p.reasons = append(p.reasons, reason)
	}
	return i + 1
}

func escape(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func (p *page) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Coverage\n\nThe %d rules of package `cutest`, where NVIDIA's manuals state them, and the result of each.\n", p.cases)
	fmt.Fprintf(&b, "Written by `go generate ./...` from the cases and the results; do not edit. [SEMANTICS.md](../SEMANTICS.md) explains the surprises.\n\n")
	fmt.Fprintf(&b, "| run | pass | fail | skip | not run | made on | results |\n|---|---|---|---|---|---|---|\n")
	for _, r := range p.runs {
		n := p.counts[r.title]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %s | [%s](../results/%s) |\n", r.title, n["pass"], n["fail"], n["skip"], n[notRun], r.about(), r.file, r.file)
	}
	for _, g := range p.groups {
		fmt.Fprintf(&b, "\n## %s\n| case | rule | source |", g.name)
		for _, r := range p.runs {
			fmt.Fprintf(&b, " %s |", r.title)
		}
		fmt.Fprintf(&b, "\n|---|---|---|%s\n%s\n", strings.Repeat("---|", len(p.runs)), strings.Join(g.rows, "\n"))
	}
	if len(p.reasons) > 0 {
		fmt.Fprintf(&b, "\n## Why cases were skipped\n")
		for i, reason := range p.reasons {
			fmt.Fprintf(&b, "%d. %s\n", i+1, reason)
		}
	}
	return b.Bytes()
}
