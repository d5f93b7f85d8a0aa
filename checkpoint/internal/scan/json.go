package scan

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ferrygpu/ferry/internal/printable"
)

// MaxDepth is how many objects and lists may stand in each other.
const MaxDepth = 64

// JSON reads a document value by value. It refuses what encoding/json lets pass: two fields of one
// name in an object, and strings that are not UTF-8. It is not safe for concurrent use.
type JSON struct {
	*Reader
	depth int
	short [64]string      // strings that were here: names of fields are the same in each object
	slab  strings.Builder // what other strings are parts of
}

// blanks takes white space, and returns the byte after it, which it does not take.
func (j *JSON) blanks() (byte, error) {
	if j.next < len(j.window) && j.window[j.next] > ' ' {
		return j.window[j.next], nil
	}
	for {
		b, err := j.Peek()
		if err != nil || b != ' ' && b != '\n' && b != '\t' && b != '\r' {
			return b, err
		}
		j.next++
	}
}

// expect takes white space, and then a byte that must be there.
func (j *JSON) expect(want byte, what string) error {
	b, err := j.blanks()
	if err != nil {
		return err
	}
	if b != want {
		return j.Errorf("%s here, want %s", letter(b), what)
	}
	j.next++
	return nil
}

// letter describes a byte for an error.
func letter(b byte) string {
	if b < utf8.RuneSelf {
		return strconv.QuoteRune(rune(b))
	}
	return fmt.Sprintf("byte %#x", b)
}

// End takes white space up to the end of the range. Anything else is an error.
func (j *JSON) End() error {
	for j.Left() > 0 {
		b, err := j.blanks()
		switch {
		case err != nil && j.Left() <= 0:
			return nil
		case err != nil:
			return err
		case j.Left() > 0:
			return j.Errorf("%s after the end of the document", letter(b))
		}
	}
	return nil
}

// Object takes an object. For each field it calls f, which takes the value. at is the offset of
// the name. Two fields of one name are an error.
func (j *JSON) Object(f func(name string, at int64) error) error {
	var seen names
	return j.list('{', '}', "an object", func() error {
		if _, err := j.blanks(); err != nil {
			return err
		}
		at := j.Offset()
		name, err := j.String()
		if err != nil {
			return err
		}
		if !seen.add(name) {
			return &Error{Offset: at, Twice: name, Text: "the name " + printable.Value(name) + " stands here for the second time"}
		}
		if err := j.expect(':', "':' after a name"); err != nil {
			return err
		}
		return f(name, at)
	})
}

// Array takes a list. For each element it calls f, which takes the value.
func (j *JSON) Array(f func() error) error { return j.list('[', ']', "a list", f) }

// list takes what stands between two brackets. For each element it calls f.
func (j *JSON) list(open, end byte, what string, f func() error) error {
	if err := j.expect(open, what); err != nil {
		return err
	}
	if j.depth++; j.depth > MaxDepth {
		return j.Errorf("more than %d objects and lists stand in each other", MaxDepth)
	}
	defer func() { j.depth-- }()
	for first := true; ; first = false {
		b, err := j.blanks()
		if err != nil {
			return err
		}
		if b == end && first {
			j.next++
			return nil
		}
		if err := f(); err != nil {
			return err
		}
		b, err = j.blanks()
		switch {
		case err != nil:
			return err
		case b != end && b != ',':
			return j.Errorf("%s here, want ',' or %s", letter(b), letter(end))
		}
		j.next++
		if b == end {
			return nil
		}
	}
}

// names finds names that occur twice. It has a hash table only for many.
type names struct {
	few   [8]string
	n     int      // of few
	all   []string // nil while few is enough
	table []uint64 // for each name the upper half of its hash, and its index in all + 1; 0 is free
	seed  maphash.Seed
}

// add adds a name. It returns false if the name is there.
func (n *names) add(name string) bool {
	if n.all == nil {
		if slices.Contains(n.few[:n.n], name) {
			return false
		}
		if n.n < len(n.few) {
			n.few[n.n] = name
			n.n++
			return true
		}
		n.all = append(n.all, n.few[:]...)
	}
	if 2*len(n.all) >= len(n.table) {
		n.grow()
	}
	hash := maphash.String(n.seed, name)
	at, used := n.find(hash, name)
	if used {
		return false
	}
	n.all = append(n.all, name)
	n.table[at] = hash>>32<<32 | uint64(len(n.all))
	return true
}

