package compile

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/kernels"
)

// maxErrors is how many errors an [Error] has at most.
const maxErrors = 20

// maxNotes is how many notes of one error are kept.
const maxNotes = 10

// The values of [Diagnostic].Severity.
const (
	severityError   = "error"
	severityWarning = "warning"
	severityNote    = "note"
)

// Diagnostic is one message of a compiler about a place in the source.
type Diagnostic struct {
	File     string `json:"file"`
	Line     int    `json:"line"`     // from 1; 0 if not known
	Column   int    `json:"column"`   // in bytes, from 1; 0 if not known
	Severity string `json:"severity"` // "error", "warning" or "note"
	Message  string `json:"message"`
	Source   string `json:"source,omitempty"` // the text of the line; empty if not known
}

// String returns the message as file:line:column: severity: message, then the line, and a
// caret below the column.
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.File != "" {
		b.WriteString(printable.Path(d.File))
		if d.Line > 0 {
			fmt.Fprintf(&b, ":%d", d.Line)
		}
		if d.Line > 0 && d.Column > 0 {
			fmt.Fprintf(&b, ":%d", d.Column)
		}
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "%s: %s", d.Severity, printable.Text(d.Message))
	if d.Source != "" {
		b.WriteString("\n" + printable.Text(d.Source))
		if d.Column > 0 && d.Column <= len(d.Source)+1 {
			b.WriteString("\n" + blank(printable.Text(d.Source[:d.Column-1])) + "^")
		}
	}
	return b.String()
}

// blank returns text with a space for each character except tabs, so that what follows
// stands below what followed text.
func blank(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, text)
}

// split divides what a compiler said into errors and warnings, each followed by its notes.
// It keeps maxErrors errors, and counts the others.
func split(all []Diagnostic) (errors, warnings []Diagnostic, more int) {
	var group *[]Diagnostic
	count, notes := 0, 0
	for _, d := range all {
		switch d.Severity {
		case severityNote:
			if notes++; group != nil && notes <= maxNotes {
				*group = append(*group, d)
			}
			continue
		case severityWarning:
			group = &warnings
		default:
			if count++; count > maxErrors {
				more, group = more+1, nil
				continue
			}
			group = &errors
		}
		notes = 0
		*group = append(*group, d)
	}
	return errors, warnings, more
}

// texts finds lines of source files.
type texts struct {
	unit  *unit
	files map[string][]string
}

// line returns a line of a file, or "" if it is not known. file is a name as diagnostics
// show it; path is where it is.
func (t *texts) line(file, path string, n int) string {
	lines, read := t.files[file]
	if !read {
		lines = strings.Split(t.read(file, path), "\n")
		if t.files == nil {
			t.files = map[string][]string{}
		}
		t.files[file] = lines
	}
	if n < 1 || n > len(lines) {
		return ""
	}
	return strings.TrimSuffix(lines[n-1], "\r")
}

// read returns the text of a file, or "".
func (t *texts) read(file, path string) string {
	if file == t.unit.name {
		return string(t.unit.source)
	}
	if name, ours := strings.CutPrefix(file, "<"); ours {
		return headerText(strings.TrimSuffix(name, ">"))
	}
	return readText(path, maxSource)
}

// readText returns the text of a regular file, or "" if it is larger than most bytes. Files
// that the system makes, such as those below /proc, have size 0 and may never end.
func readText(path string, most int64) string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, _ := inputfile.Read(path, most)
	return string(text)
}

// headerText returns the text of one of Ferry's headers by the name that includes it, or "".
func headerText(name string) string {
	for _, file := range []string{name, compatDir + "/" + name, standInDir + "/" + name} {
		if text, err := fs.ReadFile(kernels.Headers, file); err == nil {
			return string(text)
		}
	}
	return ""
}
