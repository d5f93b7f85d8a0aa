//go:build !race

package racetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/check"
)

const cusanPage = "../../docs/softgpu/cusan.md"

// TestCuSan runs the pairs of CuSan's cases with FERRY_CHECK=memory,races, and compares the
// findings with docs/softgpu/cusan.md. The checks must report each wrong program whose race is
// not with the CPU's own access, and no correct one. Race builds have TestReports.
func TestCuSan(t *testing.T) {
	found := map[string]string{}
	for _, c := range cusanCases {
		i := slices.IndexFunc(pairs(), func(p pair) bool { return p.name == c.pair })
		if i < 0 {
			if c.pair != "" {
				t.Errorf("%s: there is no pair %q", c.name, c.pair)
			}
			continue
		}
		if _, done := found[c.pair]; !done {
			found[c.pair] = checked(t, &pairs()[i])
		}
		if (found[c.pair] == "") != c.host {
			t.Errorf("%s: the checks find %q in the wrong program; an access of the CPU: %v", c.name, found[c.pair], c.host)
		}
	}
	checkPage(t, cusanPage, cusanCounts(found)+"\n"+cusanTable(found))
}

// checked returns what the checks find in the wrong program of a pair, under all schedules.
func checked(t *testing.T, p *pair) string {
	var all []string
	for _, schedule := range []string{"eager", "lazy", "random:1"} {
		if text := findings(schedule, p.right); text != "" {
			t.Errorf("%s: the checks find %s in the correct program under %s", p.name, text, schedule)
		}
		all = append(all, findings(schedule, p.racy))
	}
	if slices.Sort(all); all[0] != all[len(all)-1] {
		t.Errorf("%s: the findings depend on the schedule: %q", p.name, all)
	}
	return all[0]
}

// findings runs a program with both checks, and returns the kinds of findings. The programs
// leave memory to the end of the context, and use memory that nothing has written: this is
// left out.
func findings(schedule string, program func(*rig)) string {
	d := softwareGPU(schedule, "races")
	w := check.Wrap(d, check.Options{})
	r := newRigOf(w)
	program(r)
	ok(r.end())
	var kinds []string
	for _, f := range w.Findings() {
		if !f.Note && f.Kind != check.Leak && f.Kind != check.Uninitialized {
			kinds = append(kinds, "memory: "+f.Kind)
		}
	}
	for _, f := range d.Findings() {
		if !strings.HasPrefix(f.Kind, "uninitialized") {
			kinds = append(kinds, "races: "+f.Kind)
		}
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ", ")
}

// cusanCounts returns the totals. found is what the checks find in the wrong programs, by pair.
func cusanCounts(found map[string]string) string {
	cases, without, mine, byChecks := 0, 0, 0, 0
	for _, c := range cusanCases {
		cases += len(c.names())
		if c.pair == "" {
			without++
		}
	}
	for name, text := range found {
		if strings.HasPrefix(name, "cusan/") {
			mine++
		}
		if text != "" {
			byChecks++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	fmt.Fprintf(&b, "| cases of CuSan | %d, in %d rows |\n", cases, len(cusanCases))
	fmt.Fprintf(&b, "| rows without an access to memory | %d |\n", without)
	fmt.Fprintf(&b, "| pairs for the others | %d: %d made for this, %d that were there |\n", len(found), mine, len(found)-mine)
	fmt.Fprintf(&b, "| wrong programs that race builds report | %d of %d |\n", len(found), len(found))
	fmt.Fprintf(&b, "| wrong programs that `FERRY_CHECK=memory,races` reports | %d of %d; in the others the CPU's own access races |\n", byChecks, len(found))
	fmt.Fprintf(&b, "| correct programs reported | 0 by either |\n")
	return b.String()
}

// names returns the names of a case's files in CuSan's folder test.
func (c *published) names() []string {
	names := []string{c.name}
	if _, file, _ := strings.Cut(c.name, "/"); c.also != "" {
		names = append(names, c.also+"/"+file)
	}
	return names
}

// cusanTable returns the table of all cases.
func cusanTable(found map[string]string) string {
	ops := map[string]string{}
	for _, p := range pairs() {
		ops[p.name] = p.op
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| case | also in | about | CuSan expects | pair | race builds | `FERRY_CHECK=memory,races` |\n|---|---|---|---|---|---|---|\n")
	for _, c := range cusanCases {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |", c.name, c.also, c.about, c.expects)
		if c.pair == "" {
			fmt.Fprintf(&b, " | | |\n")
			continue
		}
		checks := found[c.pair]
		if c.host {
			checks = "no: the CPU's own access"
		}
		fmt.Fprintf(&b, " `%s` | `%s` / none | %s / none |\n", c.pair, ops[c.pair], checks)
	}
	return b.String()
}
