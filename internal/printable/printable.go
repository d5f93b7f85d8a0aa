// Package printable quotes text that Ferry did not write itself, before a person reads it: strings
// of files, names of kernels and devices, arguments, variables and paths. Such text could hold
// escape sequences, which a terminal obeys, or marks that turn the direction of letters.
//
// What unicode.IsGraphic accepts stays: letters, marks, numbers, punctuation, symbols and spaces of
// all scripts. The rest is written as in a Go string: \x1b, \u202e, \xff for a byte that is no
// UTF-8. Quoted text stays as it is when it is quoted again.
package printable

import (
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line quotes a text that stands within a line: a line feed and a tab become \n and \t.
func Line(s string) string { return quote(s, false) }

// Text quotes a text of several lines: line feeds and tabs stay.
func Text(s string) string { return quote(s, true) }

// mostValue is how many letters of a value are shown.
const mostValue = 80

// Value quotes a value in double quotes, such as that of a variable of the environment. Of a long
// one it shows the first 80 letters and the length.
func Value(s string) string {
	n := 0
	for i := range s {
		if n++; n > mostValue {
			return fmt.Sprintf("%s... (%d bytes)", Value(s[:i]), len(s))
		}
	}
	return fmt.Sprintf("%q", s)
}

// Name is Line for a name of any length: it cuts a long one as Value does.
func Name(s string) string {
	n := 0
	for i := range s {
		if n++; n > 2*mostValue {
			return fmt.Sprintf("%s... (%d bytes)", Line(s[:i]), len(s))
		}
	}
	return Line(s)
}

// mostPath is more bytes than a path can have that a system opens: Linux allows 4096, with a zero.
const mostPath = 4096

// Path is Line for the path of a file, whole: editors and scripts read FILE:LINE:COLUMN. Only what is
// longer than any path, such as a wrong value of a variable, is cut as Value does.
func Path(s string) string {
	if len(s) > mostPath {
		return Name(s)
	}
	return Line(s)
}

// pathError is an error of the system whose text has a printable path.
type pathError struct{ *fs.PathError }

func (e pathError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Op, Path(e.Path), e.Err)
}

// Unwrap returns the error of the system, with the path as it is.
func (e pathError) Unwrap() error { return e.PathError }

// Error makes the path in the text of an error of the system printable. [errors.As] still finds the
// [fs.PathError], which keeps its path.
func Error(err error) error {
	if e, ok := err.(*fs.PathError); ok && Path(e.Path) != e.Path {
		return pathError{e}
	}
	return err
}

// allowed reports whether a letter stays.
func allowed(r rune, lines bool) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r < 0x7f || lines && (r == '\n' || r == '\t')
	}
	return unicode.IsGraphic(r)
}

// first returns the index of the first letter of s that does not stay, or -1.
func first(s string, lines bool) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return i
			}
		}
		if !allowed(r, lines) {
			return i
		}
	}
	return -1
}

// Is reports whether Text changes nothing.
func Is(s string) bool { return first(s, true) < 0 }

func quote(s string, lines bool) string {
	at := first(s, lines)
	if at < 0 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:at])
	for s = s[at:]; s != ""; {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case allowed(r, lines):
			b.WriteString(s[:size])
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteString(map[rune]string{'\n': `\n`, '\t': `\t`, '\r': `\r`}[r])
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		s = s[size:]
	}
	return b.String()
}

// JSON returns a JSON document that has the same value and only letters that Text lets stay. Such
// letters can stand only within strings of a document, where \u has the same meaning.
func JSON(doc []byte) []byte {
	if Is(string(doc)) {
		return doc
	}
	var b []byte
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		switch {
		case r == utf8.RuneError && size == 1: // encoding/json reads it so
			b = append(b, `\ufffd`...)
		case allowed(r, true) || r == '\r' && size == 1:
			b = append(b, doc[:size]...)
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
		doc = doc[size:]
	}
	return b
}

// writer quotes what is written, one Write at a time.
type writer struct{ to io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Writer returns a writer that quotes as Text does. Each Write must have whole letters.
func Writer(w io.Writer) io.Writer { return writer{w} }

// Strings quotes, as Line does, all strings that can be reached from v: in fields that are
// exported, in slices, and as values of maps. Keys of maps stay. v is a pointer.
func Strings(v any) { walk(reflect.ValueOf(v)) }

func walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); v.CanSet() && first(s, false) >= 0 {
			v.SetString(Line(s))
		}
	case reflect.Pointer, reflect.Interface:
		walkElem(v)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k <= reflect.Complex128 && k != reflect.Invalid {
			return // numbers
		}
		for i := range v.Len() {
			walk(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, quoted(v.MapIndex(key)))
		}
	}
}

// walkElem walks what a pointer or an interface holds.
func walkElem(v reflect.Value) {
	switch {
	case v.IsNil():
	case v.Kind() == reflect.Pointer:
		walk(v.Elem())
	case v.CanSet():
		v.Set(quoted(v.Elem()))
	}
}

// quoted returns a copy of v with its strings quoted.
func quoted(v reflect.Value) reflect.Value {
	next := reflect.New(v.Type()).Elem()
	next.Set(v)
	walk(next)
	return next
}
