package compile

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// This file divides C++ into declarations and statements, without knowing more of C++ than its
// brackets. It serves to leave out host code that does not compile. A mistake here cannot make
// device code wrong: clang compiles what remains, and device code that needs something left out
// is an error.

// span is a part of a text.
type span struct{ from, to int }

func (s span) has(at int) bool { return at >= s.from && at < s.to }

// piece is a declaration or a statement.
type piece struct {
	span
	head span // what stands before the body
	body span // between the braces of a function or class; empty if it has none
	kind kind
}

type kind int

const (
	plain    kind = iota // a declaration or statement without a body
	function             // a function with its body, or a lambda
	class                // a class, structure, union or enumeration
	scope                // a namespace, or extern "C"
	block                // a compound statement
	control              // if, while, for or switch with its condition, which is the head
)

// outline blanks comments, texts and directives of a source, and the parts of conditionals that
// have no active line. Lengths and lines stay. Without active, the first part of a conditional
// stays, and the others if they open and close equal numbers of braces.
func outline(source []byte, active []bool) []byte {
	out, _ := outlineAll(source)
	if active != nil {
		inactive(source, out, active)
	} else {
		balance(source, out)
	}
	return out
}

// outlineAll is outline with all parts of conditionals. It also returns where directives are.
func outlineAll(source []byte) (out []byte, directives []span) {
	out = bytes.Clone(source)
	for i := 0; i < len(out); {
		end := i + 1
		switch {
		case bytes.HasPrefix(out[i:], []byte("//")):
			end = lineEnd(source, i)
			wipe(out, span{i, end})
		case bytes.HasPrefix(out[i:], []byte("/*")):
			end = len(out)
			if n := bytes.Index(out[i+2:], []byte("*/")); n >= 0 {
				end = i + 2 + n + 2
			}
			wipe(out, span{i, end})
		case out[i] == '#' && len(bytes.TrimSpace(out[lineStart(out, i):i])) == 0:
			end = lineEnd(source, i)
			directives = append(directives, span{i, end})
			wipe(out, span{i, end})
		case out[i] == 'R' && i+1 < len(out) && out[i+1] == '"' && !wordBefore(out, i):
			end = rawEnd(source, i+2)
			wipe(out, span{i + 2, end - 1})
		case out[i] == '"' || out[i] == '\'' && !digitBefore(out, i):
			end = quoteEnd(source, i)
			wipe(out, span{i + 1, end - 1})
		}
		i = end
	}
	return out, directives
}

// wipe replaces all but line ends by blanks.
func wipe(text []byte, s span) {
	for i := s.from; i < s.to && i < len(text); i++ {
		if text[i] != '\n' && text[i] != '\r' {
			text[i] = ' '
		}
	}
}

func lineStart(text []byte, i int) int { return bytes.LastIndexByte(text[:i], '\n') + 1 }

