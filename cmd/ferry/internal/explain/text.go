package explain

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
)

// Widths of the text in columns.
const (
	minWidth     = 60
	defaultWidth = 80
	indent       = "    "
)

// Text returns the report for a terminal of a width, 0 for the default.
func (r *Report) Text(width int) string {
	if width <= 0 {
		width = defaultWidth
	}
	width = max(width, minWidth)
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s\n", r.Subject, r.Device)
	if r.About != "" {
		b.WriteString("\n" + wrap(r.About, "", width))
	}
	path := ""
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Path != path || i == 0 {
			fmt.Fprintf(&b, "\n%s", wrap(s.Path, "  ", width))
			path = s.Path
		}
		s.write(&b, width)
	}
	if r.recording {
		r.writeFindings(&b, width)
	}
	for i, n := range r.Notes {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(wrap("note: "+n, "  ", width))
	}
	return b.String()
}

// write writes a line with the place, address, cost and source, and its text below it.
func (s *Step) write(b *strings.Builder, width int) {
	cost := "-"
	if s.CostNs != nil {
		cost = nsText(*s.CostNs)
	}
	fmt.Fprintf(b, "  %-16s  %-18s  %11s  %s\n", s.Place, cmp.Or(s.Address, "-"), cost, s.Source)
	b.WriteString(wrap(indent+"  "+s.Text, indent+"  ", width))
}

func (r *Report) writeFindings(b *strings.Builder, width int) {
	if len(r.Findings) == 0 {
		b.WriteString("\nNothing found: no transfer lost much time.\n")
		return
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(b, "\n%s", wrap(fmt.Sprintf("%d. %s: %s lost (%s), %s", i+1, f.Cause, tracereport.Duration(f.LostNs), f.Source, f.where()), "   ", width))
		b.WriteString(wrap("   "+f.Evidence, "   ", width))
		b.WriteString(wrap("   do: "+f.Do, "       ", width))
	}
}

// where returns the line of the program.
func (f *Finding) where() string {
	if f.Site == "" {
		return "at a line that is not known"
	}
	if f.Function == "" {
		return f.Site
	}
	return f.Site + " in " + f.Function[strings.LastIndexByte(f.Function, '/')+1:]
}

// nsText formats nanoseconds.
func nsText(ns float64) string {
	switch {
	case ns < 10e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 10e6:
		return fmt.Sprintf("%.1f us", ns/1e3)
	}
	return fmt.Sprintf("%.1f ms", ns/1e6)
}

// rate returns the bandwidth of a transfer: "52.8 GB/s".
func rate(bytes, ns float64) string {
	switch r := bytes / ns; {
	case r >= 100:
		return fmt.Sprintf("%.0f GB/s", r)
	default:
		return fmt.Sprintf("%.3g GB/s", r)
	}
}

// wrap breaks a text into lines. Those after the first begin with indent.
func wrap(text, indent string, columns int) string {
	var b strings.Builder
	line := text[:len(text)-len(strings.TrimLeft(text, " "))]
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return b.String() + line + "\n"
}
