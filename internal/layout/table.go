package layout

import "strings"

// Column describes a column of a table.
type Column struct {
	Name  string // above the rows; it may have several lines
	Right bool   // cells end at the right, as numbers do
	Width int    // of the column at least
	Words bool   // cells are texts that may be folded; only of the last column
}

// Table is a table. The cells of its first column are the keys of its rows.
type Table struct {
	Columns []Column
	Indent  int  // of all lines
	Narrow  bool // one space stands between cells, else two

	rows [][]string
}

// below is the indent of what stands below a key, and the space between two cells.
const below = 2

// gap returns how many columns are empty between two cells.
func (t *Table) gap() int {
	if t.Narrow {
		return 1
	}
	return below
}

// Least columns of a table that gives way.
const (
	leastKey   = 12 // a narrower column of keys is left out: each has a line of its own
	leastWords = 24 // of a text
)

// before returns how many columns a cell takes with the gap before it. A column without cells
// takes none.
func (t *Table) before(width int) int {
	if width == 0 {
		return 0
	}
	return t.gap() + width
}

// Row adds a row: a key and the other cells. Cells at its end may be missing.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Empty reports whether the table has no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// text returns the lines of the table. A table without rows has none.
func (t *Table) text(columns int) string {
	if t.Empty() {
		return ""
	}
	widths := t.widths()
	key, rest := widths[0], t.Indent
	for _, w := range widths[1:] {
		rest += t.before(w)
	}
	if over := key + rest - columns; columns > 0 && over > 0 {
		last := len(widths) - 1
		wanted := widths[last]
		if t.Columns[last].Words {
			widths[last] -= min(over, max(wanted-max(leastWords, t.longestWord()), 0))
			rest -= wanted - widths[last]
		}
		if key = t.longestKey(columns - rest); key == 0 {
			rest += below - t.gap()
		}
		if key+rest > columns {
			return t.records(columns)
		}
		widths[last] = min(wanted, widths[last]+columns-rest-key)
	}
	widths[0] = key
	var b strings.Builder
	for _, line := range t.head() {
		t.write(&b, widths, line, columns)
	}
	for _, row := range t.rows {
		t.write(&b, widths, row, columns)
	}
	return b.String()
}

// widths returns the width of each column.
func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = c.Width
	}
	for _, row := range append(t.head(), t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], width(cell))
		}
	}
	return widths
}

// longestKey returns the width of the widest key that fits into a room, 0 if that is narrow.
func (t *Table) longestKey(room int) (most int) {
	if room < leastKey && room < t.widths()[0] {
		return 0
	}
	most = min(t.Columns[0].Width, room)
	for _, row := range append(t.head(), t.rows...) {
		if w := width(row[0]); w <= room {
			most = max(most, w)
		}
	}
	return most
}

// longestWord returns the width of the longest word of the last column.
func (t *Table) longestWord() (most int) {
	for _, row := range t.rows {
		if len(row) == len(t.Columns) {
			for word := range strings.FieldsSeq(row[len(row)-1]) {
				most = max(most, width(word))
			}
		}
	}
	return most
}

// head returns the lines with the names of the columns, none if no column has a name.
func (t *Table) head() (lines [][]string) {
	for i, c := range t.Columns {
		if c.Name == "" {
			continue
		}
		words := strings.Split(c.Name, "\n")
		for len(lines) < len(words) {
			lines = append([][]string{make([]string, len(t.Columns))}, lines...)
		}
		for n, word := range words {
			lines[len(lines)-len(words)+n][i] = word
		}
	}
	return lines
}

// write writes a row. A key that is wider than its column has a line of its own.
func (t *Table) write(b *strings.Builder, widths []int, row []string, columns int) {
	line := strings.Repeat(" ", t.Indent)
	at := t.Indent + widths[0] // where the cells before have their end
	if widths[0] == 0 {
		at += below - t.gap()
	}
	if key := row[0]; width(key) > widths[0] {
		b.WriteString(foldLine(line+key, t.Indent+below, columns) + "\n")
		line += strings.Repeat(" ", at-t.Indent)
	} else {
		line += padded(key, at-t.Indent, t.Columns[0].Right)
	}
	for i, cell := range row[1:] {
		w := widths[i+1]
		if w == 0 {
			continue
		}
		at += t.gap()
		if t.Columns[i+1].Words && width(cell) > w {
			cell = strings.TrimLeft(foldLine(strings.Repeat(" ", at)+cell, at, at+w), " ")
		} else {
			cell = padded(cell, w, t.Columns[i+1].Right)
		}
		line += strings.Repeat(" ", t.gap()) + cell
		at += w
	}
	if line = strings.TrimRight(line, " "); line != "" {
		b.WriteString(line + "\n")
	}
}

// records returns the name of the keys, then each row as its key and a line for each other cell
// that is not empty.
func (t *Table) records(columns int) string {
	var b strings.Builder
	start := strings.Repeat(" ", t.Indent)
	for _, line := range t.head() {
		if line[0] != "" {
			b.WriteString(start + line[0] + "\n")
		}
	}
	for _, row := range t.rows {
		b.WriteString(foldLine(start+row[0], t.Indent+below, columns) + "\n")
		values := &Table{Columns: []Column{{}, {Words: true}}, Indent: t.Indent + below}
		for i, cell := range row[1:] {
			name := strings.ReplaceAll(t.Columns[i+1].Name, "-\n", "-")
			if name = strings.ReplaceAll(name, "\n", " "); cell != "" && name == "" {
				name, cell = cell, ""
			}
			if name != "" && (cell != "" || t.Columns[i+1].Name == "") {
				values.Row(name, cell)
			}
		}
		b.WriteString(values.text(columns))
	}
	return b.String()
}

// padded returns a cell with spaces on one side.
func padded(cell string, to int, right bool) string {
	spaces := strings.Repeat(" ", max(to-width(cell), 0))
	if right {
		return spaces + cell
	}
	return cell + spaces
}
