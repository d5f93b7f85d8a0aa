package grid

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/softgpu"
)

// made returns a result with the times of some cases.
func made(device info.Device, times map[Case]float64) *Result {
	r := &Result{Device: device}
	for _, c := range Patterns.Cases() {
		if ns, ok := times[c]; ok {
			r.Points = append(r.Points, Point{Case: c, Median: ns})
		}
	}
	return r
}

// TestCompareFamilies compares times whose errors are known.
func TestCompareFamilies(t *testing.T) {
	var dev, held []Case // of "few threads"
	for _, c := range Patterns.Cases() {
		switch {
		case c.Family() != "few threads":
		case c.HeldOut():
			held = append(held, c)
		default:
			dev = append(dev, c)
		}
	}
	measured, predicted := map[Case]float64{}, map[Case]float64{}
	for i, factor := range []float64{1, 1.1, 0.8, 0.4, 2.5} { // errors 0, 10, 20, 60 and 150 %
		measured[dev[i]], predicted[dev[i]] = 1000, 1000*factor
	}
	measured[held[0]], predicted[held[0]] = 1000, 1300
	measured[held[1]] = 1000 // not predicted
	operation := Operations.Cases()[0]
	f := CompareFamilies(made(info.Device{Opened: "soft:x"}, predicted), made(info.Device{Name: "X"}, measured))
	f.Cases = slices.DeleteFunc(f.Cases, func(c CaseError) bool { return c.Measured == c.Predicted })
	for h, want := range []FamilyError{
		{Error{"few threads", 5, 0.2, 1.5}, 2, ""},
		{Error{"few threads", 1, 0.3, 0.3}, 0, ""},
	} {
		all, relied := want, want
		all.Kind, relied.Kind = "all", unmarked
		if got := f.Halves[h].Families; !slices.Equal(got, []FamilyError{want, relied, all}) {
			t.Errorf("half %d: got %+v, want %+v three times", h, got, want)
		}
	}
	if c := f.Cases; len(c) != 4 || c[0].Predicted != 2500 && c[0].Predicted != 400 || c[3].Predicted != 1100 {
		t.Errorf("cases: got %+v, want the worst first", c)
	}
	if operation.Family() != "" || operation.HeldOut() {
		t.Errorf("%v has a family", operation)
	}
	text := strings.Join(strings.Fields(f.Page().Text(0)), " ")
	for _, part := range []string{"soft:x compared with X", "few threads 5 20.0 % 150.0 % 2 1 30.0 % 30.0 % 0 ", "all 5 "} {
		if !strings.Contains(text, part) {
			t.Errorf("got\n%s\nwant %q in it", f.Page().Text(0), part)
		}
	}
	if text := f.CasesPage().Text(0); !strings.Contains(text, dev[3].String()) || strings.Contains(text, held[0].String()) {
		t.Errorf("got\n%s\nwant the cases for development only", text)
	}
}

// TestMarkedFamilies demands that every output with a prediction of a marked family says so.
func TestMarkedFamilies(t *testing.T) {
	marked, other := Case{}, Case{}
	for _, c := range Patterns.Cases() {
		switch {
		case c.HeldOut():
		case c.Marked() != "":
			marked = c
		default:
			other = c
		}
	}
	ns := map[Case]float64{marked: 1000, other: 1000}
	off := map[Case]float64{marked: 5000, other: 1000}
	predicted := made(info.Device{Opened: "soft:x"}, off)
	f := CompareFamilies(predicted, made(info.Device{Name: "X"}, ns))
	why := marked.Marked()
	if text := f.Page().Text(0); !strings.Contains(text, "\n"+marked.Family()+" * ") || !strings.Contains(text, why) || strings.Contains(text, other.Family()+" *") {
		t.Errorf("got\n%s\nwant the mark of %s, and no other", text, marked.Family())
	}
	for _, e := range f.Halves[0].Families {
		if want := map[string]int{marked.Family(): 1, "all": 1}[e.Kind]; e.Wrong != want || (e.Marked != "") != (e.Kind == marked.Family()) {
			t.Errorf("got %+v, want %d wrong", e, want)
		}
	}
	if got := strings.Count(f.CasesPage().Text(0), "do not rely"); got != 1 {
		t.Errorf("%d cases are marked, want 1:\n%s", got, f.CasesPage().Text(0))
	}
	predicted.Predicted = true
	if got := strings.Count(predicted.Page().Text(0), "do not rely"); got != 1 {
		t.Errorf("%d kinds are marked, want 1:\n%s", got, predicted.Page().Text(0))
	}
	if markedFamilies()[marked.Family()] != why {
		t.Errorf("got %v, want %s", markedFamilies(), marked.Family())
	}
}

