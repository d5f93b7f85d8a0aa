package ferry_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUnsafe: package unsafe is imported only in files named *_unsafe*.go. Each of them that
// is not a test says in a comment that begins with "Unsafe:" which rule makes it right. No file
// imports package net.
func TestUnsafe(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil // a text of a test
		}
		imports, named := false, strings.Contains(d.Name(), "_unsafe")
		for _, i := range file.Imports {
			imports = imports || i.Path.Value == `"unsafe"`
			if i.Path.Value == `"net"` || strings.HasPrefix(i.Path.Value, `"net/`) {
				t.Errorf("%s imports %s: Ferry opens no port", path, i.Path.Value)
			}
		}
		if imports && !named {
			t.Errorf("%s imports unsafe, and its name lacks _unsafe", path)
		}
		if !named || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		found++
		rule := ""
		for _, c := range file.Comments {
			if text := c.Text(); strings.HasPrefix(text, "Unsafe: ") {
				rule = text
			}
		}
		if len(rule) < 40 {
			t.Errorf("%s does not say which rule makes it right: want a comment \"Unsafe: ...\"", path)
		}
		return nil
	})
	if err != nil || found < 30 {
		t.Errorf("%d files, %v", found, err)
	}
}

// TestSecurityPage: the tests that SECURITY.md names exist.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	check(t, err)
	missing := map[string]bool{}
	for _, m := range regexp.MustCompile("`(Test[A-Z][A-Za-z]*)`").FindAllStringSubmatch(string(page), -1) {
		missing[m[1]] = true
	}
	if len(missing) < 15 {
		t.Errorf("%d names of tests", len(missing))
	}
	check(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w*)\(t `).FindAllSubmatch(text, -1) {
			delete(missing, string(m[1]))
		}
		return err
	}))
	for name := range missing {
		t.Errorf("there is no %s", name)
	}
}
