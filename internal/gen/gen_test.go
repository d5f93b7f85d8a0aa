package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUpToDate fails when a part that this command makes without a test is stale: the files of
// libcuda, the wrappers of drivers, the page of packages. With -update it writes them.
func TestUpToDate(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	made := slices.DeleteFunc(parts(), func(p part) bool { return p.make == nil })
	if err := generate(root, made, !*update); err != nil {
		t.Error(err)
	}
}

func TestDeterministic(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	first, err := libcudaFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := libcudaFiles(root)
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			if !bytes.Equal(first[i].text, again[i].text) {
				t.Fatalf("two runs give different texts of %s", first[i].path)
			}
		}
	}
}

// TestCheckFindsADifference changes the source of generated files.
func TestCheckFindsADifference(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, source), string(text))
	if err := os.Mkdir(filepath.Join(dir, "libcuda"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := generate(dir, parts()[:1], true); err == nil {
		t.Error("check of missing files succeeded")
	}
	if err := generate(dir, parts()[:1], false); err != nil {
		t.Fatal(err)
	}
	if err := generate(dir, parts()[:1], true); err != nil {
		t.Errorf("check of fresh files: %v", err)
	}
	write(t, filepath.Join(dir, source), strings.Replace(string(text), "cuMemFree_v2 3020", "cuMemFree 2000", 1))
	if err := generate(dir, parts()[:1], true); err == nil || !strings.Contains(err.Error(), procsPath) {
		t.Errorf("check after a change: %v", err)
	}
}

// TestGolden generates calls with every kind of argument.
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

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with a file, or writes the file with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
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

func TestBadAlsoLine(t *testing.T) {
	_, err := parse("d.go", []byte("package cu\n\n// T is.\n//\n//cu:also cuF\ntype T interface{}\n"))
	if err == nil || !strings.Contains(err.Error(), "malformed") || !strings.HasPrefix(err.Error(), "d.go:") {
		t.Errorf("error %v, want one with a position and the line", err)
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
		{"twice", "//cu:call cuF 2000 (n, n)\nF(n int32) error", "listed twice"},
		{"left out", "//cu:call cuF 2000 (n)\nF(n, m int32) error", `"m" is not among`},
		{"unknown type", "//cu:call cuF 2000 (m)\nF(m map[int]int) error", "does not know"},
		{"array without a number", "//cu:call cuF 2000 (*a)\nF() (a [n]byte, err error)", "does not know"},
		{"no stream", "//cu:call cuF 2000 (n) context=n\nF(ctx Context, n int32) error", "no parameter that is a stream"},
		{"no context", "//cu:call cuF 2000 (s) context=s\nF(s Stream) error", "needs a first parameter ctx"},
		{"too long", "//cu:call cuF 2000 (a, b, c, d, s) context=s\nF(ctx Context, a, b, c, d int32, s Stream) error", "4 arguments at most"},
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
