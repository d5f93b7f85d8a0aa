package ptx

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is the kind of a token: a class below zero, or the punctuation character
// itself.
type kind int

const (
	tokEOF    kind = -1 - iota
	tokBad         // text is the problem
	tokName        // x, %x, $x, _
	tokDot         // .x or .x::y; text is without the first dot
	tokNumber      // as written
	tokString      // text is without the quotes
	tokShl         // <<
	tokShr         // >>
	tokLE          // <=
	tokGE          // >=
	tokEQ          // ==
	tokNE          // !=
	tokAnd         // &&
	tokOr          // ||
)

type token struct {
	kind     kind
	text     string
	off, end int // byte offsets in the source
	pos      Pos
}

// String returns the token for messages.
func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the file"
	case tokDot:
		return "." + t.text
	case tokString:
		return "a string"
	case tokName, tokNumber:
		return t.text
	}
	return "'" + t.text + "'"
}

// lexer splits the source into tokens.
type lexer struct {
	src       string
	off       int
	line      int // line of off, from 1
	lineStart int // offset of the first byte of that line
}

const (
	nameStart = 1 << iota
	namePart
	digit
	hexDigit
	punctuation
	secondOfDouble // the second character of << and the like
)

var classes = func() (c [256]uint8) {
	for b := 'a'; b <= 'z'; b++ {
		c[b] |= nameStart | namePart
		c[b-'a'+'A'] |= nameStart | namePart
	}
	for b := '0'; b <= '9'; b++ {
		c[b] |= namePart | digit | hexDigit
	}
	for _, b := range "abcdefABCDEF" {
		c[b] |= hexDigit
	}
	for _, b := range "{}()[]<>,;:@!~+-*/%&|^?=" {
		c[b] |= punctuation
	}
	for _, b := range "<>=&|" {
		c[b] |= secondOfDouble
	}
	c['_'] |= nameStart | namePart
	c['$'] |= nameStart | namePart
	return c
}()

// is reports whether the byte at i exists and has one of the classes.
func (l *lexer) is(i int, class uint8) bool { return i < len(l.src) && classes[l.src[i]]&class != 0 }

// at reports whether the byte at i exists and is b.
func (l *lexer) at(i int, b byte) bool { return i < len(l.src) && l.src[i] == b }

// run returns the end of the bytes of a class that start at i.
func (l *lexer) run(i int, class uint8) int {
	for i < len(l.src) && classes[l.src[i]]&class != 0 {
		i++
	}
	return i
}

// blanks returns the end of the white space that starts at i.
func (l *lexer) blanks(i int) int {
	for i < len(l.src) && (l.src[i] == ' ' || l.src[i] == '\t' || l.src[i] == '\r' || l.src[i] == '\n') {
		i++
	}
	return i
}

// scan returns the next token.
func (l *lexer) scan() token {
	if bad, ok := l.skipSpace(); !ok {
		return bad
	}
	t := token{off: l.off, pos: Pos{l.line, l.off - l.lineStart + 1}}
	if l.off >= len(l.src) {
		t.kind, t.end = tokEOF, l.off
		return t
	}
	switch c := l.src[l.off]; {
	case classes[c]&nameStart != 0 || c == '%' && l.is(l.off+1, namePart):
		l.off = l.run(l.off+1, namePart)
		t.kind, t.text = tokName, l.src[t.off:l.off]
	case c == '.' && l.is(l.off+1, namePart):
		l.off = l.wordEnd(l.off + 1)
		t.kind, t.text = tokDot, l.src[t.off+1:l.off]
	case classes[c]&digit != 0:
		l.off = l.numberEnd(l.off)
		t.kind, t.text = tokNumber, l.src[t.off:l.off]
	case c == '"':
		l.scanString(&t)
	default:
		l.scanPunctuation(&t)
	}
	t.end = l.off
	return t
}