// TestChoices checks which choices between zero-copy and a copy count, and which are wrong.
func TestChoices(t *testing.T) {
	pair := func(known bool) Case {
		for _, c := range Patterns.Cases() {
			other := c.otherWay()
			if other.Family() != "" && slices.Contains(kindOf(other).sizes, c.Size) && !c.HeldOut() && !other.HeldOut() == known {
				return c
			}
		}
		t.Fatal("no pair")
		return Case{}
	}
	for _, known := range []bool{true, false} {
		c := pair(known)
		choose := func(zero, copied, zeroPredicted, copiedPredicted float64) Choices {
			m := map[Case]float64{c: zero, c.otherWay(): copied}
			p := map[Case]float64{c: zeroPredicted, c.otherWay(): copiedPredicted}
			halves := compareChoices(p, m)
			if known {
				return halves[0]
			}
			return halves[1]
		}
		if x := choose(100, 109, 2, 1); x.Count != 0 {
			t.Errorf("a choice that matters by 9 %%: got %+v", x)
		}
		if x := choose(100, 120, 1, 2); x.Count != 1 || len(x.Wrong)+x.Held != 0 {
			t.Errorf("a right choice: got %+v", x)
		}
		if x := choose(120, 100, 1, 2); x.Count != 1 || len(x.Wrong)+x.Held != 1 || (x.Held == 0) != known {
			t.Errorf("a wrong choice, development %v: got %+v", known, x)
		}
	}
}

// pages are the tables of docs/generated/accuracy.md: files with predictions and with
// measurements. A file of all cases, if it is there, replaces that of the known ones.
var pages = []struct{ predicted, measured, known string }{
	{"patterns-soft-h200.json", "patterns-h200.json", "patterns-h200-known.json"},
	{"patterns-soft-h200.json", "patterns-h100.json", "patterns-h100-known.json"},
}

// present returns the first file of docs/results that is there, or the last one.
func present(names ...string) string {
	for _, name := range names {
		if _, err := os.Stat("../../../../docs/results/" + name); err == nil {
			return name
		}
	}
	return names[len(names)-1]
}

const (
	accuracyPath = "../../../../docs/generated/accuracy.md"
	accuracyHead = `# Predictions of patterns of use

Generated by ` + "`go test ./internal/measure/bench/grid -run TestAccuracyPage -update`" + ` from ` + "`docs/results/patterns-*.json`" + `.
[Accuracy](../softgpu/accuracy.md#patterns-of-use) explains the columns.

`
)

// markdown returns the errors by family as a table of the page.
func markdown(f *Families) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s` compared with %s. \"> 2x\": predictions that are wrong by more than a factor of 2.\n\n", f.Predicted, f.Measured)
	b.WriteString("| family | cases for development | median, 90th percentile | > 2x | cases held out | median, 90th percentile | > 2x |\n|---|---|---|---|---|---|---|\n")
	for _, name := range f.names() {
		mark := ""
		if isMarked(name) {
			mark = " \\*"
		}
		fmt.Fprintf(&b, "| %s%s |", name, mark)
		for i := range f.Halves {
			if c := f.Halves[i].cells(name); c[1] == "" {
				b.WriteString(" 0 | | |")
			} else {
				fmt.Fprintf(&b, " %s | %s, %s | %s |", c[0], strings.TrimSuffix(c[1], " %"), c[2], c[3])
			}
		}
		b.WriteByte('\n')
	}
	for _, x := range families {
		if x.marked != "" && slices.Contains(f.names(), x.name) {
			fmt.Fprintf(&b, "\n\\* do not rely on %s: %s\n", x.name, x.marked)
		}
	}
	for i, of := range []string{"for development", "held out"} {
		if c := f.Halves[i].Choices; c.Count > 0 {
			fmt.Fprintf(&b, "\nZero-copy or copy and kernel, where it matters by 10 %%: %d of %d choices are wrong (cases %s).\n", len(c.Wrong)+c.Held, c.Count, of)
		}
	}
	return b.String()
}

// TestAccuracyPage compares the page of patterns with the files. With -update it writes the page.
func TestAccuracyPage(t *testing.T) {
	var tables []string
	for _, p := range pages {
		tables = append(tables, markdown(CompareFamilies(result(t, p.predicted), result(t, present(p.measured, p.known)))))
	}
	want := accuracyHead + strings.Join(tables, "\n")
	if *update {
		if err := os.WriteFile(accuracyPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(accuracyPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run this test with -update", accuracyPath)
	}
}

// TestPatternPredictionsAreCurrent checks that the committed predictions are those of this
// code and this profile, for a case of each family.
func TestPatternPredictionsAreCurrent(t *testing.T) {
	t.Setenv(softgpu.ScheduleVariable, "eager")
	committed := times(result(t, "patterns-soft-h200.json"))
	if all := Patterns.Cases(); len(committed) != len(all) {
		t.Errorf("predictions of %d cases, want %d", len(committed), len(all))
	}
	for _, p := range measurePatterns(t, "soft:h200", firstOfFamily()) {
		if want := committed[p.Case]; math.Abs(p.Median-want) > 0.02*want+500 {
			t.Errorf("%v: got %.0f ns, docs/results/patterns-soft-h200.json has %.0f", p.Case, p.Median, want)
		}
	}
}
