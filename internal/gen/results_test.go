package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestResults: each file of results has a row that says how it was made, and each row has its
// file. The programs of peers that documents name exist, and each of them is named.
func TestResults(t *testing.T) {
	root, readme := readDocument(t, "docs/results/README.md")
	listed := map[string]bool{}
	for line := range strings.Lines(readme) {
		if cells := strings.Split(line, " | "); len(cells) > 2 {
			for _, m := range resultFile.FindAllStringSubmatch(cells[0], -1) {
				listed[m[1]] = true
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join(root, "docs/results"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "README.md" && !listed[e.Name()] {
			t.Errorf("docs/results/README.md has no row for %s", e.Name())
		}
		delete(listed, e.Name())
	}
	for name := range listed {
		t.Errorf("docs/results/README.md has a row for %s, which is not there", name)
	}
	mustNamePeers(t, root)
}

var (
	resultFile  = regexp.MustCompile("`([\\w-]+\\.[a-z]+)`")
	peerProgram = regexp.MustCompile(`internal/measure/bench/peer/([\w.]+\w)`)
)

// mustNamePeers compares the programs of peers with the documents and the code that runs them.
func mustNamePeers(t *testing.T, root string) {
	t.Helper()
	const dir = "internal/measure/bench/peer"
	named := goSource(t)
	eachFile(t, ".md", func(path, text string) {
		for _, m := range peerProgram.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, dir, m[1])); err != nil && path != "CHANGELOG.md" {
				t.Errorf("%s names %s, which is not there", path, m[0])
			}
		}
		named += text
	})
	texts := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := readFileOrFolder(filepath.Join(root, dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[e.Name()] = text
	}
	for name := range texts {
		found := strings.Contains(named, name)
		for other, text := range texts {
			found = found || other != name && strings.Contains(text, name)
		}
		if !found {
			t.Errorf("no document, no code and no other program names %s/%s", dir, name)
		}
	}
}
