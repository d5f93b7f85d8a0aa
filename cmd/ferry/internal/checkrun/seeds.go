package checkrun

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/layout"
)

// MostSeeds is the largest number of seeds that one report has.
const MostSeeds = 100000

// SeedRun is a run of the program under a seed.
type SeedRun struct {
	Seed     uint64 `json:"seed"`
	Findings int    `json:"findings"`
	Status   int    `json:"status"` // of the program, as in a report
	Ended    string `json:"ended"`
}

// RunSeeds runs the program under the schedules random:1 to random:n, one after the other, and
// returns one report of all. A finding has the first seed that shows it. Findings that differ
// only in the threads, addresses and values are one finding. again returns the command that
// shows what a seed has found. An error ends the runs, and so does ctx; the report then has
// the runs before.
func (p *Program) RunSeeds(ctx context.Context, n int, again func(seed uint64) string) (*Report, error) {
	var all *Report
	seen := map[string]bool{}
	for seed := uint64(1); seed <= uint64(n); seed++ {
		fmt.Fprintf(p.Stderr, "ferry check: seed %d of %d\n", seed, n)
		one := *p
		one.Env = append(slices.Clone(p.Env), ScheduleVariable+"="+Schedule(seed))
		r, err := one.Run(ctx)
		if r != nil {
			all = all.add(r, seed, seen, again)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// ScheduleVariable is the environment variable of the software GPU's schedule.
const ScheduleVariable = "FERRY_SCHEDULE"

// Schedule returns the schedule of a seed.
func Schedule(seed uint64) string { return fmt.Sprintf("random:%d", seed) }

// add adds the report of a seed to the report of those before, which is nil for the first.
func (r *Report) add(one *Report, seed uint64, seen map[string]bool, again func(uint64) string) *Report {
	run := SeedRun{Seed: seed, Findings: len(one.Findings), Status: one.Status, Ended: one.Ended}
	findings, notes := one.Findings, one.Notes
	if r == nil {
		r = one
		r.Findings, r.Notes = []checks.Row{}, []checks.Row{}
	} else {
		r.Allowed += one.Allowed
		r.GaveUp = sumGaveUp(slices.Values(append(r.GaveUp, one.GaveUp...)))
		r.Watched = joinLines(r.Watched, one.Watched)
		if r.Status == 0 {
			r.Status, r.Ended = one.Status, one.Ended
		}
	}
	r.Seeds = append(r.Seeds, run)
	for _, f := range findings {
		if key := kindOf(f.Text); !seen[key] {
			seen[key] = true
			f.Seed, f.Again = seed, again(seed)
			r.Findings = append(r.Findings, f)
		}
	}
	for _, f := range notes {
		if key := "note: " + kindOf(f.Text); !seen[key] {
			seen[key] = true
			r.Notes = append(r.Notes, f)
		}
	}
	return r
}

// joinLines returns the different lines of two texts. That nothing was watched in one run
// counts only if nothing was in any.
func joinLines(a, b string) string {
	if a == nothing {
		return b
	}
	lines := strings.Split(a, "\n")
	for line := range strings.SplitSeq(b, "\n") {
		if line != nothing && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// changing are the parts of a finding that depend on the order in which threads ran.
var changing = regexp.MustCompile(`0x[0-9a-f]+|\([0-9,]+\)| \([0-9]+ times\)|\b[0-9]+( bytes| at offset|-byte)|offset [0-9]+`)

// kindOf returns the text of a finding without the parts that depend on the order in which
// threads ran. The lines are sorted, because either access may be the first.
func kindOf(text string) string {
	lines := strings.Split(changing.ReplaceAllString(text, ""), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// addSeeds adds the seeds of a report.
func (r *Report) addSeeds(p *layout.Page) {
	if len(r.Seeds) == 0 {
		return
	}
	var with []string
	failed := 0
	for _, s := range r.Seeds {
		if s.Findings > 0 {
			with = append(with, fmt.Sprint(s.Seed))
		}
		failed += min(s.Status, 1)
	}
	end := ""
	if failed > 0 {
		end = fmt.Sprintf(", the program failed under %d", failed)
	}
	p.Linef("\n%s, findings under %s%s", Count(len(r.Seeds), "seed"), cmp.Or(strings.Join(with, " "), "none"), end)
}
