package bind

import (
	"slices"
	"strings"
)

// record reads a structure, if one is defined here: "struct A {...}" or "typedef struct
// {...} A".
func (s *scanner) record() {
	named := s.start < len(s.tokens) && s.tokens[s.start].is("typedef")
	class, body, name, bases := s.tokens[s.at].text, -1, "", false
	i := s.at + 1
	for ; i < len(s.tokens) && body < 0; i++ {
		switch t := s.tokens[i]; {
		case t.is("{"):
			body = i
		case t.is(":"):
			bases = true
		case t.kind == word && slices.Contains(attributes, t.text) && i+1 < len(s.tokens) && s.tokens[i+1].is("("):
			i = matching(s.tokens, i+1)
		case t.is("["):
			i = matching(s.tokens, i)
		case t.is("final"):
		case t.kind == word && !bases:
			name = t.text
		case t.is("<"):
			i = matchingAngle(s.tokens, i)
		case bases || t.is("::"):
		default: // a declaration, or a use as in "struct A *p"
			s.at++
			return
		}
	}
	if body < 0 {
		s.at++
		return
	}
	end := matching(s.tokens, body)
	if named {
		name = typedefName(s.tokens[min(end+1, len(s.tokens)):], name)
	}
	s.addRecord(class, s.qualify(name), s.tokens[min(body+1, end):end], bases)
	s.at = min(end+1, len(s.tokens))
}

// typedefName returns the name that a typedef gives to a structure. otherwise is the
// result if it gives a name to something else, such as a pointer.
func typedefName(after []token, otherwise string) string {
	if len(after) > 1 && after[0].kind == word && (after[1].is(";") || after[1].is(",")) && otherwise == "" {
		return after[0].text
	}
	return otherwise
}

// addRecord reads the members of a structure.
func (s *scanner) addRecord(class string, path []string, body []token, bases bool) {
	r := &srcRecord{plain: class == "struct" && !bases && path[len(path)-1] != ""}
	if class == "class" {
		r.plain = !bases
	}
	m := memberScanner{s: s, r: r, path: path, tokens: body, private: class == "class"}
	for m.at < len(m.tokens) {
		m.member()
	}
	if name := strings.Join(path, "::"); path[len(path)-1] != "" {
		s.records[name] = append(s.records[name], r)
	}
}

// memberScanner walks through the members of a structure.
type memberScanner struct {
	s       *scanner
	r       *srcRecord
	path    []string
	tokens  []token
	at      int
	private bool
}

// member reads one member.
func (m *memberScanner) member() {
	t := m.tokens[m.at]
	switch {
	case t.kind == directive:
		m.r.plain = m.r.plain && !strings.HasPrefix(strings.TrimLeft(t.text[1:], " \t"), "if") // fields may be missing
		m.at++
	case t.is("public") || t.is("private") || t.is("protected"):
		m.private = !t.is("public")
		m.at += 2
	case t.is("using") || t.is("typedef") || t.is("static") || t.is("friend") || t.is("template") || t.is("static_assert") || t.is("enum") && m.definesEnum():
		m.at = m.end()
	case t.is(";"):
		m.at++
	default:
		end := m.end()
		m.declaration(m.tokens[m.at:end])
		m.at = end
	}
}

// definesEnum reports whether the member defines an enumeration and no field.
func (m *memberScanner) definesEnum() bool {
	for i := m.at; i < len(m.tokens); i++ {
		if m.tokens[i].is("{") {
			i = matching(m.tokens, i)
			return i+1 < len(m.tokens) && m.tokens[i+1].is(";")
		}
		if m.tokens[i].is(";") {
			return false
		}
	}
	return false
}

// end returns the index behind the member at hand: behind its semicolon, or behind the
// body of a function.
func (m *memberScanner) end() int {
	function := false
	for i := m.at; i < len(m.tokens); i++ {
		switch t := m.tokens[i]; {
		case t.is(";"):
			return i + 1
		case t.is("("):
			function = function || i > m.at && !slices.Contains(attributes, m.tokens[i-1].text)
			i = matching(m.tokens, i)
		case t.is("{"):
			i = matching(m.tokens, i)
			if function && i+1 < len(m.tokens) && !m.tokens[i+1].is(",") && !m.tokens[i+1].is("{") && !m.tokens[i+1].is(";") {
				return i + 1
			}
		}
	}
	return len(m.tokens)
}

// declaration reads a member that may be a field.
func (m *memberScanner) declaration(d []token) {
	if n := len(d); n > 0 && d[n-1].is(";") {
		d = d[:n-1]
	}
	if len(d) == 0 {
		return
	}
	if slices.ContainsFunc(d, func(t token) bool { return t.is("virtual") }) {
		m.r.plain = false
	}
	if d[0].is("struct") || d[0].is("class") || d[0].is("union") || d[0].is("enum") {
		if d = m.nested(d); d == nil {
			return
		}
	}
	if isFunction(d) {
		return
	}
	if m.private {
		m.r.plain = false
	}
	aligned := slices.ContainsFunc(d, func(t token) bool { return slices.Contains(attributes, t.text) })
	for i, part := range split(d, ",") {
		m.field(part, i == 0, aligned)
	}
}

// nested reads a structure or enumeration that is defined in a structure. It returns the declaration of
// fields with it, or nil if there is none.
func (m *memberScanner) nested(d []token) []token {
	open := slices.IndexFunc(d, func(t token) bool { return t.is("{") })
	if open < 0 {
		return d
	}
	end, name := matching(d, open), ""
	for _, t := range d[1:open] {
		if t.kind == word && name == "" {
			name = t.text
		}
	}
	if !d[0].is("enum") {
		m.s.addRecord(d[0].text, append(slices.Clone(m.path), name), d[min(open+1, end):end], false)
	}
	rest := d[min(end+1, len(d)):]
	if len(rest) == 0 {
		m.r.plain = m.r.plain && name != "" // an anonymous member has fields of this structure
		return nil
	}
	return append([]token{{text: "int"}}, rest...)
}

// isFunction reports whether a declaration declares a function.
func isFunction(d []token) bool {
	for i := 0; i < len(d); i++ {
		switch t := d[i]; {
		case t.is("="):
			return false
		case t.is("operator"):
			return true
		case t.is("<"):
			i = matchingAngle(d, i)
		case t.is("(") && i > 0 && slices.Contains(attributes, d[i-1].text):
			i = matching(d, i)
		case t.is("("):
			return i+1 >= len(d) || !d[i+1].is("*") && !d[i+1].is("&")
		}
	}
	return false
}

// field reads a declarator. Only the first has the type before it.
func (m *memberScanner) field(d []token, first, aligned bool) {
	if i := slices.IndexFunc(d, func(t token) bool { return t.is(":") || t.is("=") || t.is("{") }); i >= 0 {
		m.r.plain = m.r.plain && !d[i].is(":") // a bit field
		d = d[:i]
	}
	if !first {
		d = append([]token{{text: "int"}}, d...)
	}
	name := readParam(d).name
	m.r.plain = m.r.plain && name != ""
	m.r.fields = append(m.r.fields, srcField{name, aligned})
}
