package check_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/libcuda"
)

// themes are groups of programs.
var themes = []struct {
	name  string
	pairs []pair
}{
	{"order of streams", orderPairs},
	{"events, pageable copies, graphs, host functions", eventPairs},
	{"allocations, frees, bounds", lifetimePairs},
	{"memory of the program that is gone", goneMemoryPairs},
	{"the CPU's own accesses", accessPairs},
}

var schedules = []string{"eager", "lazy", "random:1"}

// programs are the pairs of all themes, by name.
var programs = sync.OnceValue(func() map[string]*pair {
	all := map[string]*pair{}
	for _, theme := range themes {
		for i := range theme.pairs {
			all[theme.pairs[i].name] = &theme.pairs[i]
		}
	}
	return all
})

// TestPairs: each wrong program is reported, with its kind, the memory's place and text. No
// correct program is reported.
func TestPairs(t *testing.T) {
	for _, schedule := range schedules {
		for _, theme := range themes {
			for _, p := range theme.pairs {
				t.Run(schedule+"/"+p.name, func(t *testing.T) {
					t.Parallel()
					p.checkWrong(t, p.driver(schedule))
					p.checkRight(t, p.driver(schedule))
				})
			}
		}
	}
}

// driver returns the driver of a pair. It keeps no memory of the program if that is what the
// pair is about.
func (p *pair) driver(schedule string) cu.Driver {
	d := software(schedule)
	if p.kind == check.Collected || p.kind == check.Unmapped {
		return &elsewhere{Driver: d, there: map[uintptr]cu.HostPtr{}}
	}
	return d
}

// newChecked returns a rig on a checked driver.
func newChecked(inner cu.Driver) (*rig, *check.Driver) {
	d := check.Wrap(inner, check.Options{})
	return newRig(d), d
}

// TestGoneMemoryOnGPU: the driver of a GPU keeps no memory of the program, and no finding
// needs the driver of the other tests.
func TestGoneMemoryOnGPU(t *testing.T) {
	if os.Getenv("FERRY_REQUIRE_GPU") != "1" {
		t.Skip("needs a GPU: FERRY_REQUIRE_GPU=1")
	}
	for _, p := range goneMemoryPairs {
		t.Run(p.name, func(t *testing.T) {
			p.checkWrong(t, got(libcuda.Open()))
			p.checkRight(t, got(libcuda.Open()))
		})
	}
}

func (p *pair) checkWrong(t *testing.T, inner cu.Driver) {
	if racebuild.On {
		return // the detector reports it, which fails the test
	}
	if p.kind == check.Unmapped && !canMap {
		t.Skip("the check does not know what is mapped")
	}
	r, d := newChecked(inner)
	p.wrong(r)
	_ = r.end() // a wrong program may have lost the device
	for _, f := range d.Findings() {
		if p.kind == onlyRace {
			t.Errorf("the documentation says that only race builds find this:\n%s", &f)
		}
		if f.Kind == p.kind && strings.Contains(f.String(), p.text) {
			if f.Second == nil || !strings.Contains(f.Second.Place, "_test.go:") || strings.ContainsAny(f.Second.Place, `/`) || f.Mend == "" {
				t.Errorf("the finding lacks a place or a mend:\n%s", &f)
			}
			return
		}
	}
	if p.kind == onlyRace { // see TestRaceDetector
		return
	}
	t.Errorf("the wrong program is not reported as %q with %q; found:\n%v", p.kind, p.text, d.Findings())
}

func (p *pair) checkRight(t *testing.T, inner cu.Driver) {
	r, d := newChecked(inner)
	p.right(r)
	if err := r.end(); err != nil {
		t.Errorf("the correct program failed: %v", err)
	}
	for _, f := range d.Findings() {
		t.Errorf("the correct program is reported:\n%s", &f)
	}
}

// TestNames: each program has a name of its own, and there are at least 40.
func TestNames(t *testing.T) {
	all := 0
	for _, theme := range themes {
		all += len(theme.pairs)
		for _, p := range theme.pairs {
			if p.rule == "" {
				t.Errorf("%s has no rule", p.name)
			}
		}
	}
	if n := len(programs()); n < all || n < 40 {
		t.Errorf("%d names of %d programs, want a name for each, and at least 40", n, all)
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
	switch want := table(t); {
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
func table(t *testing.T) string {
	var b strings.Builder
	all, reported := 0, 0
	fmt.Fprintf(&b, "| theme | wrong programs | reported | twins | twins reported |\n|---|---|---|---|---|\n")
	for _, theme := range themes {
		n, found := len(theme.pairs), 0
		for _, p := range theme.pairs {
			if p.kind != onlyRace {
				found++
			}
		}
		all, reported = all+n, reported+found
		fmt.Fprintf(&b, "| %s | %d | %d | %d | 0 |\n", theme.name, n, found, n)
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d | 0 |\n\n", all, reported, all)
	head, line := "| rule | program | kind |", "|---|---|---|"
	data := make([][]outcome, len(others))
	for i, tool := range others {
		head, line = head+" "+tool.name+" |", line+"---|"
		data[i] = readOutcomes(t, tool.file)
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, line)
	for _, theme := range themes {
		for _, p := range theme.pairs {
			kind := "`" + p.kind + "`"
			if p.kind == onlyRace {
				kind = p.kind
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s |", p.rule, p.name, kind)
			for _, list := range data {
				fmt.Fprintf(&b, " %s |", reports(list, p.name, "wrong"))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
