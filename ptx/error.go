package ptx

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxErrors ends a parse that goes wrong everywhere.
const maxErrors = 10

// Error is one problem of a PTX text and its place.
type Error struct {
	File string // as given to Parse; may be empty
	Pos  Pos
	Msg  string
	Line string // the source line, whole and without its line end
}

// Error is "file:line:column: message", the source line, and a caret under the
// column; without "file:" if there is no name.
func (e *Error) Error() string {
	head := fmt.Sprintf("%s: %s", e.Pos, e.Msg)
	if e.File != "" {
		head = e.File + ":" + head
	}
	if strings.TrimSpace(e.Line) == "" {
		return head
	}
	line, pad := excerpt(e.Line, e.Pos.Col-1)
	return head + "\n" + line + "\n" + pad + "^"
}

// ErrorList is several problems of one PTX text, in the order of their places.
type ErrorList []*Error

// Error joins them by newlines.
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

// excerpt is what to show of a line, and white space as wide as all before its byte at.
func excerpt(line string, at int) (shown, pad string) {
	at = min(max(at, 0), len(line))
	from, to := runeStart(line, at-excerptReach), runeStart(line, at+excerptReach)
	before, after := printable(line[from:at]), printable(line[at:to])
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

// runeStart is the start of the rune at i, within the line; i itself where the line is no UTF-8.
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

// printable replaces what would disturb a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// lineAt is the source line around a byte offset.
func lineAt(src string, offset int) string {
	offset = min(offset, len(src))
	start := strings.LastIndexByte(src[:offset], '\n') + 1
	line, _, _ := strings.Cut(src[start:], "\n")
	return strings.TrimSuffix(line, "\r")
}

// asError is nil, the only error, or the list in the order of places.
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
