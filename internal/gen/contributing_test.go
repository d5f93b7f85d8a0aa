package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the test finds in a document: paths between backquotes or in links, go commands
// with packages, and environment variables.
var (
	quoted    = regexp.MustCompile("`([^`\n]+)`|\\]\\(([^)]+)\\)")
	pathWord  = regexp.MustCompile(`^\.?[a-z][\w./*-]*(/[\w.*-]+|\.(go|md|mod))$`)
	goCommand = regexp.MustCompile(`go (?:test|vet|build|run) [^` + "`\n]*")
	runFlag   = regexp.MustCompile(` -run (\w+)`)
	variable  = regexp.MustCompile(`\bFERRY_[A-Z_]+`)
)

// TestContributing holds the steps of CONTRIBUTING.md true: each file, package, test
// and environment variable that it names exists.
func TestContributing(t *testing.T) {
	root, text := readDocument(t, contributingPath)
	if paths, commands := checkDocument(t, root, text); paths < 35 || commands < 15 {
		t.Errorf("found %d paths and %d commands, want at least 35 and 15", paths, commands)
	}
}

// TestTemplates does the same for the templates of issues and pull requests.
func TestTemplates(t *testing.T) {
	for _, name := range []string{"PULL_REQUEST_TEMPLATE.md", "ISSUE_TEMPLATE/bug.md", "ISSUE_TEMPLATE/performance.md", "ISSUE_TEMPLATE/question.md"} {
		t.Run(name, func(t *testing.T) {
			root, text := readDocument(t, ".github/"+name)
			checkDocument(t, root, text)
		})
	}
}

func readDocument(t *testing.T, path string) (root, text string) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return root, string(data)
}

// checkDocument checks everything that a document names, and counts it.
func checkDocument(t *testing.T, root, text string) (paths, commands int) {
	t.Helper()
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		if path := m[1] + m[2]; pathWord.MatchString(path) || m[2] != "" {
			paths++
			mustExist(t, root, path)
		}
	}
	for _, command := range goCommand.FindAllString(text, -1) {
		commands++
		checkCommand(t, root, command)
	}
	checkVariables(t, text)
	return paths, commands
}

// mustExist demands a file or folder of the repository; path may have a * in it.
func mustExist(t *testing.T, root, path string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, path))
	if err != nil || len(found) == 0 {
		t.Errorf("%s does not exist", path)
	}
}

// checkCommand demands that the packages of a go command exist, and the test that it
// runs in one of them.
func checkCommand(t *testing.T, root, command string) {
	t.Helper()
	var dirs []string
	for word := range strings.FieldsSeq(command) {
		if dir, ok := strings.CutPrefix(word, "./"); ok && dir != "..." && dir != "PACKAGE" {
			dir = strings.TrimSuffix(dir, "/...")
			mustExist(t, root, dir)
			dirs = append(dirs, dir)
		}
	}
	run := runFlag.FindStringSubmatch(command)
	if run == nil || strings.HasPrefix(command, "go run ") {
		return // a flag of a program
	}
	for _, dir := range dirs {
		if hasTest(t, filepath.Join(root, dir), run[1]) {
			return
		}
	}
	t.Errorf("%q: %v have no test %s", command, dirs, run[1])
}

// checkVariables demands that Go code reads each environment variable.
func checkVariables(t *testing.T, text string) {
	t.Helper()
	missing := make(map[string]bool)
	for _, name := range variable.FindAllString(text, -1) {
		missing[name] = true
	}
	source := goSource(t)
	for name := range missing {
		if !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("nothing reads the variable %s", name)
		}
	}
}

// TestContributingFindsWhatIsMissing checks the checks.
func TestContributingFindsWhatIsMissing(t *testing.T) {
	for _, word := range []string{"cu/driver.go", ".ci/run", "go.mod", "docs/results/cutest-*.json", "internal/gen"} {
		if !pathWord.MatchString(word) {
			t.Errorf("%s is not taken for a path", word)
		}
	}
	for _, word := range []string{"got", "go test ./cutest", "cu.Driver", "c.observe", "package: what changes", "//cu:call"} {
		if pathWord.MatchString(word) {
			t.Errorf("%s is taken for a path", word)
		}
	}
	if got := goCommand.FindString("x `FERRY_REQUIRE_GPU=1 go test ./cutest -run TestLibcuda` y"); got != "go test ./cutest -run TestLibcuda" {
		t.Errorf("command %q", got)
	}
}

// TestPartsTable finds the table of CONTRIBUTING.md up to date.
func TestPartsTable(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := generate(root, parts()[1:2], true); err != nil {
		t.Error(err)
	}
}
