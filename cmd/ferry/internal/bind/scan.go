package bind

import (
	"slices"
	"strings"
)

// source is what the text of a source file, and of the files that it includes, tells.
type source struct {
	kernels  []*srcKernel
	records  map[string][]*srcRecord // by qualified name; several if #if chooses one
	includes []string                // #include "NAME"
}

// srcKernel is a kernel in the text.
type srcKernel struct {
	path   []string // namespaces and name
	doc    []string // the lines of the comment above it
	params []srcParam
	text   string // as written: "void saxpy(int n, float *x)"
}

// name returns the qualified name.
func (k *srcKernel) name() string { return strings.Join(k.path, "::") }

// srcParam is a parameter in the text. The name is empty if there is none.
type srcParam struct {
	name string
	typ  []token // without name and default value
}

// srcRecord is a structure in the text.
type srcRecord struct {
	fields []srcField
	plain  bool // only public data, without bases, bit fields and anonymous members
}

// srcField is a field of a structure.
type srcField struct {
	name    string
	aligned bool // has its own alignment, so that a gap before it is right
}

// scanner walks through the tokens of a source.
type scanner struct {
	source
	tokens   []token
	comments []comment
	at       int
	start    int      // of the declaration at hand
	scopes   []string // open braces: the namespace, or "" for others
	saved    [][]string
}

// scan reads a source text.
func scan(src string) *source {
	tokens, comments := tokenize(strings.TrimPrefix(src, "\ufeff")) // without a byte order mark
	s := &scanner{source: source{records: map[string][]*srcRecord{}}, tokens: expandKernels(tokens), comments: comments}
	for s.at < len(s.tokens) {
		s.step()
	}
	return &s.source
}

// step reads one token, or a construct that begins with it.
func (s *scanner) step() {
	t := s.tokens[s.at]
	switch {
	case t.kind == directive:
		s.directive(t.text)
	case t.is("namespace"):
		s.namespace()
		return
	case t.is("__global__"):
		s.kernel()
		return
	case t.is("struct") || t.is("class") || t.is("union"):
		s.record()
		return
	case t.is("extern") && s.at+2 < len(s.tokens) && s.tokens[s.at+1].kind == text && s.tokens[s.at+2].is("{"):
		s.at += 2
		s.open("")
	case t.is("{"):
		s.open("")
	case t.is("}"):
		if n := len(s.scopes); n > 0 {
			s.scopes = s.scopes[:n-1]
		}
		s.start = s.at + 1
	case t.is(";"):
		s.start = s.at + 1
	}
	s.at++
}

// open enters braces.
func (s *scanner) open(namespace string) {
	s.scopes = append(s.scopes, namespace)
	s.start = s.at + 1
}

// directive reads #include, and keeps the braces right where #if has several branches.
func (s *scanner) directive(line string) {
	if s.start == s.at {
		s.start++
	}
	name := strings.TrimLeft(line[1:], " \t")
	switch n := len(s.saved); {
	case strings.HasPrefix(name, "include"):
		if f := strings.SplitN(name, `"`, 3); len(f) == 3 {
			s.includes = append(s.includes, f[1])
		}
	case strings.HasPrefix(name, "if"):
		s.saved = append(s.saved, slices.Clone(s.scopes))
	case strings.HasPrefix(name, "el") && n > 0:
		s.scopes, s.start = slices.Clone(s.saved[n-1]), s.at+1
	case strings.HasPrefix(name, "endif") && n > 0:
		s.saved = s.saved[:n-1]
	}
}

// namespace reads the head of a namespace: "namespace a::b {".
func (s *scanner) namespace() {
	var path []string
	for s.at++; s.at < len(s.tokens); s.at++ {
		switch t := s.tokens[s.at]; {
		case t.is("{"):
			s.open(strings.Join(path, "::"))
			s.at++
			return
		case t.kind == word && !t.is("inline"):
			path = append(path, t.text)
		case t.is("::"):
		case t.is("["):
			s.at = matching(s.tokens, s.at)
		default: // an alias, or "using namespace"
			return
		}
	}
}

// qualify returns the path of a name that is declared here.
func (s *scanner) qualify(name ...string) []string {
	var path []string
	for _, scope := range s.scopes {
		if scope != "" {
			path = append(path, strings.Split(scope, "::")...)
		}
	}
	return append(path, name...)
}

// attributes are words whose parentheses are not a list of parameters.
var attributes = []string{"__launch_bounds__", "__attribute__", "__declspec", "__cluster_dims__", "__block_size__", "__maxnreg__", "__align__", "alignas", "decltype", "noexcept"}

// kernel reads a kernel from __global__ to the end of its parameters.
func (s *scanner) kernel() {
	start := s.start
	var path []string
	for s.at++; s.at < len(s.tokens); s.at++ {
		t := s.tokens[s.at]
		switch {
		case t.is("(") && len(path) > 0:
			s.addKernel(start, path)
			return
		case t.is("[") || t.is("("):
			s.at = matching(s.tokens, s.at)
		case t.is("<"):
			s.at = matchingAngle(s.tokens, s.at)
		case t.kind == word && slices.Contains(attributes, t.text):
			if s.at+1 < len(s.tokens) && s.tokens[s.at+1].is("(") {
				s.at = matching(s.tokens, s.at+1)
			}
		case t.is("::"):
		case t.kind == word && len(path) > 0 && s.tokens[s.at-1].is("::"):
			path = append(path, t.text)
		case t.kind == word && s.follows("(", "<", "::"):
			path = []string{t.text}
		case t.is(";") || t.is("{") || t.is("}"):
			return
		}
	}
}