// lineEnd returns the end of the line of i, which may continue after a backslash.
func lineEnd(text []byte, i int) int {
	for {
		n := bytes.IndexByte(text[i:], '\n')
		if n < 0 {
			return len(text)
		}
		line := bytes.TrimSuffix(text[i:i+n], []byte("\r"))
		if !bytes.HasSuffix(line, []byte(`\`)) {
			return i + n
		}
		i += n + 1
	}
}

// quoteEnd returns the end of a text or character that begins at i.
func quoteEnd(text []byte, i int) int {
	for j := i + 1; j < len(text); j++ {
		switch text[j] {
		case '\\':
			j++
		case text[i]:
			return j + 1
		case '\n':
			return j
		}
	}
	return len(text)
}

// rawEnd returns the end of a raw text whose delimiter begins at i.
func rawEnd(text []byte, i int) int {
	open := bytes.IndexByte(text[i:], '(')
	if open < 0 {
		return len(text)
	}
	closing := ")" + string(text[i:i+open]) + `"`
	if n := bytes.Index(text[i:], []byte(closing)); n >= 0 {
		return i + n + len(closing)
	}
	return len(text)
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// wordBefore reports whether a word ends at i. The prefixes of raw texts are not looked for.
func wordBefore(text []byte, i int) bool { return i > 0 && isWord(text[i-1]) }

// digitBefore reports whether ' at i separates digits of a number, as in 1'000.
func digitBefore(text []byte, i int) bool {
	return wordBefore(text, i) && i+1 < len(text) && isWord(text[i+1]) && text[i-1] >= '0' && text[i-1] <= '9'
}

var conditional = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b`)

// inactive blanks the parts of conditionals without an active line.
func inactive(source, out []byte, active []bool) {
	type part struct{ from, line int }
	var stack []part
	line, at := 1, 0
	for _, m := range conditional.FindAllSubmatchIndex(source, -1) {
		line += bytes.Count(source[at:m[0]], []byte("\n"))
		at = m[0]
		word := string(source[m[2]:m[3]])
		if !strings.HasPrefix(word, "if") {
			if len(stack) == 0 {
				continue
			}
			p := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if p.line >= len(active) || !slices.Contains(active[p.line:min(line, len(active))], true) {
				wipe(out, span{p.from, m[0]})
			}
		}
		if word != "endif" {
			stack = append(stack, part{m[1], line + 1})
		}
	}
}

// balance blanks the braces in the later parts of conditionals whose first part has more
// opening than closing braces, or less.
func balance(source, out []byte) {
	type open struct{ from, net, later int }
	var stack []open
	net := func(s span) int {
		return bytes.Count(out[s.from:s.to], []byte("{")) - bytes.Count(out[s.from:s.to], []byte("}"))
	}
	for _, m := range conditional.FindAllSubmatchIndex(source, -1) {
		word, top := string(source[m[2]:m[3]]), len(stack)-1
		switch {
		case strings.HasPrefix(word, "if"):
			stack = append(stack, open{from: m[0], later: -1})
			continue
		case top < 0:
			continue
		case stack[top].later < 0:
			stack[top].net = net(span{stack[top].from, m[0]})
		case stack[top].net != 0:
			for i := stack[top].later; i < m[0]; i++ {
				if out[i] == '{' || out[i] == '}' {
					out[i] = ' '
				}
			}
		}
		stack[top].later = m[0]
		if word == "endif" {
			stack = stack[:top]
		}
	}
}

// skipBlank returns the first place from i that is not blank.
func skipBlank(text []byte, i, end int) int {
	for i < end && strings.IndexByte(" \t\r\n\f\v", text[i]) >= 0 {
		i++
	}
	return i
}

// closing returns the place of the bracket that closes the one at i, or end.
func closing(text []byte, i, end int) int {
	depth := 0
	for ; i < end; i++ {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return end
}

// word returns the word at i.
func word(text []byte, i, end int) string {
	j := i
	for j < end && isWord(text[j]) {
		j++
	}
	return string(text[i:j])
}

// skipTemplate returns the place after template<...> at i, or i.
func skipTemplate(text []byte, i, end int) int {
	for word(text, i, end) == "template" {
		j := skipBlank(text, i+len("template"), end)
		if j >= end || text[j] != '<' {
			return i
		}
		i = skipBlank(text, skipAngle(text, j, end), end)
	}
	return i
}

// skipAngle returns the place after the > that closes the < at i, or end.
func skipAngle(text []byte, i, end int) int {
	depth := 0
	for ; i < end; i++ {
		switch text[i] {
		case '<':
			depth++
		case '>':
			if text[i-1] != '-' {
				depth--
			}
		case '(', '[', '{':
			i = closing(text, i, end)
		}
		if depth == 0 {
			return min(i+1, end)
		}
	}
	return end
}

// access matches a label of a class.
var access = regexp.MustCompile(`^(public|private|protected|signals|Q_SIGNALS)\s*:`)

// declaration returns the declaration that begins at i, in a namespace or class that ends at end.
func declaration(text []byte, i, end int) piece {
	p := piece{span: span{i, end}, head: span{i, end}}
	if m := access.Find(text[i:min(end, i+40)]); m != nil {
		p.to, p.head.to = i+len(m), i+len(m)
		return p
	}
	j := skipTemplate(text, i, end)
	parens, initialized, colon := false, false, false
	for ; j < end; j++ {
		switch c := text[j]; c {
		case ';':
			p.to, p.head.to = j+1, min(p.head.to, j)
			return p
		case '(', '[':
			parens = parens || c == '(' && !attribute(text, i, j)
			j = closing(text, j, end)
		case '=':
			initialized = initialized || !operatorBefore(text, i, j)
		case ':':
			colon = colon || parens && (j == 0 || text[j-1] != ':') && (j+1 >= end || text[j+1] != ':')
		case '{':
			stop := closing(text, j, end)
			if p.body = (span{j + 1, stop}); initialized || colon && memberBefore(text, i, j) {
				p.body, j = span{}, stop
				continue
			}
			p.head.to, p.to = j, min(stop+1, end)
			if p.kind = bodyKind(text[i:j], parens); p.kind != class {
				return p
			}
			// Names of variables may follow a class.
			for p.to < end && text[p.to] != ';' {
				p.to++
			}
			p.to = min(p.to+1, end)
			return p
		}
	}
	return p
}

// attribute reports whether the parenthesis at j belongs to an attribute.
func attribute(text []byte, i, j int) bool {
	j = len(bytes.TrimRight(text[i:j], " \t\r\n")) + i
	k := j
	for k > i && isWord(text[k-1]) {
		k--
	}
	switch string(text[k:j]) {
	case "__attribute__", "alignas", "__align__", "__declspec", "__launch_bounds__", "__cluster_dims__", "decltype":
		return true
	}
	return false
}

// operatorBefore reports whether the = at j belongs to the name of an operator.
func operatorBefore(text []byte, i, j int) bool {
	return bytes.HasSuffix(bytes.TrimRight(text[i:j], "=<>!+-*/%&|^ "), []byte("operator"))
}

// memberBefore reports whether the brace at j initializes a member, rather than opening the
// body of a constructor.
func memberBefore(text []byte, i, j int) bool {
	before := bytes.TrimRight(text[i:j], " \t\r\n")
	return len(before) > 0 && (isWord(before[len(before)-1]) || before[len(before)-1] == '>')
}

var (
	scopeForm = regexp.MustCompile(`(^|\s)(namespace\b[^()]*|extern\s*"[^"]*"\s*)$`)
	classForm = regexp.MustCompile(`(^|[\s>])(class|struct|union|enum)\b`)
)

// bodyKind returns what the body behind a head is.
func bodyKind(head []byte, parens bool) kind {
	switch {
	case scopeForm.Match(head):
		return scope
	case !parens && classForm.Match(head):
		return class
	}
	return function
}

// statement returns the statement that begins at i, in a body that ends at end.
func statement(text []byte, i, end int) piece {
	if text[i] == '{' {
		stop := closing(text, i, end)
		return piece{span: span{i, min(stop+1, end)}, body: span{i + 1, stop}, kind: block}
	}
	switch w := word(text, i, end); w {
	case "if", "while", "for", "switch":
		open := skipBlank(text, i+len(w), end)
		if w == "if" && word(text, open, end) == "constexpr" {
			open = skipBlank(text, open+len("constexpr"), end)
		}
		if open < end && text[open] == '(' {
			stop := closing(text, open, end)
			return piece{span: span{i, min(stop+1, end)}, head: span{open + 1, stop}, kind: control}
		}
	case "else", "do", "try":
		return piece{span: span{i, i + len(w)}, head: span{i, i + len(w)}}
	}
	for j := i; j < end; j++ {
		switch text[j] {
		case ';':
			return piece{span: span{i, j + 1}, head: span{i, j}}
		case '(', '[', '{':
			j = closing(text, j, end)
		}
	}
	return piece{span: span{i, end}, head: span{i, end}}
}

// lambda returns a lambda or block of braces within a statement that has the place at.
func lambda(text []byte, in span, at int) (p piece, ok bool) {
	for i := in.from; i < in.to; i++ {
		if text[i] != '{' {
			continue
		}
		stop := closing(text, i, in.to)
		if at > i && at < stop {
			return piece{span: span{in.from, stop + 1}, head: span{in.from, i}, body: span{i + 1, stop}, kind: function}, true
		}
		i = stop
	}
	return p, false
}

// lambdaForm matches what stands before the body of a lambda.
var lambdaForm = regexp.MustCompile(`\](\s|\w|\([^{}]*\)|->|[:<>*&,])*$`)

// around returns the pieces around a place, the outermost first.
func around(text []byte, at int) (all []piece) {
	in, inFunction := span{0, len(text)}, false
next:
	for i := skipBlank(text, in.from, in.to); i < in.to; i = skipBlank(text, i, in.to) {
		var p piece
		if inFunction {
			p = statement(text, i, in.to)
		} else {
			p = declaration(text, i, in.to)
		}
		if p.to <= i {
			p.to = i + 1
		}
		if !p.has(at) {
			i = p.to
			continue
		}
		all = append(all, p)
		if inner, ok := lambda(text, p.span, at); ok && inFunction && p.kind == plain && lambdaForm.Match(text[inner.head.from:inner.head.to]) {
			all, p = append(all, inner), inner
		}
		if !p.body.has(at) {
			return all
		}
		in, inFunction = p.body, inFunction || p.kind == function
		goto next
	}
	return all
}
