package ptx

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ferrygpu/ferry/internal/printable"
)

// maxErrors is the number of errors after which Parse gives up.
const maxErrors = 10

// maxMessage is how many bytes of a message are kept. Longer ones have a very long name.
const maxMessage = 1000

// Error is one problem of a PTX text, with its place.
type Error struct {
	File string // as passed to Parse; may be empty
	Pos  Pos
	Msg  string
	Line string // the whole source line without its line end
}

// Error returns "file:line:column: message", the source line, and a caret under the
// column. Without a name it omits "file:".
func (e *Error) Error() string {
	head := fmt.Sprintf("%s: %s", e.Pos, printable.Line(e.Msg))
	if e.File != "" {
		head = printable.Path(e.File) + ":" + head
	}
	if strings.TrimSpace(e.Line) == "" {
		return head
	}
	line, pad := excerpt(e.Line, e.Pos.Col-1)
	return head + "\n" + line + "\n" + pad + "^"
}

// ErrorList is a list of problems of one PTX text, ordered by place.
type ErrorList []*Error

// Error joins the errors with newlines.
func (l ErrorList) Error() string {
	all := make([]string, len(l))
	for i, e := range l {
		all[i] = e.Error()
	}
	return strings.Join(all, "\n")
}

// Unwrap lets [errors.As] find the first [*Error].
func (l ErrorList) Unwrap() []error {
	all := make([]error, len(l))
	for i, e := range l {
		all[i] = e
	}
	return all
}

// excerptReach is how many bytes of a long line are shown on either side of the column.
const excerptReach = 100

// excerpt returns the part of a line that is shown, and white space of the same width
// as the part before byte at.
func excerpt(line string, at int) (shown, pad string) {
	at = min(max(at, 0), len(line))
	from, to := runeStart(line, at-excerptReach), runeStart(line, at+excerptReach)
	before, after := printable.Text(line[from:at]), printable.Text(line[at:to])
	if from > 0 {
		before = "..." + before
	}
	if to < len(line) {
		after += "..."
	}
	pad = strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, before)
	return before + after, pad
}

// runeStart returns the start of the rune at i, limited to the line. If the line is
// not UTF-8, it returns i.
func runeStart(line string, i int) int {
	if i <= 0 {
		return 0
	}
	if i >= len(line) {
		return len(line)
	}
	for back := range utf8.UTFMax {
		if i >= back && utf8.RuneStart(line[i-back]) {
			return i - back
		}
	}
	return i
}

// lineAt returns the source line around a byte offset.
func lineAt(src string, offset int) string {
	offset = min(offset, len(src))
	start := strings.LastIndexByte(src[:offset], '\n') + 1
	line, _, _ := strings.Cut(src[start:], "\n")
	return strings.TrimSuffix(line, "\r")
}

// asError returns nil, the only error, or an ErrorList ordered by place.
func asError(list []*Error) error {
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	slices.SortStableFunc(list, func(a, b *Error) int {
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Col - b.Pos.Col
	})
	return ErrorList(list)
}
