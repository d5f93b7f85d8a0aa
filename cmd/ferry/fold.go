package main

import (
	"slices"
	"strings"
)

// fold makes a text of tables and sentences fit into columns. A table that is too wide is
// written as several, each with the first column. A sentence that is too long is wrapped.
// It returns the text as it is if columns is 0 or all of it fits.
func fold(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	blocks := strings.Split(text, "\n\n")
	for i, block := range blocks {
		blocks[i] = foldBlock(block, columns)
	}
	return strings.Join(blocks, "\n\n")
}

// foldBlock folds the lines between two empty lines.
func foldBlock(block string, columns int) string {
	lines := strings.Split(block, "\n")
	var table []row
	for _, line := range lines {
		table = append(table, cells(line))
	}
	if widest(table) <= columns {
		return block
	}
	if starts := columnStarts(table); len(starts) > 2 {
		return strings.Join(foldTable(table, starts, columns), "\n")
	}
	for i, line := range lines {
		if len(table[i]) > columns {
			lines[i] = wrap(line, columns)
		}
	}
	return strings.Join(lines, "\n")
}

// row is a line of text: a string for each column, which is a letter with the escape
// sequences before it.
type row []string

// cells splits a line.
func cells(line string) (out row) {
	escape, held := false, ""
	for _, r := range line {
		held += string(r)
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm' && r != 'K'
		default:
			out, held = append(out, held), ""
		}
	}
	if held != "" && len(out) > 0 {
		out[len(out)-1] += held
	}
	return out
}

// blank reports whether a row has no letter in a column.
func (r row) blank(column int) bool { return column >= len(r) || r[column] == " " }

// widest returns the length of the longest row.
func widest(table []row) (n int) {
	for _, r := range table {
		n = max(n, len(r))
	}
	return n
}

// columnStarts returns where the columns of a table begin: after each place that is blank
// in all rows. It returns nil for what is no table: fewer than three rows, or rows of which
// most are much shorter than the widest, as those of a list of sentences.
func columnStarts(table []row) (starts []int) {
	long := 0
	for _, r := range table {
		if 3*len(r) > 2*widest(table) {
			long++
		}
	}
	if len(table) < 3 || 2*long < len(table) {
		return nil
	}
	starts = []int{0}
	seen := false // a letter of the current column
	for i := range widest(table) {
		blank := !slices.ContainsFunc(table, func(r row) bool { return !r.blank(i) })
		if blank && seen {
			starts, seen = append(starts, i), false
		}
		seen = seen || !blank
	}
	return starts
}

// foldTable writes the columns of a table in groups that fit. Each group begins with the
// first column.
func foldTable(table []row, starts []int, columns int) (lines []string) {
	ends := append(slices.Clone(starts[1:]), widest(table))
	key := ends[0]
	for i := 1; i < len(starts); {
		first := i
		for i++; i < len(starts) && key+ends[i]-starts[first] <= columns; i++ {
		}
		if first > 1 {
			lines = append(lines, "")
		}
		for _, r := range table {
			lines = append(lines, strings.TrimRight(r.part(0, key)+r.part(starts[first], ends[i-1]), " "))
		}
	}
	return lines
}

// part returns the columns from start to end, filled with spaces.
func (r row) part(start, end int) string {
	var b strings.Builder
	for i := start; i < end; i++ {
		if i < len(r) {
			b.WriteString(r[i])
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// wrap breaks a line between words. The lines after the first are indented like it.
func wrap(line string, columns int) string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var out []string
	current := indent
	for word := range strings.FieldsSeq(line) {
		switch {
		case current == indent:
			current += word
		case len(current)+1+len(word) > columns:
			out, current = append(out, current), indent+word
		default:
			current += " " + word
		}
	}
	return strings.Join(append(out, current), "\n")
}