// find returns where a name is in the table, or where it goes.
func (n *names) find(hash uint64, name string) (at int, used bool) {
	mask := len(n.table) - 1
	for at = int(hash>>32) & mask; n.table[at] != 0; at = (at + 1) & mask {
		if x := n.table[at]; x>>32 == hash>>32 && n.all[uint32(x)-1] == name {
			return at, true
		}
	}
	return at, false
}

// grow makes a table that is four times as large as the number of names.
func (n *names) grow() {
	old := n.table
	if old == nil {
		n.seed = maphash.MakeSeed()
	}
	n.all = slices.Grow(n.all, len(n.all))
	n.table = make([]uint64, max(64, 2*len(old)))
	mask := len(n.table) - 1
	put := func(x uint64) {
		at := int(x>>32) & mask
		for n.table[at] != 0 {
			at = (at + 1) & mask
		}
		n.table[at] = x
	}
	for _, x := range old {
		if x != 0 {
			put(x)
		}
	}
	if old == nil {
		for i, name := range n.all {
			put(maphash.String(n.seed, name)>>32<<32 | uint64(i+1))
		}
	}
}

// Uint takes a whole number from 0 to the greatest int64.
func (j *JSON) Uint() (int64, error) {
	b, err := j.blanks()
	if err != nil {
		return 0, err
	}
	at := j.Offset()
	switch {
	case b == '-':
		return 0, ErrorAt(at, "a negative number, want 0 or more")
	case b < '0' || b > '9':
		return 0, ErrorAt(at, "%s here, want a whole number", letter(b))
	}
	var n uint64
	for digits := 0; b >= '0' && b <= '9'; digits++ {
		if digits > 0 && n == 0 {
			return 0, ErrorAt(at, "a number with a zero before it")
		}
		d := uint64(b - '0')
		if n > (math.MaxInt64-d)/10 {
			return 0, ErrorAt(at, "a number above %d", int64(math.MaxInt64))
		}
		n = n*10 + d
		if j.next++; j.next < len(j.window) {
			b = j.window[j.next]
		} else if b, err = j.Peek(); err != nil {
			return 0, err
		}
	}
	if b == '.' || b == 'e' || b == 'E' {
		return 0, ErrorAt(at, "a number with a fraction or an exponent, want a whole number")
	}
	return int64(n), nil
}

// String takes a string.
func (j *JSON) String() (string, error) {
	if err := j.expect('"', "a string"); err != nil {
		return "", err
	}
	at := j.Offset()
	var long []byte // what is not in the window any more, or had escapes
	for {
		if _, err := j.Peek(); err != nil {
			return "", err
		}
		p := j.window[j.next:]
		n := plain(p)
		j.next += n
		if n < len(p) && p[n] == '"' {
			j.next++
			return j.utf8(at, long, p[:n])
		}
		long = append(long, p[:n]...)
		if n == len(p) {
			continue
		}
		if p[n] != '\\' {
			return "", j.Errorf("a control character (%s) in a string", letter(p[n]))
		}
		var err error
		if long, err = j.escape(long); err != nil {
			return "", err
		}
	}
}

// plain returns how many bytes stand before a quote, a backslash or a control character.
func plain(p []byte) int {
	for i, b := range p {
		if b == '"' || b == '\\' || b < ' ' {
			return i
		}
	}
	return len(p)
}

// utf8 returns the string that a and b are. at is where it begins.
func (j *JSON) utf8(at int64, a, b []byte) (string, error) {
	if len(a) > 0 {
		b = append(a, b...)
	}
	if len(b) == 0 {
		return "", nil
	}
	short := &j.short[(int(b[0])+7*int(b[len(b)-1])+len(b))%len(j.short)]
	if *short == string(b) {
		return *short, nil
	}
	if utf8.Valid(b) {
		s := j.keep(b)
		if *short == "" && len(s) <= longestShort {
			*short = s
		}
		return s, nil
	}
	return "", ErrorAt(at, "the string %s is not UTF-8", printable.Value(string(b)))
}

