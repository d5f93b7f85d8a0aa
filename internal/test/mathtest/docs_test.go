package mathtest

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

const docsFile = "../../../docs/notes/math.md"

// TestDocs compares the table of the document with the record. With -update it writes it.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- errors -->\n", "<!-- end of errors -->\n"
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the comments that mark the table", docsFile)
	}
	text := before + begin + table(readRecord(t)) + end + after
	if text == string(b) {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is out of date: go test -run TestDocs ./internal/test/mathtest -update", docsFile)
	}
	if err := os.WriteFile(docsFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// table has a row for each function that is not exact, and then names the exact ones. It
// rounds errors up.
func table(record map[string]Record) string {
	var s strings.Builder
	var exact []string
	s.WriteString("| function | float | double | float computed in | notes |\n|---|---|---|---|---|\n")
	for i := range functions {
		f := &functions[i]
		name, single, double := f.label(), record[f.name+"f"], record[f.name]
		switch {
		case f.hidden || f.approximate || f.name == "class":
		case f.method[0] == integers:
			exact = append(exact, "`"+name+"`")
		default:
			fmt.Fprintf(&s, "| `%s` | %.2f | %.2f | %s | %s |\n", name, math.Ceil(single.ULP*100)/100, math.Ceil(double.ULP*100)/100, strings.Replace(single.Method, direct, "float", 1), f.note)
		}
	}
	s.WriteString("\n" + wrap("Exact, or rounded once:", exact) + ".\n")
	return s.String()
}

// wrap adds words to a line, in lines of at most 120 characters.
func wrap(text string, words []string) string {
	width := len(text)
	for _, w := range words {
		if width += 1 + len(w); width > 118 {
			text += "\n" + w
			width = len(w)
			continue
		}
		text += " " + w
	}
	return text
}

// label is the name of a function in the table.
func (f *function) label() string {
	for _, c := range []struct{ end, text string }{{"_s", ", sine"}, {"_c", ", cosine"}, {"_quotient", ", quotient"}, {"_fraction", ", fraction"}, {"_whole", ", whole part"}} {
		if name, ok := strings.CutSuffix(f.name, c.end); ok {
			return name + c.text
		}
	}
	return f.name
}
