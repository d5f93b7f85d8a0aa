package compile

import (
	"path/filepath"
	"regexp"
	"strings"
)

// shown returns messages with the names of Ferry's headers instead of temporary files.
func (r *clangRun) shown(log string) string {
	prefix := regexp.QuoteMeta(r.headers + string(filepath.Separator))
	log = regexp.MustCompile(prefix+`([\w./\\-]*)`).ReplaceAllStringFunc(log, func(path string) string {
		return shownHeader(filepath.ToSlash(path[len(r.headers)+1:]))
	})
	return strings.NewReplacer(r.source, r.u.name, r.dir, "").Replace(log)
}

// clangForm matches a message of clang: file, line, column, severity and text. Messages
// about no place have no file.
var clangForm = regexp.MustCompile(`^(?:(.+?):(\d+):(\d+): |clang[^ ]*: )?(fatal error|error|warning|note|remark): (.*)$`)

// parseClang returns the messages of clang.
func parseClang(log string, u *unit) (all []Diagnostic) {
	lines := texts{unit: u}
	for text := range strings.Lines(log) {
		m := clangForm.FindStringSubmatch(strings.TrimRight(text, "\r\n"))
		if m == nil {
			continue
		}
		d := Diagnostic{File: m[1], Line: atoi(m[2]), Column: atoi(m[3]), Severity: severity(m[4]), Message: m[5]}
		d.Source = lines.line(d.File, d.File, d.Line)
		all = append(all, d)
	}
	return all
}

// severity returns the severity for a word of a compiler.
func severity(word string) string {
	switch word {
	case severityWarning, severityNote:
		return word
	case "remark":
		return severityNote
	}
	return severityError
}
