package dl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// libm is a library of every Linux with glibc.
const libm = "libm.so.6"

// TestCall opens a library by its name and calls a function of it.
func TestCall(t *testing.T) {
	needLibrary(t)
	t.Setenv("LD_LIBRARY_PATH", "")
	l, err := (&Search{Names: []string{"libnothing.so.77", "libc.so.6"}}).Find()
	if err != nil {
		t.Fatal(err)
	}
	abs, err := l.Symbol("labs")
	if err != nil {
		t.Fatal(err)
	}
	if got := Call(abs, ^uintptr(41)); got != 42 {
		t.Errorf("labs(-42) = %d", got)
	}
	if _, err := l.Symbol("no_such_function"); err == nil || !strings.Contains(err.Error(), "no_such_function") {
		t.Errorf("a missing function: %v", err)
	}
}

// TestNothingInTheWorkingDirectory puts a library into the working directory and names
// that directory in each way that a loader accepts. It is never opened.
func TestNothingInTheWorkingDirectory(t *testing.T) {
	needLibrary(t)
	const name = "libferrytest.so"
	dir := t.TempDir()
	copyLibrary(t, filepath.Join(dir, name))
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	copyLibrary(t, filepath.Join(dir, "sub", name))
	t.Chdir(dir)
	for _, path := range []string{"", ":", ".", "/nowhere:", ":/nowhere", "/nowhere::/nowhere", ".:/nowhere", "/nowhere;", "sub", "sub:"} {
		t.Setenv("LD_LIBRARY_PATH", path)
		l, err := (&Search{Names: []string{name}, Dirs: []string{"", ".", "./", "sub", "sub/"}}).Find()
		if _, missing := errors.AsType[*NotFoundError](err); !missing {
			t.Errorf("LD_LIBRARY_PATH=%q: found %v, error %v", path, l, err)
		}
	}
	for _, path := range []string{name, "./" + name, "sub/" + name, ""} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not absolute") {
			t.Errorf("Open(%q): error %v", path, err)
		}
	}
	t.Setenv("LD_LIBRARY_PATH", ":"+dir)
	if l, err := (&Search{Names: []string{name}}).Find(); err != nil || l.Path() != filepath.Join(dir, name) {
		t.Errorf("the absolute element of LD_LIBRARY_PATH: %v, error %v", l, err)
	}
}

// TestFindOrder demands that the first directory wins, and in it the first name.
func TestFindOrder(t *testing.T) {
	needLibrary(t)
	t.Setenv("LD_LIBRARY_PATH", "")
	one, two, stubs := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "stubs")
	if err := os.Mkdir(stubs, 0o755); err != nil {
		t.Fatal(err)
	}
	copyLibrary(t, filepath.Join(stubs, "libferrya.so"))
	copyLibrary(t, filepath.Join(one, "libferryb.so"))
	copyLibrary(t, filepath.Join(two, "libferrya.so"))
	names := []string{"libferrya.so", "libferryb.so"}
	for _, c := range []struct {
		dirs []string
		want string
	}{
		{[]string{stubs, one, two}, filepath.Join(one, "libferryb.so")},
		{[]string{two, one}, filepath.Join(two, "libferrya.so")},
	} {
		if l, err := (&Search{Names: names, Dirs: c.dirs}).Find(); err != nil || l.Path() != c.want {
			t.Errorf("Find in %q: %v, error %v; want %s", c.dirs, l, err, c.want)
		}
	}
}

// TestNotFound demands that the error has all places, each with its reason.
func TestNotFound(t *testing.T) {
	needLibrary(t)
	t.Setenv("LD_LIBRARY_PATH", "relative")
	empty, broken := t.TempDir(), t.TempDir()
	file := filepath.Join(broken, "libferrytest.so")
	if err := os.WriteFile(file, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := (&Search{Names: []string{"libferrytest.so"}, Dirs: []string{empty, broken}}).Find()
	e, ok := errors.AsType[*NotFoundError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{empty + ": not there", file + ": ", "LD_LIBRARY_PATH has an element"} {
		if !slices.ContainsFunc(e.Tried, func(a Attempt) bool { return strings.Contains(a.String(), want) }) {
			t.Errorf("%v: lacks %q", e, want)
		}
	}
	if len(e.Tried) != 3 {
		t.Errorf("tried %v", e.Tried)
	}
}

// TestSearchPath demands what is absolute in a list, and whether all is.
func TestSearchPath(t *testing.T) {
	for list, want := range map[string]struct {
		dirs []string
		safe bool
	}{
		"": {nil, true}, "/a": {[]string{"/a"}, true}, "/a:/b;/c": {[]string{"/a", "/b", "/c"}, true},
		"/a;": {[]string{"/a"}, false}, ":/a": {[]string{"/a"}, false}, "b": {nil, false}, "/a;b": {[]string{"/a"}, false},
	} {
		if dirs, safe := searchPath(list); !slices.Equal(dirs, want.dirs) || safe != want.safe {
			t.Errorf("%q: %q, %t; want %q, %t", list, dirs, safe, want.dirs, want.safe)
		}
	}
}

// needLibrary skips a test where no library can be opened.
func needLibrary(t *testing.T) {
	t.Helper()
	if !Supported {
		t.Skip(ErrPlatform)
	}
}

// copyLibrary copies a library of this machine.
func copyLibrary(t *testing.T, path string) {
	t.Helper()
	for _, dir := range []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib"} {
		if data, err := os.ReadFile(filepath.Join(dir, libm)); err == nil {
			if err := os.WriteFile(path, data, 0o755); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Skip("no " + libm + " found here")
}

// TestCallback: C calls a function of Go, on memory of C's heap, which is zero at first.
func TestCallback(t *testing.T) {
	needLibrary(t)
	t.Setenv("LD_LIBRARY_PATH", "")
	l, err := (&Search{Names: []string{"libc.so.6"}}).Find()
	if err != nil {
		t.Fatal(err)
	}
	walk, err := l.Symbol("twalk") // calls a function for each node of a tree
	if err != nil {
		t.Fatal(err)
	}
	var got []uintptr
	visit, err := Callback(func(node uintptr) { got = append(got, node) })
	if err != nil {
		t.Fatal(err)
	}
	const node = 3 * 8 // at least: a key and two branches
	p, err := Allocate(node)
	if err != nil {
		t.Fatal(err)
	}
	if p%16 != 0 {
		t.Errorf("allocated at %#x, want a multiple of 16", p)
	}
	Call(walk, p, visit) // zeros are a leaf
	if !slices.Equal(got, []uintptr{p}) {
		t.Errorf("called with %#x, want %#x", got, p)
	}
	Free(p)
	if _, err := Allocate(^uintptr(0)); err == nil {
		t.Error("all of the address space was allocated")
	}
}
