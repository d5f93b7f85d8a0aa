package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// maxLine is how many characters a prose line of Markdown has at most.
const maxLine = 120

// What the tests find in a line of Markdown.
var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	heading    = regexp.MustCompile(`^#+ +(.*)$`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocuments checks all Markdown files. It checks the length of prose lines, and that
// relative links lead to files and headings that exist. Paths, commands and variables in
// backquotes must exist.
func TestDocuments(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	names := goSource(t)
	documents := 0
	eachFile(t, ".md", func(path, text string) {
		documents++
		t.Run(path, func(t *testing.T) {
			if path != "docs/generated/coverage.md" { // which has recorded texts
				checkLines(t, text)
			}
			checkLinks(t, root, path, text)
			if path != "CHANGELOG.md" { // which names what no longer exists
				checkQuoted(t, root, text, names)
			}
			for _, command := range goCommand.FindAllString(text, -1) {
				checkCommand(t, root, command)
			}
			checkVariables(t, text)
		})
	})
	if documents < 20 {
		t.Errorf("found %d documents, want at least 20", documents)
	}
}

// checkLines demands that no prose line is too long.
func checkLines(t *testing.T, text string) {
	t.Helper()
	for _, i := range longLines(text) {
		t.Errorf("line %d has more than %d characters", i, maxLine)
	}
}

// longLines returns the numbers of prose lines that are too long. Code and the targets
// of links do not count.
func longLines(text string) (numbers []int) {
	for i, line := range prose(text) {
		line = codeSpan.ReplaceAllString(linkTarget.ReplaceAllString(line, "]"), "")
		if utf8.RuneCountInString(line) > maxLine {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// prose returns the lines of a document, with empty ones for tables and blocks of code.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") {
			lines[i] = ""
		}
		fenced = fenced != fence
	}
	return lines
}

// withoutCode returns a document with empty lines for blocks of code, where "](" is no link.
func withoutCode(text string) string {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fenced || fence {
			lines[i] = ""
		}
		fenced = fenced != fence
	}
	return strings.Join(lines, "\n")
}

// checkLinks demands that each relative link leads to a file, and to a heading if it
// names one.
func checkLinks(t *testing.T, root, path, text string) {
	t.Helper()
	for _, m := range linkTarget.FindAllStringSubmatch(withoutCode(text), -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		file := path
		if target != "" {
			file = filepath.Join(filepath.Dir(path), target)
		}
		data, err := readFileOrFolder(filepath.Join(root, file))
		switch {
		case err != nil:
			t.Errorf("the link to %s leads nowhere", m[1])
		case anchor != "" && !slices.Contains(slugs(data), anchor):
			t.Errorf("the link to %s: %s has no such heading", m[1], file)
		}
	}
}

// readFileOrFolder returns the text of a file. For a folder it returns "".
func readFileOrFolder(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", err
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

// slugs returns the anchors of a document's headings, as GitHub makes them.
func slugs(text string) (all []string) {
	for _, line := range prose(text) {
		if m := heading.FindStringSubmatch(line); m != nil {
			slug := notInSlug.ReplaceAllString(strings.ToLower(m[1]), "")
			all = append(all, strings.ReplaceAll(slug, " ", "-"))
		}
	}
	return all
}

// checkQuoted demands that each path between backquotes exists. Words with a slash can
// also be names in Go code, such as those of cases.
func checkQuoted(t *testing.T, root, text string, names string) {
	t.Helper()
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		word := m[1]
		if !pathWord.MatchString(word) {
			continue
		}
		start, _, _ := strings.Cut(word, "*")
		if found, _ := filepath.Glob(filepath.Join(root, word)); len(found) == 0 && !strings.Contains(names, `"`+start) {
			t.Errorf("%s does not exist", word)
		}
	}
}

// goSource returns the Go code of the module. It is read once.
func goSource(t *testing.T) string {
	t.Helper()
	readGo.Do(func() {
		eachFile(t, ".go", func(_, source string) { goCode.WriteString(source) })
	})
	return goCode.String()
}

var (
	readGo sync.Once
	goCode strings.Builder // what goSource returns
)

// TestDocumentsFindsWhatIsWrong checks the checks.
func TestDocumentsFindsWhatIsWrong(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for text, want := range map[string][]int{
		"short\n" + long:                        {2},
		"| " + long:                             nil,
		"    " + long:                           nil,
		"```\n" + long + "\n```\n" + long:       {4},
		"[a](" + strings.Repeat("b", 130) + ")": nil,
		"`" + strings.Repeat("b", 130) + "`":    nil,
	} {
		if got := longLines(text); !slices.Equal(got, want) {
			t.Errorf("%q has long lines %v, want %v", text, got, want)
		}
	}
	got := slugs("# A fourth look\n```\n# no heading\n```\n## Why does `Slice` panic, and: what?\n")
	if want := []string{"a-fourth-look", "why-does-slice-panic-and-what"}; !slices.Equal(got, want) {
		t.Errorf("slugs %q, want %q", got, want)
	}
}
