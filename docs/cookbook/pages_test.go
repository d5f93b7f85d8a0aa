package cookbook_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the code and the output of the Examples into the pages")

// title is the title of a page: words, and names of C for a search.
var title = regexp.MustCompile(`^# .*(cu[A-Z]|cuda[A-Z]|CHECK|nvprof).*\n`)

// part is a part of a page that shows an Example, or must and check: its name between two comments.
var part = regexp.MustCompile(`(?s)<!-- example (\w+) -->\n.*?<!-- end -->\n`)

// TestPages demands that the pages show the code and the output of the Examples, that each
// Example is in one page, and that the index has each page. With -update it writes them.
func TestPages(t *testing.T) {
	examples := parse(t)
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		want := part.ReplaceAllStringFunc(string(text), func(old string) string {
			name := part.FindStringSubmatch(old)[1]
			shown[name]++
			if examples[name] == "" {
				t.Errorf("%s: there is no Example_%s", page, name)
				return old
			}
			return "<!-- example " + name + " -->\n" + examples[name] + "<!-- end -->\n"
		})
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if want != string(text) {
			t.Errorf("%s is not what the Examples are: run go test ./docs/cookbook -update", page)
		}
		if page != "README.md" && !strings.Contains(string(index), "("+page+")") {
			t.Errorf("README.md has no link to %s", page)
		}
		if page != "README.md" && !strings.Contains(want, "```sh\nferry ") {
			t.Errorf("%s has no command that shows the cost", page)
		}
		if page != "README.md" && !title.MatchString(want) {
			t.Errorf("%s: the title has no name of CUDA C", page)
		}
		if n := strings.Count(want, "\n"); n > 160 {
			t.Errorf("%s has %d lines, want at most 160", page, n)
		}
	}
	for name := range examples {
		if shown[name] != 1 {
			t.Errorf("Example_%s is in %d pages, want 1", name, shown[name])
		}
	}
}

// TestMacro demands that the macro of error-macro.md is the one that programs in CUDA C++ use.
func TestMacro(t *testing.T) {
	header, err := os.ReadFile("../../examples/cuda/check.h")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("error-macro.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```c\n")
	macro, _, ended := strings.Cut(rest, "```\n")
	if !found || !ended || !strings.HasPrefix(macro, "#define CHECK(call)") || !strings.Contains(string(header), macro) {
		t.Errorf("examples/cuda/check.h has another macro than the page: %s", macro)
	}
}

// parse returns the Examples of this folder by name, as Markdown: the code and its output. Under
// "must" are the two functions that they share.
func parse(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var functions []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && (fn.Name.Name == "must" || fn.Name.Name == "check") {
				functions = append(functions, string(text[set.Position(fn.Doc.Pos()).Offset:set.Position(fn.End()).Offset]))
			} else if ok && !strings.HasPrefix(fn.Name.Name, "Example_") && name != "pages_test.go" {
				t.Errorf("%s: %s is in no page: an Example may call must and check alone", name, fn.Name.Name)
			}
			if ok && strings.HasPrefix(fn.Name.Name, "Example_") {
				body := text[set.Position(fn.Body.Lbrace).Offset+1 : set.Position(fn.Body.Rbrace).Offset]
				out[strings.TrimPrefix(fn.Name.Name, "Example_")] = page(t, fn.Name.Name, body)
			}
		}
	}
	out["must"] = "```go\n" + strings.Join(functions, "\n\n") + "\n```\n"
	if !slices.Contains(files, "memory_test.go") || len(out) == 0 {
		t.Fatal("no Examples here")
	}
	return out
}

// page returns the body of an Example as Markdown.
func page(t *testing.T, name string, body []byte) string {
	t.Helper()
	code, output, found := bytes.Cut(body, []byte("\t// Output:\n"))
	if !found {
		t.Fatalf("%s has no output", name)
	}
	source, err := format.Source(code)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var lines []string
	for line := range strings.Lines(string(output)) {
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(line, "\t//"), " "))
	}
	return "```go\n" + unindent(string(source)) + "```\n\nIt prints, with [`must` and `check`](README.md#must-and-check):\n\n```text\n" + strings.Join(lines, "") + "```\n"
}

// unindent removes one tab from each line.
func unindent(code string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(code, "\n") + "\n") {
		b.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return b.String()
}
