package bind

import "strings"

// tokenKind is what a token is.
type tokenKind uint8

const (
	word      tokenKind = iota // an identifier or keyword
	number                     // a number
	text                       // a string or character constant, with its quotes
	punct                      // an operator or bracket
	directive                  // a whole line of the preprocessor, from "#" on
)

// token is a token of C++.
type token struct {
	kind tokenKind
	text string
	line int // from 1
}

// is reports whether a token is an operator, a bracket or a word.
func (t token) is(text string) bool { return t.text == text && (t.kind == punct || t.kind == word) }

// comment is a comment of a source, with its delimiters.
type comment struct {
	text     string
	from, to int  // lines
	trailing bool // a token stands before it on its line
}

// lexer splits a source into tokens and comments. Every text has a result: a construct
// that does not end, ends with the text.
type lexer struct {
	src      string
	at, line int
	tokens   []token
	comments []comment
}

// tokenize returns the tokens and comments of a source.
func tokenize(src string) ([]token, []comment) {
	l := &lexer{src: strings.ReplaceAll(src, "\r\n", "\n"), line: 1}
	for l.at < len(l.src) {
		l.next()
	}
	return l.tokens, l.comments
}

// next reads one token, comment or space.
func (l *lexer) next() {
	rest := l.src[l.at:]
	c := rest[0]
	switch {
	case c == '\n' || c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
		l.skip(1)
	case strings.HasPrefix(rest, "\\\n"):
		l.skip(2)
	case strings.HasPrefix(rest, "//"):
		l.comment(lineLength(rest))
	case strings.HasPrefix(rest, "/*"):
		l.comment(until(rest, 2, "*/"))
	case c == '#' && !l.tokenOnLine():
		l.add(directive, directiveLength(rest))
	case c == '"' || c == '\'':
		l.add(text, quotedLength(rest, 0))
	case wordStart(c):
		l.word(rest)
	case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		l.add(number, numberLength(rest))
	case strings.HasPrefix(rest, "::") || strings.HasPrefix(rest, "##"):
		l.add(punct, 2)
	case strings.HasPrefix(rest, "..."):
		l.add(punct, 3)
	default:
		l.add(punct, 1)
	}
}

// word reads a word, or a string with a prefix such as R or u8.
func (l *lexer) word(rest string) {
	n := 1
	for n < len(rest) && wordPart(rest[n]) {
		n++
	}
	prefix := rest[:n]
	if n < len(rest) && (rest[n] == '"' || rest[n] == '\'') && strings.Contains(" L u U u8 R LR uR UR u8R ", " "+prefix+" ") {
		if strings.HasSuffix(prefix, "R") {
			l.add(text, rawLength(rest, n))
		} else {
			l.add(text, quotedLength(rest, n))
		}
		return
	}
	l.add(word, n)
}

// add adds a token of n bytes.
func (l *lexer) add(kind tokenKind, n int) {
	l.tokens = append(l.tokens, token{kind, l.src[l.at : l.at+n], l.line})
	l.skip(n)
}

// comment adds a comment of n bytes.
func (l *lexer) comment(n int) {
	c := comment{text: l.src[l.at : l.at+n], from: l.line, trailing: l.tokenOnLine()}
	l.skip(n)
	c.to = l.line
	l.comments = append(l.comments, c)
}

// tokenOnLine reports whether the line has a token already.
func (l *lexer) tokenOnLine() bool {
	n := len(l.tokens)
	return n > 0 && l.tokens[n-1].line == l.line && l.tokens[n-1].kind != directive
}

// skip goes on by n bytes.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.src[l.at:l.at+n], "\n")
	l.at += n
}

func wordStart(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func wordPart(c byte) bool { return wordStart(c) || c >= '0' && c <= '9' }

// lineLength returns the length of a line without its end. A backslash continues it.
func lineLength(s string) int {
	for i := range len(s) {
		if s[i] == '\n' && (i == 0 || s[i-1] != '\\') {
			return i
		}
	}
	return len(s)
}

// directiveLength returns the length of a directive. A comment behind it is not part of it.
func directiveLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\n' && s[i-1] != '\\', strings.HasPrefix(s[i:], "//"):
			return i
		case s[i] == '"':
			i += quotedLength(s[i:], 0) - 1
		case strings.HasPrefix(s[i:], "/*"):
			n := until(s[i:], 2, "*/")
			if strings.Contains(s[i:i+n], "\n") {
				return i
			}
			i += n - 1
		}
	}
	return len(s)
}

// until returns the length up to and with the end, which is searched from a place on.
func until(s string, from int, end string) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(s)
}

// quotedLength returns the length of a string or character constant whose quote is s[at].
// It ends with the line at the latest.
func quotedLength(s string, at int) int {
	for i := at + 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[at]:
			return i + 1
		case '\n':
			return i
		}
	}
	return len(s)
}

// rawLength returns the length of a raw string, R"x(...)x", whose quote is s[at].
func rawLength(s string, at int) int {
	open := strings.IndexByte(s[at:], '(')
	if open < 0 || open > 17 {
		return quotedLength(s, at)
	}
	return until(s, at+open, ")"+s[at+1:at+open]+`"`)
}

// numberLength returns the length of a number, which may have a suffix, an exponent and
// separators.
func numberLength(s string) int {
	i := 1
	for ; i < len(s); i++ {
		sign := (s[i] == '+' || s[i] == '-') && strings.IndexByte("eEpP", s[i-1]) >= 0
		separator := s[i] == '\'' && i+1 < len(s) && wordPart(s[i+1])
		if !wordPart(s[i]) && s[i] != '.' && !sign && !separator {
			break
		}
	}
	return i
}
