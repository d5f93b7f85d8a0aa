package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
)

// Page returns the report: a table of the alternatives, why the others lose, where the choice
// changes, and the program.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s\n%s\nTimes are predicted by the software GPU with profile %s.\n", r.Device, r.job.text(), r.Profile)
	p.Table(r.table())
	p.Line("")
	for i := range r.Alternatives {
		a := &r.Alternatives[i]
		p.Hang(4, fmt.Sprintf("%2d %s. [%s]", i+1, a.Why, a.terms()))
	}
	r.addFlips(p)
	if len(r.Notes) > 0 {
		p.Line("")
	}
	for _, note := range r.Notes {
		p.Hang(2, capital(note)+".")
	}
	p.Exact("\n" + r.Go)
	if r.Verified != nil {
		p.Line("\n" + r.Verified.text())
	}
	return p
}

// table returns a row for each alternative, the best first.
func (r *Report) table() *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{Name: "    memory and path", Width: 41}, {Name: "chunk", Right: true, Width: 9}, {Name: "streams", Right: true},
		{Name: "predicted", Right: true, Width: 10}}, Narrow: true}
	if r.Verified != nil {
		t.Columns = append(t.Columns, layout.Column{Name: "measured", Right: true, Width: 9})
	}
	for i := range r.Alternatives {
		a := &r.Alternatives[i]
		chunk, streams := "", ""
		if a.way.path == Pipelined {
			chunk, streams = sizeText(a.ChunkBytes), fmt.Sprint(a.Streams)
		}
		time := duration(a.Predicted)
		if a.Extrapolated != "" {
			time = "~" + time
		}
		row := []string{fmt.Sprintf("%2d  %s, %s", i+1, a.Kind, a.Path), chunk, streams, time}
		if a.Measured != nil {
			row = append(row, duration(*a.Measured))
		}
		t.Row(row...)
	}
	return t
}

// shownTerms is how many terms of a time the text has.
const shownTerms = 4

// terms returns the largest terms as text.
func (a *Alternative) terms() string {
	all := slices.Clone(a.Terms)
	slices.SortStableFunc(all, func(x, y Term) int { return cmp.Compare(y.Ns, x.Ns) })
	var parts []string
	for _, t := range a.Terms {
		if slices.Contains(all[:min(shownTerms, len(all))], t) && 50*t.Ns >= a.Predicted {
			parts = append(parts, fmt.Sprintf("%s %s", t.Name, duration(t.Ns)))
		}
	}
	return strings.Join(parts, ", ")
}

// addFlips adds where the choice changes.
func (r *Report) addFlips(p *layout.Page) {
	kind := family(r.Best.Kind)
	if len(r.Flips) == 0 {
		p.Linef("\n%s stays best for other reuse, sizes and accesses.", capital(kind))
		return
	}
	p.Linef("\n%s is not best for:", capital(kind))
	for _, f := range r.Flips {
		p.Hang(4, "  "+f.text(kind))
	}
}

// text describes a job.
func (j *Job) text() string {
	text := fmt.Sprintf("%s in, %s out, read in %s, access %s", sizeText(j.In), sizeText(j.Out), plural(j.Reuse, "pass"), j.Access)
	for _, more := range []struct {
		has  bool
		text string
	}{
		{j.Threads > 0, plural(j.Threads, "thread")},
		{j.Kernel > 0, fmt.Sprintf("kernel of at least %v", j.Kernel)},
		{j.HostReads, "the CPU reads all results"},
		{j.Devices > 1, plural(j.Devices, "device")},
		{j.Source != Slice, "source " + j.Source},
	} {
		if more.has {
			text += ", " + more.text
		}
	}
	return text + "."
}

// text returns the result of a verification as a sentence.
func (v *Verification) text() string {
	how := fmt.Sprintf("Measured on %s, medians of %d or more", v.Device, v.Samples)
	if v.Emulated {
		how = fmt.Sprintf("Run on %s, whose times are predictions, too", v.Device)
	}
	return fmt.Sprintf("%s: %s", how, v.Summary())
}

// Summary says whether the advice holds.
func (v *Verification) Summary() string {
	if v.Ratio <= 1 {
		return "the advised one is the fastest."
	}
	return fmt.Sprintf("the advised one takes %.1f %% more than the fastest, %s, %s.", 100*(v.Ratio-1), v.Best.Kind, v.Best.Path)
}

// plural returns a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	end := "s"
	if strings.HasSuffix(noun, "s") {
		end = "es"
	}
	return fmt.Sprintf("%d %s%s", n, noun, end)
}

// capital returns a sentence that begins with a capital letter.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
