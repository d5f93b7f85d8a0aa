package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Text returns the report for a terminal, in lines of at most 80 columns.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Device)
	paragraph(&b, "", r.job.text())
	paragraph(&b, "", fmt.Sprintf("Times are predicted by the software GPU with profile %s.", r.Profile))
	b.WriteString("\n")
	r.table(&b)
	b.WriteString("\n")
	for i := range r.Alternatives {
		a := &r.Alternatives[i]
		paragraph(&b, "    ", fmt.Sprintf("%2d %s. [%s]", i+1, a.Why, a.terms()))
	}
	r.writeFlips(&b)
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, note := range r.Notes {
		paragraph(&b, "  ", capital(note)+".")
	}
	fmt.Fprintf(&b, "\n%s", r.Go)
	if r.Verified != nil {
		b.WriteString("\n")
		paragraph(&b, "", r.Verified.text())
	}
	return b.String()
}

// table writes a line for each alternative, the best first.
func (r *Report) table(b *strings.Builder) {
	measured := ""
	if r.Verified != nil {
		measured = fmt.Sprintf(" %9s", "measured")
	}
	fmt.Fprintf(b, "    %-37s %9s %7s  %9s%s\n", "memory and path", "chunk", "streams", "predicted", measured)
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
		fmt.Fprintf(b, "%2d  %-37s %9s %7s  %9s", i+1, a.Kind+", "+a.Path, chunk, streams, time)
		if a.Measured != nil {
			fmt.Fprintf(b, " %9s", duration(*a.Measured))
		}
		b.WriteString("\n")
	}
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

// writeFlips writes where the choice changes.
func (r *Report) writeFlips(b *strings.Builder) {
	kind := family(r.Best.Kind)
	if len(r.Flips) == 0 {
		fmt.Fprintf(b, "\n%s stays best for other reuse, sizes and accesses.\n", capital(kind))
		return
	}
	fmt.Fprintf(b, "\n%s is not best for:\n", capital(kind))
	for _, f := range r.Flips {
		paragraph(b, "    ", "  "+f.text(kind))
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

// columns is the width of a text.
const columns = 80

// paragraph writes a text in lines of at most 80 columns. Lines after the first begin with
// an indent.
func paragraph(b *strings.Builder, indent, text string) {
	start := len(text) - len(strings.TrimLeft(text, " "))
	line := text[:start]
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) > columns:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	b.WriteString(line + "\n")
}
