package doctor

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// marks are words, so that they need no colour.
var marks = map[State]string{OK: "ok", Warning: "WARN", Failure: "FAIL", Skipped: "-"}

// The columns of the table: mark, name, found.
const (
	markWidth = 4
	minWidth  = 40 // of the text, for narrow terminals
)

// Text returns the report as text of at most width columns: a line for each check, then
// costs and mends of what is not ok, then the summary. Longer words stay whole.
func (r *Report) Text(width int) string {
	width = max(width, minWidth)
	var b strings.Builder
	b.WriteString(r.heading())
	names := 0
	for _, c := range r.Checks {
		names = max(names, len(c.Name))
	}
	for _, c := range r.Checks {
		line := fmt.Sprintf("%-*s  %-*s  ", markWidth, marks[c.State], names, c.Name)
		b.WriteString(line + cut(c.Found, width-len(line)) + "\n")
	}
	for _, s := range []State{Failure, Warning} {
		for i := range r.Checks {
			if c := &r.Checks[i]; c.State == s {
				c.write(&b, width)
			}
		}
	}
	b.WriteString("\n" + wrap(r.Summary, "", width))
	return b.String()
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
	return fmt.Sprintf("device: %s\nhost: %s\n\n", device, host)
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// write writes what a check that is not ok costs, and how to mend it.
func (c *Check) write(b *strings.Builder, width int) {
	fmt.Fprintf(b, "\n%s", wrap(fmt.Sprintf("%s %s: %s", marks[c.State], c.Name, c.Found), "  ", width))
	if c.Cost != "" {
		b.WriteString(wrap(fmt.Sprintf("  cost: %s [%s]", c.Cost, c.Source), "        ", width))
	}
	if c.Mend != "" {
		b.WriteString(wrap("  mend: "+c.Mend, "        ", width))
	}
}

// cut shortens a text to a number of columns. What is cut is in the details or in JSON.
func cut(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:max(columns-3, 0)]), " ") + "..."
}

// wrap breaks a text into lines; those after the first begin with indent.
func wrap(text, indent string, columns int) string {
	var b strings.Builder
	first := strings.Repeat(" ", len(text)-len(strings.TrimLeft(text, " ")))
	line := first
	for word := range strings.FieldsSeq(text) {
		if strings.TrimSpace(line) != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			b.WriteString(line + "\n")
			line = indent
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
