package grid

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

var update = flag.Bool("update", false, "write the list of the cases that are held out, and the PTX")

// heldOutPath has the names of the cases that are held out.
const heldOutPath = "../../../../docs/results/patterns-held-out.txt"

// TestHeldOut compares the cases that are held out with the list. A change of a name or of a
// size must not move a case from one half to the other unseen.
func TestHeldOut(t *testing.T) {
	var names []string
	own := 0
	for _, c := range Patterns.Cases() {
		if c.HeldOut() {
			names = append(names, c.String())
		}
		own++
	}
	own -= len(knownCases)
	if n := len(names); own < 150 || n < own*45/100 || n > own*55/100 {
		t.Errorf("%d of %d cases are held out, want half of at least 150", n, own)
	}
	text := strings.Join(names, "\n") + "\n"
	committed, err := os.ReadFile(heldOutPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Patterns.Cases() {
		if strings.Contains("\n"+string(committed), "\n"+c.String()+"\n") && !c.HeldOut() {
			t.Fatalf("%v is held out by the list %s, but not by this code; nothing may move it", c, heldOutPath)
		}
	}
	if *update {
		if err := os.WriteFile(heldOutPath, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if string(committed) != text && !*update {
		t.Errorf("the list %s is stale: run this test with -update", heldOutPath)
	}
}

// TestHalvesOfFamilies demands that both halves have cases of each family.
func TestHalvesOfFamilies(t *testing.T) {
	for _, f := range families {
		var halves [2]int
		for _, c := range Patterns.Cases() {
			if c.Family() != f.name {
				continue
			}
			if c.HeldOut() {
				halves[1]++
			} else {
				halves[0]++
			}
		}
		if min(halves[0], halves[1]) < 4 {
			t.Errorf("%s: %d cases for development, %d held out", f.name, halves[0], halves[1])
		}
	}
}

// TestNames demands that no case occurs twice, also not in two sets, because results of both
// sets are merged.
func TestNames(t *testing.T) {
	seen := map[Case]bool{}
	for _, c := range allCases() {
		if seen[c] {
			t.Errorf("%v occurs twice", c)
		}
		seen[c] = true
	}
}

// TestKnownCases checks that each known case exists, is not held out, and is in the files
// with its times.
func TestKnownCases(t *testing.T) {
	var want []Case
	for _, k := range knownCases {
		if !slices.Contains(Patterns.Cases(), k.Case) || k.HeldOut() || k.name == "" {
			t.Errorf("%+v: not a case, or held out, or without a name", k)
		}
		want = append(want, k.Case)
	}
	if len(want) != 73 {
		t.Errorf("%d known cases, want 73", len(want))
	}
	for _, file := range []string{"patterns-h200-known.json", "patterns-h100-known.json"} {
		var got []Case
		for _, p := range result(t, file).Points {
			got = append(got, p.Case)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s has other cases, or in another order", file)
		}
	}
}

// quick reports whether a case is the one of its kind with the smallest size. Such a case
// takes little time.
func quick(c Case) bool {
	return c.Size == slices.Min(kindOf(c).sizes)
}

// TestPatterns measures a case of each kind on an H200, and one of each family on the oldest
// machine, which lacks managed memory. A second run of the latter has the same times. Of each
// family a quarter of the kinds is drawn.
func TestPatterns(t *testing.T) {
	kinds := sample.OfEach(t, Patterns.Kinds(), func(kind string) string { return Case{Kind: kind}.Family() }, 4)
	points := measurePatterns(t, "soft:h200", func(c Case) bool { return quick(c) && slices.Contains(kinds, c.Kind) })
	seen := map[string]bool{}
	for _, p := range points {
		seen[p.Kind] = true
		if p.Median < 0 || p.Samples != 1 {
			t.Errorf("got %+v", p)
		}
	}
	for _, k := range kinds {
		if !seen[k] {
			t.Errorf("%s: not measured", k)
		}
	}
	const oldest = "soft:fermi-c2050"
	first := measurePatterns(t, oldest, firstOfFamily())
	if len(first) != len(families)-2 || !reflect.DeepEqual(measurePatterns(t, oldest, firstOfFamily()), first) {
		t.Errorf("%s: %d families, want all but managed memory and graphs; or a second run has other times", oldest, len(first))
	}
}

func measurePatterns(t *testing.T, device string, only func(Case) bool) []Point {
	t.Helper()
	r, err := Measure(t.Context(), open(t, device), &Options{Set: Patterns, Only: only})
	if err != nil {
		t.Fatal(err)
	}
	return r.Points
}

// firstOfFamily returns a function that accepts the first case of each family.
func firstOfFamily() func(Case) bool {
	seen := map[string]bool{}
	return func(c Case) bool {
		first := !seen[c.Family()]
		seen[c.Family()] = true
		return first
	}
}

// TestFits checks which cases profiles may be fitted to: no case for tests, except patterns
// that were known before.
func TestFits(t *testing.T) {
	known := 0
	for _, c := range allCases() {
		want := !c.Test()
		if c.Test() && slices.ContainsFunc(knownCases, func(k knownCase) bool { return k.Case == c }) {
			want = true
			known++
		}
		if c.Fits() != want {
			t.Errorf("%v: fits is %v, want %v", c, c.Fits(), want)
		}
	}
	if known < 10 {
		t.Errorf("%d known cases are in the half for tests, want about half of them", known)
	}
}
