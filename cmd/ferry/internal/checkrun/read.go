package checkrun

// Reads the file of findings that the processes of a program have written, a row of JSON in a
// line. What cannot be read is counted as given up.

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/checks"
)

// Limits of what is read. Processes write rows of at most [checks.MostRow] bytes.
const (
	mostRow    = 16 * checks.MostRow // of a line
	mostReport = 64 << 20            // of all lines but those that are too long
)

// What a report says of rows that it does not have.
const (
	notWritten = "a process could not write to the file of findings: standard error has what it found"
	cutRow     = "a row of the file of findings is cut, or is none: a process may have ended while it wrote it"
	longRow    = "a row of the file of findings is too long"
	tooLarge   = "the file of findings has more than 64 MiB of rows: only its beginning was read"
)

// reading is a file of findings that is read.
type reading struct {
	r       *Report
	allow   []string
	given   givenUp
	watched []string
	seen    map[string]bool
}

// read reads the findings of all processes. The same text counts once. A row that cannot be
// read costs that row alone, and counts as given up.
func (r *Report) read(path string, allow []string) error {
	in := &reading{r: r, allow: allow, given: givenUp{}, seen: map[string]bool{}}
	in.lost(path)
	err := in.file(path)
	r.Watched = nothing
	if in.watched != nil {
		r.Watched = strings.Join(in.watched, "\n")
	}
	r.GaveUp = r.without(in.given.list(), allow)
	return err
}

// lost counts the rows that processes could not write.
func (in *reading) lost(path string) {
	if lost, err := os.Stat(path + checks.LostSuffix); err == nil {
		in.miss(notWritten, max(1, int(lost.Size())))
	}
	if _, err := os.Stat(path + checks.WholeSuffix); err != nil {
		in.miss(notWritten, 1)
	}
}

// miss counts rows that are not in the report.
func (in *reading) miss(what string, n int) {
	in.given[givenKey{check: "report", what: what}] = checks.GaveUp{Check: "report", What: what,
		Count: in.given[givenKey{check: "report", what: what}].Count + n}
}

// file reads the rows of a file.
func (in *reading) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the findings: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, mostRow)
	for size := 0; ; {
		line, err := lines.ReadSlice('\n')
		switch {
		case size+len(line) > mostReport && len(line) < mostRow:
			in.miss(tooLarge, 1)
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			in.miss(longRow, 1)
			err = skipLine(lines)
		case len(bytes.TrimSpace(line)) > 0:
			size += len(line)
			in.line(line)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read the findings: %w", err)
		}
	}
}

// skipLine reads the rest of a line that is longer than the buffer.
func skipLine(lines *bufio.Reader) error {
	for {
		if _, err := lines.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// rowStart begins each row. A string inside a row cannot contain it: its quotes would have
// backslashes.
var rowStart = []byte(`{"process":`)

// line reads a line. A row that is cut has no end of its line, so another row may follow it.
func (in *reading) line(line []byte) {
	var row checks.Row
	if json.Unmarshal(line, &row) == nil && says(&row) {
		in.row(row)
		return
	}
	in.miss(cutRow, 1)
	row = checks.Row{}
	if at := bytes.LastIndex(line, rowStart); at > 0 && json.Unmarshal(line[at:], &row) == nil && says(&row) {
		in.row(row)
	}
}

// says reports whether a row has anything.
func says(row *checks.Row) bool { return row.Text != "" || row.Watched != "" || row.GaveUp != nil }

// row adds a row to the report.
func (in *reading) row(row checks.Row) {
	switch {
	case row.GaveUp != nil:
		in.given.add(row)
	case row.Watched != "":
		if !slices.Contains(in.watched, row.Watched) {
			in.watched = append(in.watched, row.Watched)
		}
	case in.seen[row.Text]:
	case allowed(row.Text, in.allow):
		in.seen[row.Text] = true
		in.r.Allowed++
	case row.Note:
		in.seen[row.Text] = true
		in.r.Notes = append(in.r.Notes, row)
	default:
		in.seen[row.Text] = true
		in.r.Findings = append(in.r.Findings, row)
	}
}

// without leaves out what is allowed, and counts it.
func (r *Report) without(list []checks.GaveUp, allow []string) []checks.GaveUp {
	return slices.DeleteFunc(list, func(g checks.GaveUp) bool {
		out := allowed(g.String(), allow)
		if out {
			r.Allowed++
		}
		return out
	})
}

// givenUp is what the checks of all processes gave up: the last count of each driver.
type givenUp map[givenKey]checks.GaveUp

type givenKey struct {
	process     int
	source      uint64
	check, what string
}

func (g givenUp) add(row checks.Row) {
	k := givenKey{row.Process, row.Source, row.GaveUp.Check, row.GaveUp.What}
	if row.GaveUp.Count > g[k].Count {
		g[k] = *row.GaveUp
	}
}

// list returns the sums of all drivers, in order.
func (g givenUp) list() []checks.GaveUp { return sumGaveUp(maps.Values(g)) }

// sumGaveUp returns the sums of equal rows, in order.
func sumGaveUp(rows iter.Seq[checks.GaveUp]) []checks.GaveUp {
	sums := map[[2]string]int{}
	for x := range rows {
		sums[[2]string{x.Check, x.What}] += x.Count
	}
	list := []checks.GaveUp{}
	for k, n := range sums {
		list = append(list, checks.GaveUp{Check: k[0], What: k[1], Count: n})
	}
	slices.SortFunc(list, func(x, y checks.GaveUp) int {
		return cmp.Or(cmp.Compare(x.Check, y.Check), cmp.Compare(x.What, y.What))
	})
	return list
}

// allowGap stands in an allowed text for anything: what is before it and behind it must occur.
const allowGap = " ... "

// allowed reports whether a text has one of the allowed texts.
func allowed(text string, allow []string) bool {
	return slices.ContainsFunc(allow, func(a string) bool { return hasParts(text, strings.Split(a, allowGap)) })
}

// hasParts reports whether all parts occur in a text, one behind the other.
func hasParts(text string, parts []string) bool {
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}
