package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryTableIsAPart finds documents with a table between comments, which a test
// writes: go generate must know the test.
func TestEveryTableIsAPart(t *testing.T) {
	var known []string
	for _, p := range parts() {
		known = append(known, p.files...)
	}
	eachFile(t, ".md", func(path, text string) {
		if strings.Contains(text, "\n<!-- ") && !slices.Contains(known, path) {
			t.Errorf("%s has a generated table; add its test to parts in internal/gen/part.go", path)
		}
	})
}

// TestOneDirective demands that go generate runs this command only, which writes
// every part in the right order. The examples show a directive of their own, as the
// programs of users have one.
func TestOneDirective(t *testing.T) {
	var got []string
	eachFile(t, ".go", func(path, text string) {
		if strings.Contains(text, "\n//go:generate ") && !strings.HasPrefix(path, "examples/") {
			got = append(got, path)
		}
	})
	if want := []string{"internal/gen/doc.go"}; !slices.Equal(got, want) {
		t.Errorf("go:generate directives in %v, want them in %v; add a part in internal/gen/part.go instead", got, want)
	}
}

// TestPartsExist finds the files of every part, and the test that writes them.
func TestPartsExist(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts() {
		for _, file := range p.files {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Error(err)
			}
		}
		if p.make == nil && !hasTest(t, filepath.Join(root, p.pkg), p.test) {
			t.Errorf("package %s has no test %s, which writes %v", p.pkg, p.test, p.files)
		}
	}
}

// hasTest reports whether the tests of a folder have a function whose name matches.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`(?m)^func ` + name + `\w*\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if pattern.Match(text) {
			return true
		}
	}
	return false
}

// eachFile calls f for every file of the module with an extension, by its path from
// the root.
func eachFile(t *testing.T, ext string, f func(path, text string)) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ext {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		f(filepath.ToSlash(rel), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRunTest lets a test fail, and names one that does not exist.
func TestRunTest(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module m\n")
	write(t, filepath.Join(dir, "a_test.go"), `package m

import (
	"flag"
	"testing"
)

var update = flag.Bool("update", false, "")

func TestTable(t *testing.T) {
	if !*update {
		t.Error("the table differs")
	}
}
`)
	p := &part{files: []string{"table.md"}, pkg: ".", test: "TestTable"}
	err := p.runTest(dir, true)
	if err == nil || !strings.Contains(err.Error(), `table.md is stale (run "go generate ./...")`) || !strings.Contains(err.Error(), "the table differs") {
		t.Errorf("check of a stale table: %v", err)
	}
	if err := p.runTest(dir, false); err != nil {
		t.Errorf("writing the table: %v", err)
	}
	p.test = "TestNone"
	if err := p.runTest(dir, false); err == nil || !strings.Contains(err.Error(), "no test TestNone") {
		t.Errorf("a test that does not exist: %v", err)
	}
}