// follows reports whether the next token is one of these.
func (s *scanner) follows(texts ...string) bool {
	return s.at+1 < len(s.tokens) && s.tokens[s.at+1].kind == punct && slices.Contains(texts, s.tokens[s.at+1].text)
}

// addKernel adds the kernel whose parameters begin here.
func (s *scanner) addKernel(start int, path []string) {
	end := matching(s.tokens, s.at)
	k := &srcKernel{path: s.qualify(path...)}
	for _, p := range split(s.tokens[min(s.at+1, end):end], ",") {
		k.params = append(k.params, readParam(p))
	}
	if len(k.params) == 1 && k.params[0].name == "" && spell(k.params[0].typ) == "void" {
		k.params = nil
	}
	k.text = "void " + path[len(path)-1] + "(" + spell(s.tokens[min(s.at+1, end):end]) + ")"
	if start < len(s.tokens) {
		k.doc = docAbove(s.comments, s.tokens[start].line)
	}
	s.kernels = append(s.kernels, k)
	s.at = min(end+1, len(s.tokens))
}

// typeWords are words that are never the name of a parameter.
var typeWords = []string{"void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "const", "volatile",
	"auto", "struct", "class", "enum", "union", "typename", "__restrict__", "__restrict", "restrict", "__grid_constant__", "wchar_t", "char8_t", "char16_t", "char32_t"}

// readParam reads a parameter, or a declarator of a field.
func readParam(tokens []token) srcParam {
	if i := slices.IndexFunc(tokens, func(t token) bool { return t.is("=") }); i >= 0 {
		tokens = tokens[:i]
	}
	at := nameOf(tokens)
	if at < 0 {
		return srcParam{typ: tokens}
	}
	typ := append(slices.Clone(tokens[:at]), tokens[at+1:]...)
	return srcParam{name: tokens[at].text, typ: typ}
}

// nameOf returns the index of the name that a declaration declares, or -1.
func nameOf(tokens []token) int {
	last, types := -1, 0
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch {
		case t.is("("):
			end := matching(tokens, i)
			if i+1 < end && (tokens[i+1].is("*") || tokens[i+1].is("&")) { // int (*name)[4]
				if at := nameOf(append([]token{{text: "int"}}, tokens[i+1:end]...)); at > 0 {
					return i + at
				}
				return -1
			}
			i = end
		case t.is("[") || t.is("{"):
			i = matching(tokens, i)
		case t.is("<"):
			i = matchingAngle(tokens, i)
		case t.is("decltype"):
			types++
		case t.kind == word && slices.Contains(attributes, t.text):
		case t.kind == word && slices.Contains(typeWords, t.text):
			last = -1
			if !slices.Contains([]string{"const", "volatile", "struct", "class", "enum", "union", "typename"}, t.text) {
				types++
			}
		case t.kind == word && i > 0 && tokens[i-1].is("::"):
			last = -1
		case t.kind == word:
			last = i
			types++
		case t.is("*") || t.is("&"):
			last = -1
		}
	}
	if types < 2 { // only a type
		return -1
	}
	return last
}

// spell returns tokens as C text, with spaces as Ferry writes C.
func spell(tokens []token) string {
	var b strings.Builder
	for i, t := range tokens {
		if t.kind == directive {
			continue
		}
		if i > 0 && spaced(tokens[i-1], t) {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

// spaced reports whether there is a space between two tokens.
func spaced(a, b token) bool {
	tight := func(t token, of string) bool { return t.kind == punct && strings.Contains(of, " "+t.text+" ") }
	switch {
	case tight(b, " , ) ] [ ; :: > < "), tight(a, " ( [ :: < ~ ! "), a.is(")") && b.is("("):
		return false
	case tight(a, " * & ") && (b.kind == word || tight(b, " * & ")):
		return false
	case b.is("(") && a.kind == word:
		return slices.Contains(typeWords, a.text)
	}
	return true
}

// docAbove returns the lines of the comment that ends on the line above, without its
// delimiters.
func docAbove(comments []comment, line int) []string {
	var out []string
	for i := len(comments) - 1; i >= 0; i-- {
		c := comments[i]
		if c.from >= line {
			continue
		}
		if c.to != line-1 || c.trailing {
			break
		}
		out = append(stripComment(c.text), out...)
		line = c.from
	}
	return trimBlank(out)
}

// stripComment returns the lines of a comment.
func stripComment(s string) []string {
	if body, ok := strings.CutPrefix(s, "//"); ok {
		return []string{cleanLine(strings.TrimLeft(body, "/!"))}
	}
	body := strings.TrimSuffix(strings.TrimLeft(strings.TrimPrefix(s, "/*"), "*!"), "*/")
	var out []string
	for _, line := range strings.Split(body, "\n") {
		line = strings.TrimLeft(line, " \t")
		out = append(out, cleanLine(strings.TrimLeft(line, "*")))
	}
	return out
}

// cleanLine removes one space before a line, and all behind it. A line of ornaments is
// empty.
func cleanLine(s string) string {
	s = strings.TrimRight(strings.TrimPrefix(s, " "), " \t\r*")
	if strings.Trim(s, "-=*/#") == "" {
		return ""
	}
	return s
}

// trimBlank removes empty lines at both ends.
func trimBlank(lines []string) []string {
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
