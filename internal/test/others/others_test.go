package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const module = "module example.com/other\n\ngo 1.22\n"

const tests = `package other

import (
	"fmt"
	"os"
	"testing"
)

func TestRight(t *testing.T) { t.Run("part", func(t *testing.T) {}) }

func TestLibrary(t *testing.T) {
	if os.Getenv("LD_LIBRARY_PATH") == "" {
		t.Error("no folder of the library")
	}
}

func TestLeftOut(t *testing.T) { t.Skip("not here") }

func TestRefused(t *testing.T) {
	for range 2 {
		fmt.Fprintln(os.Stderr, "ferry: cuArrayCreate_v2: CUDA_ERROR_NOT_SUPPORTED: it is not there")
	}
	t.Error("it failed")
}

func TestWrong(t *testing.T) {
	t.Run("part", func(t *testing.T) { t.Error("1 | 2, want 3") })
}
`

// write writes a module with a file of tests.
func write(t *testing.T, text string) (dir string) {
	dir = t.TempDir()
	for name, text := range map[string]string{"go.mod": module, "other_test.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRun runs the tests of a module, and reads what they say.
func TestRun(t *testing.T) {
	r := runner{lib: "/lib-of-the-test", packages: []string{"./..."}}
	res, err := r.test(t.Context(), write(t, tests))
	if err != nil {
		t.Fatal(err)
	}
	const want = "| other | 2 | 1 | 1 | 0 | 1 | TestRefused: refused: `cuArrayCreate_v2`; TestWrong: other_test.go:27: 1 \\| 2, want 3 |\n"
	if got := res.row("other"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestBroken demands that a module without a test that runs is an error, and no row of zeros.
func TestBroken(t *testing.T) {
	r := runner{lib: "/lib-of-the-test", packages: []string{"./..."}}
	_, err := r.test(t.Context(), write(t, "package other\n\nvar x int = nosuch\n"))
	if err == nil || !strings.Contains(err.Error(), "undefined: nosuch") {
		t.Errorf("got error %v, want what the compiler says", err)
	}
}

// TestNoLibrary demands an error that says how to make the library.
func TestNoLibrary(t *testing.T) {
	r := runner{lib: t.TempDir()}
	if err := r.all(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "ferry lib") {
		t.Errorf("got error %v, want one that names ferry lib", err)
	}
}

// fakePython writes what the plugin writes. Its first process ends within the fourth test, with the
// code of a test that took too long.
const fakePython = `#!/bin/sh
say() { printf '{"test": "t.py::%s", "state": "started"}\n' "$1" >>"$FERRY_OTHERS"; test -z "$2" ||
	printf '{"test": "t.py::%s", "state": "%s", "text": "%s"}\n' "$1" "$2" "$3" >>"$FERRY_OTHERS"; }
case $LD_LIBRARY_PATH:$PYTHONPATH in
/lib-of-the-test:/more:*:/site) ;;
*) exit 4 ;;
esac
test -f sitecustomize.py && test -f ferry_others.py || exit 4
if test -f again; then
	say five failed 'E   CUDA_ERROR_NO_BINARY_FOR_GPU\nE   last words'
	say six failed 'E   one\nE   1 | 2'
	say seven xfailed
	exit 1
fi
touch again
say one passed
say two skipped
say three failed 'ferry: cuArrayCreate_v2: CUDA_ERROR_NOT_SUPPORTED: no: cvt.x: this form of cvt'
say four
exit 1
`

// TestPython runs a Python that ends early, and reads what the plugin wrote.
func TestPython(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(exe, []byte(fakePython), 0o700); err != nil {
		t.Fatal(err)
	}
	p := python{command: exe, path: []string{"/site"}, libs: []string{"/more"}, limit: time.Minute}
	r, err := p.suite(t.Context(), "/lib-of-the-test", "package")
	if err != nil {
		t.Fatal(err)
	}
	const want = "| package | 1 | 2 | 1 | 1 | 2 | t.py::three: refused: `cuArrayCreate_v2`, `cvt.x`; t.py::four: it did not end; t.py::six: 1 \\| 2 |\n"
	if got := r.row("package"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.path = nil
	if _, err := p.suite(t.Context(), "/lib-of-the-test", "package"); err == nil || !strings.Contains(err.Error(), "no test of package ran") {
		t.Errorf("got error %v, want one of a Python that runs no test", err)
	}
}
