package doctor

import (
	"fmt"

	"github.com/ferrygpu/ferry/internal/layout"
)

// marks are words, so that they need no colour.
var marks = map[State]string{OK: "ok", Warning: "WARN", Failure: "FAIL", Skipped: "-"}

// Page returns the report: a line for each check, then costs and mends of what is not ok, then
// the summary.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Line(r.heading())
	t := &layout.Table{Columns: []layout.Column{{}, {Words: true}}}
	for _, c := range r.Checks {
		t.Row(fmt.Sprintf("%-4s  %s", marks[c.State], c.Name), c.Found)
	}
	p.Table(t)
	for _, s := range []State{Failure, Warning} {
		for i := range r.Checks {
			if c := &r.Checks[i]; c.State == s {
				c.addTo(p)
			}
		}
	}
	p.Line("\n" + r.Summary)
	return p
}

func (r *Report) heading() string {
	device := "no GPU"
	if d := r.Device; d != nil {
		device = fmt.Sprintf("%s (%s), driver %s", d.Name, d.Opened, orUnknown(d.Driver))
	}
	h := &r.Host
	host := h.System
	if h.Kernel != "" {
		host = "Linux " + h.Kernel
	}
	if h.Processors > 0 {
		host += fmt.Sprintf(", %d processors", h.Processors)
	}
	if h.Memory > 0 {
		host += ", " + sizeText(h.Memory)
	}
	return fmt.Sprintf("device: %s\nhost: %s\n", device, host)
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// addTo adds what a check that is not ok costs, and how to mend it.
func (c *Check) addTo(p *layout.Page) {
	p.Line("")
	p.Hang(2, fmt.Sprintf("%s %s: %s", marks[c.State], c.Name, c.Found))
	if c.Cost != "" {
		p.Hang(8, fmt.Sprintf("  cost: %s [%s]", c.Cost, c.Source))
	}
	if c.Mend != "" {
		p.Hang(8, "  mend: "+c.Mend)
	}
}
