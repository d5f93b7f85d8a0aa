package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpToDate fails when the generated files in the tree are not what
// cu/driver.go makes.
func TestUpToDate(t *testing.T) {
	if err := run(true); err != nil {
		t.Error(err)
	}
}

func TestDeterministic(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	first, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := generate(root)
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			if !bytes.Equal(first[i].text, again[i].text) {
				t.Fatalf("%s came out in two ways", first[i].path)
			}
		}
	}
}

// TestCheckSeesADifference plants one.
func TestCheckSeesADifference(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, "cu/driver.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module m\n")
	write(t, filepath.Join(dir, "cu/driver.go"), string(source))
	t.Chdir(filepath.Join(dir, "cu"))
	if err := os.Mkdir(filepath.Join(dir, "libcuda"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run(true); err == nil {
		t.Error("check of missing files succeeded")
	}
	if err := run(false); err != nil {
		t.Fatal(err)
	}
	if err := run(true); err != nil {
		t.Errorf("check of fresh files: %v", err)
	}
	write(t, filepath.Join(dir, "cu/driver.go"), strings.Replace(string(source), "cuMemFree 3020", "cuMemFree 2000", 1))
	if err := run(true); err == nil || !strings.Contains(err.Error(), "libcuda/zz_procs.go") {
		t.Errorf("check after a change: %v", err)
	}
}

// TestGolden has every kind of argument once.
func TestGolden(t *testing.T) {
	src, err := os.ReadFile("testdata/driver.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	methods, err := parse("driver.go.txt", src)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := callsFile(methods)
	if err != nil {
		t.Fatal(err)
	}
	procs, err := procsFile(methods)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/calls.golden", calls)
	golden(t, "testdata/procs.golden", procs)
}

// golden compares, or writes when GEN_UPDATE is set.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if os.Getenv("GEN_UPDATE") != "" {
		write(t, path, string(got))
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date; got:\n%s", path, got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBadLines(t *testing.T) {
	for _, c := range []struct{ name, method, want string }{
		{"no comment", "F() error", "no comment"},
		{"no line", "// F does.\nF() error", "no line"},
		{"spelling", "//cu:cal cuF 2000 ()\nF() error", "malformed"},
		{"no version", "//cu:call cuF ()\nF() error", "malformed"},
		{"two lines", "//cu:hand cuF 2000\n//cu:hand cuG 2000\nF() error", "second line"},
		{"no error", "//cu:call cuF 2000 (*n)\nF() (n int32)", "not an error"},
		{"unknown argument", "//cu:call cuF 2000 (n)\nF(m int32) error", `"n" is no parameter`},
		{"star missing", "//cu:call cuF 2000 (n)\nF() (n int32, err error)", "or starred"},
		{"twice", "//cu:call cuF 2000 (n, n)\nF(n int32) error", "there twice"},
		{"left out", "//cu:call cuF 2000 (n)\nF(n, m int32) error", `"m" is not among`},
		{"result left out", "//cu:call cuF 2000 ()\nF() (n int32, err error)", `"n" is not among`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse("d.go", []byte("package cu\ntype T interface {\n"+c.method+"\n}\n"))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "d.go:") {
				t.Errorf("error %v, want one with a position and %q", err, c.want)
			}
		})
	}
}
