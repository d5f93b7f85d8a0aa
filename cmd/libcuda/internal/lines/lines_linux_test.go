package lines

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/callsite"
)

// source makes calls at lines that have a mark, and prints where each returns to.
const source = `#include <stdio.h>
void stub(const char *name) __attribute__((noinline));
void stub(const char *name) { printf("%s %p\n", name, __builtin_return_address(0)); }
extern void elsewhere(void);
static inline __attribute__((always_inline)) void within(void) {
	stub("inlined"); // inlined
}
static __attribute__((noinline)) int run(int n) {
	stub("first"); // first
	for (int i = 0; i < n; i++)
		stub("loop"); // loop
	within();
	return n + 1;
}
int main(int argc, char **argv) {
	int n = run(argc);
	elsewhere();
	fflush(stdout);
	return getchar() + n;
}
`

// library makes a call, too.
const library = `extern void stub(const char *name);
void elsewhere(void) {
	stub("library"); // library
	__asm__ volatile("");
}
`

// plusplus has functions in a class and in a namespace.
const plusplus = `#include <cstdio>
__attribute__((noinline)) void stub(const char *name) { printf("%s %p\n", name, __builtin_return_address(0)); }
namespace far { struct job { __attribute__((noinline)) int work(); }; }
int far::job::work() {
	stub("method"); // method
	return 1;
}
int main() {
	far::job j;
	int n = j.work();
	fflush(stdout);
	return getchar() + n;
}
`

// compiler returns a compiler, or skips the test.
func compiler(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s", name)
	}
	return path
}

// build runs a compiler in a folder.
func build(t *testing.T, dir, cc string, args ...string) {
	t.Helper()
	c := exec.Command(cc, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
}

// write writes a source.
func write(t *testing.T, dir, name, text string) {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start runs a program until it waits for input, and returns where its calls return to.
func start(t *testing.T, dir string) (*Process, map[string]uintptr) {
	t.Helper()
	c := exec.Command(filepath.Join(dir, "prog"))
	in, inErr := c.StdinPipe()
	out, outErr := c.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	calls := map[string]uintptr{}
	for s := bufio.NewScanner(out); s.Scan(); {
		name, text, _ := strings.Cut(s.Text(), " ")
		at, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		if calls[name] = uintptr(at); name == "library" || name == "method" {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return &Process{dir: fmt.Sprintf("/proc/%d", c.Process.Pid)}, calls
}

// marked returns the number of the line that has a mark.
func marked(t *testing.T, text, mark string) int {
	before, _, ok := strings.Cut(text, "// "+mark+"\n")
	if !ok {
		t.Fatalf("no line has the mark %s", mark)
	}
	return strings.Count(before, "\n") + 1
}

// TestPlace: programs of two compilers, at fixed and at random addresses, with and without
// optimization, and a library.
func TestPlace(t *testing.T) {
	for _, flags := range []string{"gcc -g", "gcc -g -O2 -no-pie", "gcc -gdwarf-4 -O2", "clang -g", "clang-19 -g -O2", "gcc -g -gz"} {
		t.Run(flags, func(t *testing.T) {
			words := strings.Fields(flags)
			cc, dir := compiler(t, words[0]), t.TempDir()
			write(t, dir, "main.c", source)
			write(t, dir, "there.c", library)
			build(t, dir, cc, append(words[1:], "-shared", "-fPIC", "-o", "libthere.so", "there.c")...)
			build(t, dir, cc, append(words[1:], "-rdynamic", "-o", "prog", "main.c", "-L.", "-lthere")...)
			p, calls := start(t, dir)
			for mark, want := range map[string]callsite.Place{
				"first": {File: "main.c", Func: "run"}, "loop": {File: "main.c", Func: "run"},
				"inlined": {File: "main.c", Func: "run"}, "library": {File: "there.c", Func: "elsewhere"},
			} {
				want.Line = marked(t, source+library, mark)
				if mark == "library" {
					want.Line = marked(t, library, mark)
				}
				want.File = filepath.Join(dir, want.File)
				if got := p.Place(calls[mark]); got != want {
					t.Errorf("%s: got %+v, want %+v", mark, got, want)
				}
			}
		})
	}
}

// TestMethods: a method of C++ has its name in another entry than its code.
func TestMethods(t *testing.T) {
	cc, dir := compiler(t, "g++"), t.TempDir()
	write(t, dir, "main.cpp", plusplus)
	build(t, dir, cc, "-g", "-O2", "-o", "prog", "main.cpp")
	p, calls := start(t, dir)
	want := callsite.Place{File: filepath.Join(dir, "main.cpp"), Line: marked(t, plusplus, "method"), Func: "work"}
	if got := p.Place(calls["method"]); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestWithoutDebugging: what is left says as much as it can.
func TestWithoutDebugging(t *testing.T) {
	cc, dir := compiler(t, "gcc"), t.TempDir()
	write(t, dir, "main.c", source)
	write(t, dir, "there.c", library)
	build(t, dir, cc, "-shared", "-fPIC", "-o", "libthere.so", "there.c")
	build(t, dir, cc, "-rdynamic", "-no-pie", "-o", "prog", "main.c", "-L.", "-lthere")
	p, calls := start(t, dir)
	want := callsite.Place{File: fmt.Sprintf("prog+%#x", calls["first"]), Func: "run"}
	if got := p.Place(calls["first"]); got != want || got.String() != want.File {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := p.Place(calls["library"]); !strings.HasPrefix(got.File, "libthere.so+0x") || got.Func != "elsewhere" {
		t.Errorf("a library: got %+v", got)
	}
	if got := p.Place(0x10); got != (callsite.Place{}) {
		t.Errorf("where nothing is mapped: got %+v", got)
	}
	if err := os.Remove(filepath.Join(dir, "libthere.so")); err != nil {
		t.Fatal(err)
	}
	p.files = nil
	if got := p.Place(calls["library"]); !strings.HasPrefix(got.File, "libthere.so (deleted)+0x") || got.Func != noFunction {
		t.Errorf("a library that is gone: got %+v", got)
	}
}

// TestRemovedProgram: the program itself can be read after its removal, as that of "go run" is.
func TestRemovedProgram(t *testing.T) {
	cc, dir := compiler(t, "gcc"), t.TempDir()
	write(t, dir, "main.c", source)
	write(t, dir, "there.c", library)
	build(t, dir, cc, "-shared", "-fPIC", "-o", "libthere.so", "there.c")
	build(t, dir, cc, "-g", "-rdynamic", "-o", "prog", "main.c", "-L.", "-lthere")
	p, calls := start(t, dir)
	if err := os.Remove(filepath.Join(dir, "prog")); err != nil {
		t.Fatal(err)
	}
	if got := p.Place(calls["first"]); got.Line != marked(t, source, "first") || got.Func != "run" {
		t.Errorf("got %+v", got)
	}
}

// TestMappings: lines of memory without a file, and lines that are cut, have none.
func TestMappings(t *testing.T) {
	got, ok := parseMapping("7f00-7f80 r-xp 00001000 08:01 131                    /a folder/lib.so (deleted)")
	if want := (mapping{0x7f00, 0x7f80, 0x1000, "/a folder/lib.so (deleted)"}); got != want || !ok {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, line := range []string{"", "7f00-7f80 rw-p 00000000 00:00 0 ", "7f00-7f80 rw-p 00000000 00:00 0   [heap]", "7f00 rw-p 0 0 0 /x", "7f00-7f80 rw-p z 08:01 1 /x"} {
		if m, ok := parseMapping(line); ok {
			t.Errorf("%q: got %+v", line, m)
		}
	}
}
