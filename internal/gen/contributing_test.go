package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Places in CONTRIBUTING.md: paths between backquotes, and go commands with packages.
var (
	quoted    = regexp.MustCompile("`([^`\n]+)`")
	pathWord  = regexp.MustCompile(`^\.?[a-z][\w./*-]*(/[\w.*-]+|\.(go|md|mod))$`)
	goCommand = regexp.MustCompile(`go (?:test|vet|build|run) [^` + "`\n]*")
	runFlag   = regexp.MustCompile(`-run (\w+)`)
	variable  = regexp.MustCompile(`\bFERRY_[A-Z_]+`)
)

// TestContributing holds the steps of CONTRIBUTING.md true: each file, package, test
// and environment variable that it names exists.
func TestContributing(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, contributingPath))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if _, err := os.Stat(filepath.Join(root, "internal/ptxforms")); err != nil {
		// The recipe is written for internal/simt with its forms in a package of their own.
		text, _, _ = strings.Cut(text, "## Recipe: add a PTX instruction")
	}
	paths, commands := 0, 0
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		if pathWord.MatchString(m[1]) {
			paths++
			mustExist(t, root, m[1])
		}
	}
	for _, command := range goCommand.FindAllString(text, -1) {
		commands++
		checkCommand(t, root, command)
	}
	if paths < 35 || commands < 15 {
		t.Errorf("found %d paths and %d commands, want at least 35 and 15", paths, commands)
	}
	checkVariables(t, text)
}

// mustExist demands a file or folder of the repository; path may have a * in it.
func mustExist(t *testing.T, root, path string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, path))
	if err != nil || len(found) == 0 {
		t.Errorf("%s names %s, which does not exist", contributingPath, path)
	}
}

// checkCommand demands that the packages of a go command exist, and the test that it
// runs in one of them.
func checkCommand(t *testing.T, root, command string) {
	t.Helper()
	var dirs []string
	for word := range strings.FieldsSeq(command) {
		if dir, ok := strings.CutPrefix(word, "./"); ok && dir != "..." && dir != "PACKAGE" {
			mustExist(t, root, dir)
			dirs = append(dirs, dir)
		}
	}
	run := runFlag.FindStringSubmatch(command)
	if run == nil {
		return
	}
	for _, dir := range dirs {
		if hasTest(t, filepath.Join(root, dir), run[1]) {
			return
		}
	}
	t.Errorf("%s has the command %q, but %v have no test %s", contributingPath, command, dirs, run[1])
}

// checkVariables demands that Go code reads each environment variable.
func checkVariables(t *testing.T, text string) {
	t.Helper()
	missing := make(map[string]bool)
	for _, name := range variable.FindAllString(text, -1) {
		missing[name] = true
	}
	eachFile(t, ".go", func(_, source string) {
		for name := range missing {
			if strings.Contains(source, `"`+name+`"`) {
				delete(missing, name)
			}
		}
	})
	for name := range missing {
		t.Errorf("%s names the variable %s, which nothing reads", contributingPath, name)
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
