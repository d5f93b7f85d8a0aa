package grid

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
)

// FamiliesSchema is the version of the document that [Families.JSON] returns.
const FamiliesSchema = "ferry.families/1"

// Families is the difference between predictions and measurements of the set [Patterns].
type Families struct {
	Schema    string      `json:"schema"`
	Predicted string      `json:"predicted"` // device of the predictions
	Measured  string      `json:"measured"`  // name of the device of the measurements
	Halves    [2]Half     `json:"halves"`    // cases for development, cases held out
	Cases     []CaseError `json:"cases"`     // the cases for development only, the worst first
}

// Half is the errors of one half of the cases.
type Half struct {
	Name     string        `json:"name"`
	Families []FamilyError `json:"families"` // the last one has all cases
	Choices  Choices       `json:"choices"`
}

// FamilyError is the errors of a family.
type FamilyError struct {
	Error
	// Wrong is how many predictions are wrong by more than a factor of 2.
	Wrong int `json:"wrong"`
	// Marked says why predictions of the family are not to be relied on; "" if they are.
	Marked string `json:"marked,omitempty"`
}

// Choices counts the choices between two ways to bring data to a kernel: zero-copy, or a
// copy before the kernel. Only those count whose measured times differ by 10 % at least.
type Choices struct {
	Count int      `json:"count"`
	Wrong []string `json:"wrong"` // the other way is predicted to be faster; names only of cases for development
	Held  int      `json:"held"`  // wrong choices with a case that is held out
}

// CaseError is the times of one case in nanoseconds.
type CaseError struct {
	Case
	Family    string  `json:"family"`
	Measured  float64 `json:"measured_ns"`
	Predicted float64 `json:"predicted_ns"`
}

func (e *CaseError) error() float64 { return math.Abs(e.Predicted/e.Measured - 1) }

// factor is by how much the prediction is wrong in either direction, at least 1.
func (e *CaseError) factor() float64 {
	return max(e.Predicted/e.Measured, e.Measured/e.Predicted)
}

// CompareFamilies compares predictions with measurements, for the patterns that both have.
func CompareFamilies(predicted, measured *Result) *Families {
	f := &Families{Schema: FamiliesSchema, Predicted: predicted.Device.Opened, Measured: measured.Device.Name}
	got := times(predicted)
	var halves [2][]CaseError
	for _, p := range measured.Points {
		ns, ok := got[p.Case]
		family := p.Family()
		if !ok || family == "" || p.Median <= 0 {
			continue
		}
		h := 0
		if p.HeldOut() {
			h = 1
		}
		halves[h] = append(halves[h], CaseError{p.Case, family, p.Median, ns})
	}
	choices := compareChoices(got, times(measured))
	for h, name := range []string{"development", "held out"} {
		f.Halves[h] = Half{Name: name, Families: familyErrors(halves[h]), Choices: choices[h]}
	}
	f.Cases = halves[0]
	slices.SortStableFunc(f.Cases, func(a, b CaseError) int { return cmp.Compare(b.factor(), a.factor()) })
	return f
}

func times(r *Result) map[Case]float64 {
	out := map[Case]float64{}
	for _, p := range r.Points {
		out[p.Case] = p.Median
	}
	return out
}

// familyErrors returns the errors of each family, of all cases that are not marked, and of
// all cases.
func familyErrors(cases []CaseError) (out []FamilyError) {
	add := func(name, marked string, in func(CaseError) bool) {
		var off []float64
		wrong := 0
		for _, c := range cases {
			if !in(c) {
				continue
			}
			off = append(off, c.error())
			if c.factor() > 2 {
				wrong++
			}
		}
		if len(off) > 0 {
			out = append(out, FamilyError{errorOf(name, off), wrong, marked})
		}
	}
	for _, f := range families {
		add(f.name, f.marked, func(c CaseError) bool { return c.Family == f.name })
	}
	add(unmarked, "", func(c CaseError) bool { return c.Marked() == "" })
	add("all", "", func(CaseError) bool { return true })
	return out
}

// unmarked is the name of all families that are not marked, together.
const unmarked = "all that are not marked"

