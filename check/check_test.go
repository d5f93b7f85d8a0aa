package check_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// themes are groups of programs.
var themes = []struct {
	name  string
	pairs []pair
}{
	{"order of streams", orderPairs},
	{"events, pageable copies, graphs, host functions", eventPairs},
	{"allocations, frees, bounds", lifetimePairs},
}

var schedules = []string{"eager", "lazy", "random:1"}

// TestPairs: each wrong program is reported, with its kind, the memory's place and text. No
// correct program is reported.
func TestPairs(t *testing.T) {
	for _, schedule := range schedules {
		for _, theme := range themes {
			for _, p := range theme.pairs {
				t.Run(schedule+"/"+p.name, func(t *testing.T) {
					t.Parallel()
					p.checkWrong(t, schedule)
					p.checkRight(t, schedule)
				})
			}
		}
	}
}

func (p *pair) checkWrong(t *testing.T, schedule string) {
	if raceBuild {
		return // the detector reports it, which fails the test
	}
	r := newRig(schedule)
	p.wrong(r)
	_ = r.end() // a wrong program may have lost the device
	for _, f := range r.Findings() {
		if f.Kind == p.kind && strings.Contains(f.String(), p.text) {
			if f.Second == nil || !strings.Contains(f.Second.Place, "_test.go:") || f.Mend == "" {
				t.Errorf("the finding lacks a place or a mend:\n%s", &f)
			}
			return
		}
	}
	t.Errorf("the wrong program is not reported as %q with %q; found:\n%v", p.kind, p.text, r.Findings())
}

func (p *pair) checkRight(t *testing.T, schedule string) {
	r := newRig(schedule)
	p.right(r)
	if err := r.end(); err != nil {
		t.Errorf("the correct program failed: %v", err)
	}
	for _, f := range r.Findings() {
		t.Errorf("the correct program is reported:\n%s", &f)
	}
}

// TestNames: each program has a name of its own, and there are at least 40.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, theme := range themes {
		for _, p := range theme.pairs {
			if seen[p.name] || p.rule == "" {
				t.Errorf("%s: no rule, or another program has the same name", p.name)
			}
			seen[p.name] = true
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d programs, want at least 40", len(seen))
	}
}

var update = flag.Bool("update", false, "write the table of docs/check.md")

const (
	page  = "../docs/check.md"
	begin = "<!-- table: go test ./check -update -->\n"
	end   = "<!-- end of the table -->"
)

// TestDocumentation checks that the documentation has the table of the programs.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, found := strings.Cut(string(text), begin)
	old, last, closed := strings.Cut(rest, end)
	switch want := table(); {
	case !found || !closed:
		t.Fatalf("%s has no place for the table", page)
	case old == want:
	case *update:
		if err := os.WriteFile(page, []byte(first+begin+want+end+last), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date: go test ./check -update", page)
	}
}

// table returns the table of the programs. TestPairs demands that each is reported.
func table() string {
	var b strings.Builder
	all := 0
	fmt.Fprintf(&b, "| theme | wrong programs | reported | twins | twins reported |\n|---|---|---|---|---|\n")
	for _, theme := range themes {
		n := len(theme.pairs)
		all += n
		fmt.Fprintf(&b, "| %s | %d | %d | %d | 0 |\n", theme.name, n, n, n)
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d | 0 |\n\n| rule | program | kind |\n|---|---|---|\n", all, all, all)
	for _, theme := range themes {
		for _, p := range theme.pairs {
			fmt.Fprintf(&b, "| %s | `%s` | `%s` |\n", p.rule, p.name, p.kind)
		}
	}
	return b.String()
}
