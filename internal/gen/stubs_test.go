package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

func thisLibrary(t *testing.T) (*library, []*method) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	l, err := readLibrary(root)
	if err != nil {
		t.Fatal(err)
	}
	methods, err := methodsIn(root)
	if err != nil {
		t.Fatal(err)
	}
	return l, methods
}

// TestEveryMethodHasAStub demands that C programs can call all that cu.Driver has, in the form that
// it has, and that the version of the form is the same everywhere.
func TestEveryMethodHasAStub(t *testing.T) {
	l, methods := thisLibrary(t)
	version := map[string]string{}
	for _, x := range l.names {
		version[x.name] = x.version
	}
	if len(methods) < 150 {
		t.Errorf("%d methods, want 150 or more", len(methods))
	}
	for _, m := range methods {
		if kind := l.kind(m.export); kind == "refused" && m.group != "" { // a line //cu:also is no method
			t.Errorf("%s is refused by the library: cu.Driver has %s. Write a function with a line //c:call in %s", m.export, m.name, entryDir)
		}
		if got := atoi(version[m.export]); got != m.version {
			t.Errorf("%s is of CUDA %d in cu/driver.go, and of %d in %s", m.export, m.version, got, namesPath)
		}
	}
	for _, e := range l.entries {
		if e.from == nil && e.goes == "" {
			t.Errorf("%s calls nothing", e.name)
		}
	}
}

func atoi(digits string) (n int) {
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// TestPerThreadForms demands the form for the default stream of threads of each function that takes
// a stream and has one.
func TestPerThreadForms(t *testing.T) {
	l, _ := thisLibrary(t)
	n := 0
	for _, x := range l.names {
		base := perThread.ReplaceAllString(x.name, "")
		if base == x.name || l.kind(base) == "refused" {
			continue
		}
		n++
		if l.kind(x.name) == "refused" {
			t.Errorf("%s is refused, and %s is not", x.name, base)
		}
	}
	if n < 50 {
		t.Errorf("%d forms, want 50 or more", n)
	}
}

// TestStubsOfWrongSources reads sources with one fault each.
func TestStubsOfWrongSources(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	driver, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadFile(filepath.Join(root, namesPath))
	if err != nil {
		t.Fatal(err)
	}
	const fn = "\nfunc f(d cu.Driver, f *Frame) error { return nil }\n"
	for _, c := range []struct{ text, names, results, c, want string }{
		{text: "\n//c:call cuArrayDestroy (ptr array)" + fn, want: ""},
		{text: "\n//c:call cuArrayDestroy (ptr array)\n" + fn, want: "1 of 1 lines //c: are malformed"},
		{text: "\n//c:call cuArrayDestroy (pointer array)" + fn, want: `malformed argument "pointer array"`},
		{text: "\n//c:call cuArrayDestroy (ptr)" + fn, want: `malformed argument "ptr"`},
		{text: "\n//c:call cuArrayDestroy (ptr code)" + fn, want: "the stub has a variable of this name"},
		{text: "\n//c:call cuArrayDestroi (ptr array)" + fn, want: "cuArrayDestroi is no name of the driver API"},
		{text: "\n//c:call cuArrayDestroy ()" + fn + "\n//c:call cuArrayDestroy ()" + fn, want: "cuArrayDestroy has two entries"},
		{text: "\n//c:call cuArrayDestroy ()" + fn, c: "CUresult cuArrayDestroy(void) {\n", want: "has a stub in C, and a line that makes one"},
		{c: "CUresult cuArrayDestroi(void) {\n", want: "written in C, is no name of the driver API"},
		{c: "CUresult cuArrayDestroi(void);\n", want: ""},
		{results: "1 invalid argument\n", want: `malformed line "1 invalid argument\n"`},
		{names: "cuArrayDestroy\n", want: `malformed line "cuArrayDestroy\n"`},
	} {
		dir := t.TempDir()
		for path, text := range map[string]string{
			source: string(driver), namesPath: string(names) + c.names, resultsPath: c.results,
			entryDir + "/e.go": "package entry\n" + c.text, libraryDir + "/c.c": c.c,
		} {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, path), text)
		}
		_, err := readLibrary(dir)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q %q: %v", c.text, c.c, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q %q %q: the error is %v, want %q", c.text, c.c, c.names, err, c.want)
		}
	}
}

// TestResultTexts demands that each result of the driver API is in the library's list, under its name.
func TestResultTexts(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	l, err := readLibrary(root)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, r := range l.results {
		listed[r.code] = r.name
	}
	for code := range cu.Result(1000) {
		number, name := strconv.Itoa(int(code)), code.Name()
		if name == "CUDA_ERROR_"+number {
			name = "" // no result has this number
		}
		if listed[number] != name {
			t.Errorf("%s is %q in %s, want %q", number, listed[number], resultsPath, name)
		}
	}
}
