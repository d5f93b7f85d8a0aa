package racetest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/softgpu"
)

// pairs returns all pairs, in the order of the table.
func pairs() []pair { return slices.Concat(streamPairs, memoryPairs, typedPairs) }

// TestRight runs the correct programs under each schedule.
func TestRight(t *testing.T) {
	for _, text := range []string{"eager", "lazy", "random:1", "random:2"} {
		s, err := softgpu.ParseSchedule(text)
		ok(err)
		for _, p := range pairs() {
			r := newRig(s)
			p.right(r)
			ok(r.end())
		}
	}
}

var update = flag.Bool("update", false, "write the table of docs/softgpu/races.md")

const (
	page  = "../../docs/softgpu/races.md"
	begin = "<!-- table: go test ./softgpu/racetest -update -->\n"
	end   = "<!-- end of the table -->"
)

// TestDocumentation checks that the documentation has this package's table.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| rule | pair | a report shows |\n|---|---|---|\n")
	for _, p := range pairs() {
		op := "`" + p.op + "`"
		if p.op == "racetest" {
			op = "the host function"
		}
		fmt.Fprintf(&table, "| %s | `%s` | %s |\n", p.rule, p.name, op)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no place for the table", page)
	case old == table.String():
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date: go test ./softgpu/racetest -update", page)
	}
}
