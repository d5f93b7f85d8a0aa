package kernelargs

import "strings"

// maxMangled is the length of the longest name that is read.
const maxMangled = 4096

// pointees returns, for each parameter of a function with a mangled C++ name, the letter of
// the type that it points to: 'f' for float*, 'd' for const double*. It is 0 for what is no
// pointer to a number. It ends where the name has something that is not understood. The
// letters are those of the Itanium C++ ABI, 5.1.5.2.
func pointees(name string) []byte {
	text, ok := strings.CutPrefix(name, "_Z")
	if !ok || len(name) > maxMangled {
		return nil
	}
	m := &mangled{text: text}
	if !m.name() {
		return nil
	}
	var all []byte
	for m.text != "" {
		t, ok := m.typ()
		if !ok {
			break
		}
		letter := byte(0)
		if len(t) == 2 && t[0] == 'P' {
			letter = t[1]
		}
		all = append(all, letter)
	}
	return all
}

// mangled is the rest of a mangled name, and what S_ and T_ stand for in it. A type is a
// letter, "P" and a type, or "?" for one that is not a number.
type mangled struct {
	text      string
	seen      []string // by number of the substitution
	templates []string // arguments of the template
}

// next removes and returns the next letter, 0 at the end.
func (m *mangled) next() byte {
	if m.text == "" {
		return 0
	}
	c := m.text[0]
	m.text = m.text[1:]
	return c
}

// name removes the name of the function. One of a template is followed by its arguments and
// the type that it returns.
func (m *mangled) name() bool {
	nested := strings.HasPrefix(m.text, "N")
	if nested {
		m.next()
	}
	parts := 0
	for m.source() {
		if parts++; !nested {
			break
		}
		if m.text != "" && m.text[0] != 'E' && m.text[0] != 'I' {
			m.seen = append(m.seen, "?") // a scope
		}
	}
	if parts == 0 {
		return false
	}
	template := strings.HasPrefix(m.text, "I")
	if template && !m.arguments() {
		return false
	}
	if nested && m.next() != 'E' {
		return false
	}
	if template {
		_, ok := m.typ()
		return ok
	}
	return true
}

// arguments removes the arguments of a template, which are types.
func (m *mangled) arguments() bool {
	m.seen = append(m.seen, "?") // the template
	m.next()
	for m.text != "" && m.text[0] != 'E' {
		t, ok := m.typ()
		if !ok {
			return false
		}
		m.templates = append(m.templates, t)
	}
	return m.next() == 'E'
}

// source removes an identifier, which its length precedes.
func (m *mangled) source() bool {
	n, digits := 0, 0
	for digits < len(m.text) && digits < 4 && m.text[digits] >= '0' && m.text[digits] <= '9' {
		n = 10*n + int(m.text[digits]-'0')
		digits++
	}
	if n == 0 || digits+n > len(m.text) {
		return false
	}
	m.text = m.text[digits+n:]
	return true
}

// typ removes and returns a type.
func (m *mangled) typ() (t string, ok bool) {
	qualified := false
	for m.text != "" && strings.IndexByte("rVK", m.text[0]) >= 0 {
		m.next()
		qualified = true
	}
	switch c := m.next(); {
	case c == 'P' || c == 'R' || c == 'O':
		if t, ok = m.typ(); !ok {
			return "", false
		}
		t = "P" + t
		m.seen = append(m.seen, t)
	case c == 'S':
		t, ok = m.refer(m.seen)
	case c == 'T':
		if t, ok = m.refer(m.templates); ok {
			m.seen = append(m.seen, t)
		}
	case c >= '1' && c <= '9':
		m.text = string(c) + m.text
		t, ok = "?", m.source()
		m.seen = append(m.seen, t)
	case c >= 'a' && c <= 'z' && c != 'u':
		t, ok = string(c), true
	}
	if qualified && ok {
		m.seen = append(m.seen, t)
	}
	return t, ok
}

// refer returns what _, 0_, 1_ and so on stand for in a list.
func (m *mangled) refer(list []string) (t string, ok bool) {
	i := 0
	for c, base := m.next(), 1; c != '_'; c, base = m.next(), 0 {
		digit := strings.IndexByte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", c)
		if digit < 0 || i > 1000 {
			return "", false
		}
		i = 36*(i-1+base) + digit + 1
	}
	if i >= len(list) {
		return "", false
	}
	return list[i], true
}

// cNumbers has, for the letters of numbers in C++, the type in C and its size in bytes.
var cNumbers = map[byte]struct {
	c    string
	size int
}{
	's': {"short", 2}, 't': {"unsigned short", 2}, 'i': {"int", 4}, 'j': {"unsigned int", 4}, 'l': {"long", 8}, 'm': {"unsigned long", 8},
	'x': {"long long", 8}, 'y': {"unsigned long long", 8}, 'f': {"float", 4}, 'd': {"double", 8},
}

// goSizes has the sizes of Go's numbers.
var goSizes = map[string]int{
	"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "int": 8, "uint": 8,
}

// Mismatch returns how a buffer's type, such as *ferry.Device[float64], differs from what a
// parameter of a kernel with a mangled name points to: "float*, 4 bytes each". It returns ""
// if that fits or is not known. Bytes fit everything.
func Mismatch(kernel string, param int, buffer string) string {
	all := pointees(kernel)
	_, element, _ := strings.Cut(buffer, "[")
	got := goSizes[strings.TrimSuffix(element, "]")]
	if param >= len(all) || got < 2 {
		return ""
	}
	if want, ok := cNumbers[all[param]]; ok && want.size != got {
		return want.c + "*"
	}
	return ""
}
