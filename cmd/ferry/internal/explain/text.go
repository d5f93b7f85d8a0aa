package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/internal/layout"
)

// Page returns the report: for a topic the steps of the ways, for a recording its findings.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s on %s", r.Subject, r.Device)
	if r.About != "" {
		p.Line("\n" + r.About)
	}
	path := ""
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Path != path || i == 0 {
			p.Line("")
			p.Hang(2, s.Path)
			path = s.Path
		}
		s.addTo(p)
	}
	if r.recording {
		r.addFindings(p)
	}
	for i, n := range r.Notes {
		if i == 0 {
			p.Line("")
		}
		p.Hang(2, "note: "+n)
	}
	return p
}

// addTo adds a line with the place, address, cost and source, and the text below it.
func (s *Step) addTo(p *layout.Page) {
	cost := "-"
	if s.CostNs != nil {
		cost = nsText(*s.CostNs)
	}
	t := &layout.Table{Columns: []layout.Column{{Width: 16}, {Width: 16}, {Width: 9, Right: true}, {}}, Indent: 2}
	t.Row(s.Place, cmp.Or(s.Address, "-"), cost, string(s.Source))
	p.Table(t)
	p.Line("      " + s.Text)
}

// addFindings adds why transfers were slow.
func (r *Report) addFindings(p *layout.Page) {
	if len(r.Findings) == 0 {
		p.Line("\nNothing found: no transfer lost much time.")
		return
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		p.Line("")
		p.Hang(3, fmt.Sprintf("%d. %s: %s lost (%s), %s", i+1, f.Cause, tracereport.Duration(f.LostNs), f.Source, f.where()))
		p.Line("   " + f.Evidence)
		p.Hang(7, "   do: "+f.Do)
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