// wordEnd returns the end of a dotted word; i is the byte after the dot. "a::b" is
// one word.
func (l *lexer) wordEnd(i int) int {
	i = l.run(i, namePart)
	for l.at(i, ':') && l.at(i+1, ':') && l.is(i+2, namePart) {
		i = l.run(i+2, namePart)
	}
	return i
}

// numberEnd returns the end of a number that starts at i: all letters, digits, a
// point and the sign of an exponent. Whether the number is well formed is checked
// later.
func (l *lexer) numberEnd(i int) int {
	prefixed := l.at(i, '0') && l.is(i+1, nameStart)
	i = l.run(i, namePart)
	if prefixed {
		return i
	}
	if l.at(i, '.') {
		i = l.run(i+1, namePart)
	}
	if (l.at(i-1, 'e') || l.at(i-1, 'E')) && (l.at(i, '+') || l.at(i, '-')) {
		i = l.run(i+1, namePart)
	}
	return i
}

func (l *lexer) scanString(t *token) {
	for i := t.off + 1; i < len(l.src) && l.src[i] != '\n'; i++ {
		switch l.src[i] {
		case '\\':
			i++
		case '"':
			t.kind, t.text, l.off = tokString, l.src[t.off+1:i], i+1
			return
		}
	}
	t.kind, t.text, l.off = tokBad, "string without a closing quote", t.off+1
}

var doubles = map[string]kind{
	"<<": tokShl, ">>": tokShr, "<=": tokLE, ">=": tokGE, "==": tokEQ, "!=": tokNE, "&&": tokAnd, "||": tokOr,
}

func (l *lexer) scanPunctuation(t *token) {
	rest := l.src[l.off:]
	if l.is(l.off+1, secondOfDouble) {
		if k, ok := doubles[rest[:2]]; ok {
			t.kind, t.text = k, rest[:2]
			l.off += 2
			return
		}
	}
	if l.is(l.off, punctuation) {
		t.kind, t.text = kind(rest[0]), rest[:1]
		l.off++
		return
	}
	r, size := utf8.DecodeRuneInString(rest)
	t.kind, t.text = tokBad, fmt.Sprintf("unexpected character %q", r)
	l.off += size
}

// skipSpace skips white space, comments, preprocessor lines (#...) and old debug
// lines (@@...). If a comment has no end, ok is false and bad says so.
func (l *lexer) skipSpace() (bad token, ok bool) {
	for l.off < len(l.src) {
		switch c := l.src[l.off]; {
		case c == '\n':
			l.off++
			l.newLine()
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			l.off++
		case c == '/' && l.at(l.off+1, '/'), c == '@' && l.at(l.off+1, '@'), c == '#':
			l.skipLine()
		case c == '/' && l.at(l.off+1, '*'):
			if bad, ok := l.skipComment(); !ok {
				return bad, false
			}
		default:
			return token{}, true
		}
	}
	return token{}, true
}

func (l *lexer) newLine() { l.line, l.lineStart = l.line+1, l.off }

func (l *lexer) skipLine() {
	if i := strings.IndexByte(l.src[l.off:], '\n'); i >= 0 {
		l.off += i
		return
	}
	l.off = len(l.src)
}

func (l *lexer) skipComment() (bad token, ok bool) {
	t := token{kind: tokBad, text: "comment without an end: no */ follows", off: l.off, pos: Pos{l.line, l.off - l.lineStart + 1}}
	n := strings.Index(l.src[l.off+2:], "*/")
	if n < 0 {
		l.off = len(l.src)
		t.end = l.off
		return t, false
	}
	end := l.off + 2 + n + 2
	for l.off < end {
		i := strings.IndexByte(l.src[l.off:end], '\n')
		if i < 0 {
			break
		}
		l.off += i + 1
		l.newLine()
	}
	l.off = end
	return token{}, true
}

// back makes the lexer scan t again.
func (l *lexer) back(t token) {
	l.off, l.line, l.lineStart = t.off, t.pos.Line, t.off-t.pos.Col+1
}
