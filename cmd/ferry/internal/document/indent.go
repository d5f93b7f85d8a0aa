package document

import (
	"bytes"
	"encoding/json"
)

// width is the number of columns of a line that holds a whole list or object.
const width = 110

// Indent indents a JSON document by two spaces a level. An inner object or list that has
// neither inside stays on one line if it fits there. A longer list of plain values fills
// its lines. It changes only the space between tokens.
func Indent(text []byte) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, err
	}
	w := &indenter{in: compact.Bytes()}
	w.value(0)
	w.out = append(w.out, '\n')
	return w.out, nil
}

// indenter copies a compact document from in to out.
type indenter struct {
	in   []byte
	at   int // the next byte of in
	out  []byte
	line int // where the last line of out begins
}

// value copies a value at a depth.
func (w *indenter) value(depth int) {
	first := w.in[w.at]
	if first != '{' && first != '[' {
		w.scalar()
		return
	}
	size, plain := w.extent()
	column := len(w.out) - w.line
	switch {
	case size == 2 || plain && depth > 0 && column+size+size/8 <= width:
		w.members(func(i int) {
			if i > 0 {
				w.out = append(w.out, ' ')
			}
		}, depth)
	case plain && first == '[':
		w.members(func(i int) {
			if next := w.scalarSize(); i == 0 || len(w.out)-w.line+next+2 > width {
				w.newline(depth + 1)
			} else {
				w.out = append(w.out, ' ')
			}
		}, depth)
	default:
		w.members(func(int) { w.newline(depth + 1) }, depth)
	}
}

// members copies an object or a list. It calls before before each member. If that has
// begun a line, the end stands on a line too.
func (w *indenter) members(before func(i int), depth int) {
	began := w.line
	w.byte()
	for i := 0; w.in[w.at] != '}' && w.in[w.at] != ']'; i++ {
		before(i)
		w.value(depth + 1)
		if w.in[w.at] == ':' {
			w.byte()
			w.out = append(w.out, ' ')
			w.value(depth + 1)
		}
		if w.in[w.at] == ',' {
			w.byte()
		}
	}
	if w.line != began {
		w.newline(depth)
	}
	w.byte()
}

// newline begins a line at a depth.
func (w *indenter) newline(depth int) {
	w.out = append(w.out, '\n')
	w.line = len(w.out)
	w.out = append(w.out, bytes.Repeat([]byte("  "), depth)...)
}

// byte copies a byte.
func (w *indenter) byte() {
	w.out = append(w.out, w.in[w.at])
	w.at++
}

// scalar copies a string, a number, true, false or null.
func (w *indenter) scalar() {
	n := w.scalarSize()
	w.out = append(w.out, w.in[w.at:w.at+n]...)
	w.at += n
}

// scalarSize returns the bytes of the value at w.at, which is no object and no list.
func (w *indenter) scalarSize() int {
	rest := w.in[w.at:]
	if rest[0] == '"' {
		return stringSize(rest)
	}
	if n := bytes.IndexAny(rest, ",:]}"); n >= 0 {
		return n
	}
	return len(rest)
}

// extent returns the bytes of the object or list at w.at, and whether it has neither
// inside.
func (w *indenter) extent() (size int, plain bool) {
	plain = true
	depth := 0
	for i := w.at; ; i++ {
		switch w.in[i] {
		case '"':
			i += stringSize(w.in[i:]) - 1
		case '{', '[':
			depth++
			plain = plain && depth == 1
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1 - w.at, plain
			}
		}
	}
}

// stringSize returns the bytes of the string with which text begins.
func stringSize(text []byte) int {
	i := 1
	for text[i] != '"' {
		if text[i] == '\\' {
			i++
		}
		i++
	}
	return i + 1
}
