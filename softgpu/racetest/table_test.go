package racetest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// theme is a group of programs.
type theme struct {
	name  string
	pairs []pair
}

// themes returns all programs, in the order of the table.
func themes() []theme {
	return []theme{
		{"streams, events, copies, host functions", streamPairs},
		{"allocations, graphs, devices, bytes", memoryPairs},
		{"buffers of the typed API", typedPairs},
		{"kinds of memory", kindPairs},
		{"lifetimes", lifetimePairs},
		{"ordering", orderPairs},
		{"lists and graphs", listPairs},
		{"pools and pipelines", poolPairs},
		{"test cases of CuSan", cusanPairs},
	}
}

// pairs returns the programs of all themes.
func pairs() (all []pair) {
	for _, t := range themes() {
		all = append(all, t.pairs...)
	}
	return all
}

// TestNames checks that each program has a name and a rule of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range pairs() {
		if seen[p.name] || seen[p.rule] {
			t.Errorf("%s: another program has the same name or rule", p.name)
		}
		seen[p.name], seen[p.rule] = true, true
	}
}

// TestRight runs the correct programs under each schedule. In race builds a report fails
// the test.
func TestRight(t *testing.T) {
	for _, schedule := range []string{"eager", "lazy", "random:1", "random:2", "random:3"} {
		for _, p := range pairs() {
			t.Run(schedule+"/"+p.name, func(t *testing.T) {
				r := newRig(schedule)
				p.right(r)
				ok(r.end())
			})
		}
	}
}

var update = flag.Bool("update", false, "write the tables of docs/softgpu/races.md and cusan.md")

const (
	page  = "../../docs/softgpu/races.md"
	begin = "<!-- table: go test ./softgpu/racetest -update -->\n"
	end   = "<!-- end of the table -->"
)

// TestDocumentation checks that the documentation has this package's table.
func TestDocumentation(t *testing.T) { checkPage(t, page, counts()+"\n"+table()) }

// checkPage checks that a page has a table. With -update it writes the table.
func checkPage(t *testing.T, page, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no place for the table", page)
	case old == want:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date: go test ./softgpu/racetest -update", page)
	}
}

// counts returns the table of how many programs there are, and how the wrong ones are
// reported.
func counts() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| theme | pairs | reported as a race | as an error | correct programs reported |\n|---|---|---|---|---|\n")
	var all, failing int
	for _, t := range themes() {
		n := 0
		for _, p := range t.pairs {
			if p.isError() {
				n++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | 0 |\n", t.name, len(t.pairs), len(t.pairs)-n, n)
		all, failing = all+len(t.pairs), failing+n
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d | 0 |\n", all, all-failing, failing)
	return b.String()
}

// table returns the table of all programs.
func table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| rule | pair | a report shows |\n|---|---|---|\n")
	for _, p := range pairs() {
		op := "`" + p.op + "`"
		switch {
		case p.op == "racetest":
			op = "the host function"
		case p.isError():
			op = "an error: " + strings.TrimPrefix(p.op, errorReport)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", p.rule, p.name, op)
	}
	return b.String()
}

// isError reports whether an error shows the fault of the wrong program, not a race.
func (p *pair) isError() bool { return strings.HasPrefix(p.op, errorReport) }