// longestShort is how many bytes a string has at most that JSON.short keeps.
const longestShort = 16

// keep returns bytes as a string. Many strings are parts of one piece of memory, which is at most twice
// as large as all strings before it.
func (j *JSON) keep(b []byte) string {
	const first, largest = 256, 64 << 10
	if len(b) > first {
		return string(b)
	}
	if j.slab.Cap()-j.slab.Len() < len(b) {
		size := min(max(2*j.slab.Cap(), first), largest)
		j.slab.Reset()
		j.slab.Grow(size)
	}
	at := j.slab.Len()
	j.slab.Write(b)
	return j.slab.String()[at:]
}

// escape takes a backslash and what belongs to it, and appends the letter to b.
func (j *JSON) escape(b []byte) ([]byte, error) {
	at := j.Offset()
	j.next++
	c, err := j.Byte()
	if err != nil {
		return nil, err
	}
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return append(b, "\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return nil, ErrorAt(at, "the escape \\ and %s, which JSON lacks", letter(c))
	}
	r, err := j.hex()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(r) {
		if r, err = j.pair(at, r); err != nil {
			return nil, err
		}
	}
	return utf8.AppendRune(b, r), nil
}

// pair takes the second half of a letter that two escapes are.
func (j *JSON) pair(at int64, first rune) (rune, error) {
	var mark [2]byte
	if j.Left() < 6 {
		return 0, ErrorAt(at, "half of a letter (\\u%04x)", first)
	}
	if err := j.Fill(mark[:]); err != nil {
		return 0, err
	}
	if string(mark[:]) != `\u` {
		return 0, ErrorAt(at, "half of a letter (\\u%04x)", first)
	}
	second, err := j.hex()
	if err != nil {
		return 0, err
	}
	if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
		return r, nil
	}
	return 0, ErrorAt(at, "two halves of letters that do not belong together (\\u%04x\\u%04x)", first, second)
}

// hex takes four hexadecimal digits.
func (j *JSON) hex() (rune, error) {
	var digits [4]byte
	at := j.Offset()
	if err := j.Fill(digits[:]); err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 16)
	if err != nil {
		return 0, ErrorAt(at, "%s, want four hexadecimal digits", printable.Value(string(digits[:])))
	}
	return rune(n), nil
}

// Skip takes any value.
func (j *JSON) Skip() error {
	b, err := j.blanks()
	if err != nil {
		return err
	}
	switch b {
	case '{':
		return j.Object(func(string, int64) error { return j.Skip() })
	case '[':
		return j.Array(j.Skip)
	case '"':
		_, err := j.String()
		return err
	}
	return j.skipWord()
}

// skipWord takes a number, true, false or null.
func (j *JSON) skipWord() error {
	at := j.Offset()
	var word []byte
	for len(word) <= 400 { // more than the digits of the longest float64
		b, err := j.Peek()
		if err != nil {
			return err
		}
		if b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b == 'E' || b == '+' || b == '-' || b == '.' {
			word = append(word, b)
			j.next++
			continue
		}
		break
	}
	switch string(word) {
	case "true", "false", "null":
		return nil
	}
	_, err := strconv.ParseFloat(string(word), 64)
	if err != nil || strings.ContainsAny(string(word), "abcdfghijklmnopqrstuvwxyz") || word[0] == '+' || word[0] == '.' {
		return ErrorAt(at, "%s is no value of JSON", printable.Value(string(word)))
	}
	return nil
}

// Null takes null if it is next, and reports whether it was.
func (j *JSON) Null() (bool, error) {
	b, err := j.blanks()
	if err != nil || b != 'n' {
		return false, err
	}
	at := j.Offset()
	var word [4]byte
	if err := j.Fill(word[:]); err != nil {
		return false, err
	}
	if string(word[:]) != "null" {
		return false, ErrorAt(at, "%s is no value of JSON", printable.Value(string(word[:])))
	}
	return true, nil
}
