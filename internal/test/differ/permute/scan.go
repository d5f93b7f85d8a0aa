package permute

import (
	"fmt"
	"strings"
)

// item is a part of a scope: exactly one of its fields is set, but text is that of a
// declaration or label too.
type item struct {
	text  string // an instruction with its semicolon, or a directive that stays in place
	label bool   // text is a label with its colon
	decl  bool   // text is a declaration, which may stand first in its scope
	inner *scope
}

// scope is what stands between braces.
type scope struct {
	text  string // with the braces
	items []item
}

// scanner reads PTX without comments.
type scanner struct {
	src string
	at  int
}

// removeComments replaces comments by spaces. Line ends stay.
func removeComments(src string) string {
	var b strings.Builder
	for len(src) > 0 {
		n := 1
		switch {
		case strings.HasPrefix(src, "//"):
			n = lengthUntil(src, "\n")
			b.WriteByte(' ')
		case strings.HasPrefix(src, "/*"):
			n = min(len(src), lengthUntil(src[2:], "*/")+4)
			b.WriteString(" " + strings.Repeat("\n", strings.Count(src[:n], "\n")))
		case src[0] == '"':
			n = min(len(src), lengthUntil(src[1:], `"`)+2)
			b.WriteString(src[:n])
		default:
			b.WriteByte(src[0])
		}
		src = src[n:]
	}
	return b.String()
}

// lengthUntil returns how many bytes of s stand before stop, all if it is absent.
func lengthUntil(s, stop string) int {
	if i := strings.Index(s, stop); i >= 0 {
		return i
	}
	return len(s)
}

func (s *scanner) skipSpace() {
	for s.at < len(s.src) && strings.IndexByte(" \t\r\n", s.src[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) rest() string { return s.src[s.at:] }

// take returns the next n bytes.
func (s *scanner) take(n int) string {
	text := s.src[s.at : s.at+n]
	s.at += n
	return text
}

// scope reads a scope. It begins at the opening brace.
func (s *scanner) scope() (*scope, error) {
	out, begin := &scope{}, s.at
	for s.at++; ; {
		s.skipSpace()
		switch {
		case s.at >= len(s.src):
			return nil, fmt.Errorf("the brace at byte %d of the PTX without comments is not closed", begin)
		case s.src[s.at] == '}':
			s.at++
			out.text = s.src[begin:s.at]
			return out, nil
		case s.src[s.at] == '{':
			inner, err := s.scope()
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, item{inner: inner})
		default:
			out.items = append(out.items, s.statement())
		}
	}
}

// statement reads a label, an instruction, a declaration or a directive.
func (s *scanner) statement() item {
	text := s.rest()
	if strings.HasPrefix(text, ".loc ") || strings.HasPrefix(text, ".loc\t") {
		return item{text: s.take(lengthUntil(text, "\n"))}
	}
	n := lengthOfStatement(text)
	if text[n-1] == ';' {
		text = s.take(n)
		return item{text: text, decl: text[0] == '.' && !strings.HasPrefix(text, ".pragma")}
	}
	label := s.take(n)
	s.skipSpace()
	for _, table := range []string{".branchtargets", ".calltargets", ".callprototype"} {
		if strings.HasPrefix(s.rest(), table) {
			return item{text: label + " " + s.take(lengthOfStatement(s.rest())), decl: true}
		}
	}
	return item{text: label, label: true}
}

// lengthOfStatement returns the length up to the semicolon, or up to the colon of a label.
func lengthOfStatement(s string) int {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case quoted:
		case s[i] == ';':
			return i + 1
		case s[i] == ':' && isLabel(s[:i]) && !strings.HasPrefix(s[i:], "::"):
			return i + 1
		}
	}
	return len(s)
}

// isLabel reports whether s is one name.
func isLabel(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r == '_' || r == '$' || r == '%' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) < 0
}
