package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// contribModules returns the folders of the modules in contrib, and their go.mod.
func contribModules(t *testing.T) map[string]string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(root, "contrib", "*", "go.mod"))
	modules := map[string]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		modules[filepath.Dir(name)] = string(text)
	}
	if len(modules) < 3 {
		t.Fatalf("contrib has %d modules", len(modules))
	}
	return modules
}

// needsFerry finds the version of Ferry in a go.mod, and the hash in it.
var needsFerry = regexp.MustCompile(`(?m)^(?:require |\t)` + regexp.QuoteMeta(module) + ` (v0\.0\.0-\d{14}-([0-9a-f]{12}))$`)

// TestContribVersions: each module in contrib has its folder's name, and needs Ferry at a commit that
// this repository has, by the pseudo-version that Go makes of it. In the clone the root replaces it.
func TestContribVersions(t *testing.T) {
	for dir, text := range contribModules(t) {
		name := filepath.Base(dir)
		for _, line := range []string{"module " + module + "/contrib/" + name, "replace " + module + " => ../.."} {
			if !strings.Contains("\n"+text, "\n"+line+"\n") {
				t.Errorf("contrib/%s/go.mod lacks the line %q", name, line)
			}
		}
		m := needsFerry.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("contrib/%s/go.mod requires no version of %s that is v0.0.0-TIME-HASH", name, module)
			continue
		}
		checkVersion(t, dir, m[1], m[2])
	}
}

// checkVersion demands that a version is of a commit before this one.
func checkVersion(t *testing.T, dir, version, hash string) {
	t.Helper()
	git := func(args ...string) (string, error) {
		c := exec.Command("git", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "TZ=UTC")
		out, err := c.Output()
		return strings.TrimSpace(string(out)), err
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		t.Skip("the history of the repository is not here")
	}
	at, err := git("show", "--no-patch", "--abbrev=12", "--date=format-local:%Y%m%d%H%M%S", "--format=%cd-%h", hash)
	if want := "v0.0.0-" + at; err != nil || version != want {
		t.Errorf("%s requires %s, want %s of that commit: %v", dir, version, want, err)
	}
	if _, err := git("merge-base", "--is-ancestor", hash, "HEAD"); err != nil {
		t.Errorf("%s requires commit %s, which is not before HEAD: %v", dir, hash, err)
	}
}

// TestContribCode: the Go code of contrib/README.md stands in the examples of the modules, which their
// tests compile.
func TestContribCode(t *testing.T) {
	var examples strings.Builder
	for dir := range contribModules(t) {
		text, err := os.ReadFile(filepath.Join(dir, "example_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			examples.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	_, document := readDocument(t, "contrib/README.md")
	blocks := goBlock.FindAllStringSubmatch(document, -1)
	for _, m := range blocks {
		var code strings.Builder
		for line := range strings.Lines(m[1]) {
			code.WriteString(strings.TrimSpace(line) + "\n")
		}
		if !strings.Contains(examples.String(), "\n"+code.String()) {
			t.Errorf("no example of contrib has\n%s", m[1])
		}
	}
	if len(blocks) < 6 {
		t.Errorf("contrib/README.md has %d blocks of Go", len(blocks))
	}
}
