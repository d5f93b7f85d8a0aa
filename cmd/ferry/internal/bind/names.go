package bind

import (
	gotoken "go/token"
	"strings"
	"unicode"
	"unicode/utf8"
)

// goName returns the exported Go name for a C name: "VectorAdd" for "vector_add".
func goName(c string) string {
	c = strings.ReplaceAll(c, "*", "_ptr")
	parts := strings.FieldsFunc(c, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var b strings.Builder
	for _, p := range parts {
		if s := b.String(); s != "" && digit(s[len(s)-1]) && digit(p[0]) {
			b.WriteByte('_')
		}
		r, n := utf8.DecodeRuneInString(p)
		b.WriteRune(unicode.ToUpper(r))
		b.WriteString(p[n:])
	}
	if name := b.String(); gotoken.IsExported(name) {
		return name
	}
	return "X" + b.String()
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// lowerFirst returns the unexported form of a Go name: "vectorAdd" for "VectorAdd".
func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}

// localName returns the name of a Go parameter for a C name: "rowStride" for "row_stride".
// Empty names, and names that Go needs, become other names.
func localName(c string) string {
	name := goName(c)
	if r, _ := utf8.DecodeRuneInString(c); c != "" && !unicode.IsUpper(r) {
		name = lowerFirst(name)
	}
	if gotoken.IsKeyword(name) || name == "ferry" || name == "ferrybind" || name == "cu" || name == "error" {
		name += "_"
	}
	return name
}

// isReservedField reports whether a name cannot be a field of the generated type.
func isReservedField(name string) bool {
	return gotoken.IsKeyword(name) || name == "module" || name == "loaded"
}

// unique returns a name that is not taken, and takes it.
func unique(taken map[string]bool, name string, others ...string) string {
	for _, n := range append([]string{name}, others...) {
		if !taken[n] {
			taken[n] = true
			return n
		}
	}
	for taken[name] {
		name += "_"
	}
	taken[name] = true
	return name
}

// fileStem returns a file name without its folders and its last extension.
func fileStem(path string) string {
	path = path[strings.LastIndexAny(path, `/\`)+1:]
	if i := strings.LastIndexByte(path, '.'); i > 0 {
		path = path[:i]
	}
	return path
}
