package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck demands an error of a file of another system, of a test, and of a
// function without a body, and none of what is right.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module try\n\ngo 1.26\n",
		"right.go":          "package try\n\nfunc right() int { return here }\n",
		"try_linux.go":      "package try\n\nconst here = 1\n",
		"try_windows.go":    "package try\n\nconst here = \"text\"\n",
		"try_test.go":       "package try\n\nvar _ string = right()\n",
		"body_darwin.go":    "package try\n\nconst here = 2\n\nfunc empty()\n",
		"other/assembly.go": "package other\n\nfunc Empty()\n",
		"other/assembly.s":  "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for system, want := range map[string][]string{
		"linux/amd64":   {"try_test.go:3:"},
		"windows/amd64": {"right.go:3:", "try_test.go:3:"},
		"darwin/arm64":  {"body_darwin.go:5:", "try_test.go:3:"},
	} {
		errs, err := check(dir, system, []string{"./..."})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(errs, "\n"), w) {
				t.Errorf("%s: no error has %q: %q", system, w, errs)
			}
		}
		if len(errs) != len(want) {
			t.Errorf("%s: %d errors, want %d: %q", system, len(errs), len(want), errs)
		}
	}
}