// compareChoices compares the choices of all pairs: those with cases for development only,
// and those with a case that is held out.
func compareChoices(predicted, measured map[Case]float64) (halves [2]Choices) {
	for _, c := range Patterns.Cases() {
		other := c.otherWay()
		a, b, haveMeasured := both(measured, c, other)
		x, y, havePredicted := both(predicted, c, other)
		if !haveMeasured || !havePredicted || max(a, b) < 1.1*min(a, b) {
			continue
		}
		h := 0
		if c.HeldOut() || other.HeldOut() {
			h = 1
		}
		halves[h].Count++
		switch wrong := (a < b) != (x < y); {
		case wrong && h == 0:
			halves[h].Wrong = append(halves[h].Wrong, c.String())
		case wrong:
			halves[h].Held++
		}
	}
	return halves
}

// otherWay returns the case that copies what c accesses over the link, or a case that does
// not exist.
func (c Case) otherWay() Case {
	name, ok := strings.CutSuffix(c.Kind, ", "+zeroCopy.String())
	if !ok {
		return Case{}
	}
	return Case{name + ", " + copyFirst.String(), c.Size}
}

func both(all map[Case]float64, a, b Case) (x, y float64, ok bool) {
	x, first := all[a]
	y, second := all[b]
	return x, y, first && second
}

// Page returns the errors by family as a table.
func (f *Families) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s compared with %s. \"> 2x\": predictions that are wrong by more than a factor of 2.\n", f.Predicted, f.Measured)
	t := &layout.Table{Columns: []layout.Column{{Name: "family"},
		{Name: "cases for\ndevelopment", Right: true}, {Name: "median", Right: true}, {Name: "90 %", Right: true}, {Name: "> 2x", Right: true},
		{Name: "cases\nheld out", Right: true}, {Name: "median", Right: true}, {Name: "90 %", Right: true}, {Name: "> 2x", Right: true}}}
	for _, name := range f.names() {
		row := []string{name}
		if isMarked(name) {
			row[0] += " *"
		}
		for i := range f.Halves {
			row = append(row, f.Halves[i].cells(name)...)
		}
		t.Row(row...)
	}
	p.Table(t)
	for _, x := range families {
		if x.marked != "" && slices.Contains(f.names(), x.name) {
			p.Hang(2, "\n* do not rely on "+x.name+": "+x.marked)
		}
	}
	for i, of := range []string{"for development", "held out"} {
		if c := f.Halves[i].Choices; c.Count > 0 {
			p.Linef("\nZero-copy or copy and kernel, where it matters by 10 %%: %d of %d choices are wrong (cases %s).", len(c.Wrong)+c.Held, c.Count, of)
		}
	}
	return p
}

// names returns the families that have cases in either half, and then "all".
func (f *Families) names() (out []string) {
	for _, x := range families {
		if f.Halves[0].has(x.name) || f.Halves[1].has(x.name) {
			out = append(out, x.name)
		}
	}
	return append(out, unmarked, "all")
}

// isMarked reports whether nobody should rely on predictions of a family.
func isMarked(name string) bool {
	return slices.ContainsFunc(families, func(f family) bool { return f.name == name && f.marked != "" })
}

// has reports whether a half has cases of a family.
func (h *Half) has(name string) bool { return h.cells(name)[0] != "0" }

// cells returns the number of cases of a family, the median error, the 90th percentile, and
// how many are wrong by more than a factor of 2.
func (h *Half) cells(name string) []string {
	for _, e := range h.Families {
		if e.Kind == name {
			return []string{fmt.Sprint(e.Cases), fmt.Sprintf("%.1f %%", 100*e.Median), fmt.Sprintf("%.1f %%", 100*e.P90), fmt.Sprint(e.Wrong)}
		}
	}
	return []string{"0", "", "", ""}
}

// CasesPage returns the cases for development as a table, the worst prediction first.
func (f *Families) CasesPage() *layout.Page {
	p := new(layout.Page)
	t := &layout.Table{Columns: []layout.Column{{Name: "case"}, {Name: "measured", Right: true}, {Name: "predicted", Right: true}, {Name: "ratio", Right: true}, {}}}
	for _, c := range f.Cases {
		t.Row(c.Case.String(), fmt.Sprintf("%.1f", c.Measured/1e3), fmt.Sprintf("%.1f", c.Predicted/1e3), fmt.Sprintf("%.2f", c.Predicted/c.Measured), c.mark())
	}
	p.Table(t)
	for _, w := range f.Halves[0].Choices.Wrong {
		p.Hang(2, "wrong choice: "+w)
	}
	return p
}

// mark returns what lists put after a prediction of the case.
func (c Case) mark() string {
	if c.Marked() != "" {
		return "(do not rely on it)"
	}
	return ""
}

// JSON returns the errors as one document.
func (f *Families) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(f, "", " ")
	return append(text, '\n'), err
}
