package layout

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Page is a text that is not arranged yet. The zero value is an empty page.
type Page struct{ blocks []func(columns int) string }

// Line adds lines of text. A line that is too long is folded between words, and goes on below
// its beginning.
func (p *Page) Line(text string) {
	p.Draw(func(columns int) string { return Fold(text, columns) + "\n" })
}

// Linef adds formatted lines of text.
func (p *Page) Linef(format string, args ...any) { p.Line(fmt.Sprintf(format, args...)) }

// Hang adds a line of text that goes on behind an indent when it is folded.
func (p *Page) Hang(indent int, text string) {
	p.Draw(func(columns int) string { return foldLine(text, indent, columns) + "\n" })
}

// Exact adds lines that are never folded, such as those of a program.
func (p *Page) Exact(text string) { p.Draw(func(int) string { return text }) }

// Table adds a table.
func (p *Page) Table(t *Table) { p.Draw(t.text) }

// Draw adds what a function returns for a number of columns, 0 for as many as it needs: whole
// lines.
func (p *Page) Draw(text func(columns int) string) { p.blocks = append(p.blocks, text) }

// Add adds all of another page.
func (p *Page) Add(other *Page) { p.blocks = append(p.blocks, other.blocks...) }

// leastColumns is what a page takes on a terminal with fewer columns.
const leastColumns = 30

// Text returns the page in a number of columns, 0 for as many as it needs.
func (p *Page) Text(columns int) string {
	if columns > 0 {
		columns = max(columns, leastColumns)
	}
	var b strings.Builder
	for _, text := range p.blocks {
		b.WriteString(text(columns))
	}
	return b.String()
}

// Fold folds each line of a text that has more than a number of columns, between words. It
// returns the text as it is for 0 columns. A line of a source with a mark below, as compilers write
// it, stays whole.
func Fold(text string, columns int) string {
	if columns <= 0 || len(text) <= columns {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i+1 < len(lines) && isMark(lines[i+1]) {
			continue
		}
		lines[i] = foldLine(line, len(line)-len(strings.TrimLeft(line, " ")), columns)
	}
	return strings.Join(lines, "\n")
}

// isMark reports whether a line marks a place of the line above: "    ^~~~".
func isMark(line string) bool {
	mark := strings.Trim(line, " \t")
	return mark != "" && strings.Trim(mark, "^~") == ""
}

// foldLine folds a line. The lines after the first begin with an indent.
func foldLine(line string, indent, columns int) string {
	if columns <= 0 || width(line) <= columns {
		return line
	}
	var b strings.Builder
	start := line[:len(line)-len(strings.TrimLeft(line, " "))]
	b.WriteString(start)
	at, empty := len(start), true
	for word := range strings.FieldsSeq(line) {
		switch {
		case empty:
		case at+1+width(word) > columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at, empty = at+width(word), false
	}
	return b.String()
}

// width returns the columns of a text: its letters, without the escape sequences of colours.
func width(text string) int {
	n := utf8.RuneCountInString(text)
	for {
		start := strings.IndexByte(text, '\x1b')
		if start < 0 {
			return n
		}
		end := start + strings.IndexByte(text[start:], 'm') + 1
		if end <= start {
			return n
		}
		n -= utf8.RuneCountInString(text[start:end])
		text = text[end:]
	}
}
