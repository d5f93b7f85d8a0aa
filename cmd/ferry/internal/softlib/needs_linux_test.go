package softlib

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNeedOf: programs that are linked with the driver, themselves or by a library that the loader
// finds, programs in Go that use Ferry, and others.
func TestNeedOf(t *testing.T) {
	gcc, dir := needs(t, "gcc"), t.TempDir()
	t.Setenv(pathVariable, "")
	write(t, filepath.Join(dir, "driver.c"), "int cuInit(unsigned f) { return 0; }\n")
	write(t, filepath.Join(dir, "between.c"), "int cuInit(unsigned); int between(void) { return cuInit(0); }\n")
	write(t, filepath.Join(dir, "user.c"), user)
	write(t, filepath.Join(dir, "indirect.c"), "int between(void); int main(void) { return between(); }\n")
	write(t, filepath.Join(dir, "plain.c"), "int main(void) { return 0; }\n")
	build(t, dir, gcc, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so", "driver.c")
	build(t, dir, gcc, "-shared", "-fPIC", "-o", "libbetween.so", "between.c", "-L.", "-lcuda")
	build(t, dir, gcc, "-o", "direct", "user.c", "-L.", "-lcuda")
	build(t, dir, gcc, "-o", "indirect", "indirect.c", "-L.", "-lbetween", "-Wl,--unresolved-symbols=ignore-all")
	build(t, dir, gcc, "-o", "origin", "indirect.c", "-L.", "-lbetween", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-rpath,$ORIGIN")
	build(t, dir, gcc, "-o", "plain", "plain.c")
	write(t, filepath.Join(dir, "script"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(dir, "script"), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // a program of Ferry's module
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]Need{
		filepath.Join(dir, "direct"): Always, filepath.Join(dir, "origin"): Always, filepath.Join(dir, "indirect"): Perhaps,
		filepath.Join(dir, "plain"): Perhaps, filepath.Join(dir, "script"): Perhaps, filepath.Join(dir, "none"): Perhaps,
		"sh": Perhaps, "go": Never, self: Never,
	} {
		if got := NeedOf(program); got != want {
			t.Errorf("%s: got %d, want %d", program, got, want)
		}
	}
	build(t, dir, gcc, "-fsanitize=thread", "-o", "watched", "plain.c")
	if !HasDetector(filepath.Join(dir, "watched")) || HasDetector(filepath.Join(dir, "plain")) || HasDetector(filepath.Join(dir, "script")) {
		t.Error("HasDetector is wrong")
	}
	t.Setenv(pathVariable, "/nowhere:"+dir)
	if got := NeedOf(filepath.Join(dir, "indirect")); got != Always {
		t.Errorf("a library in %s: got %d", pathVariable, got)
	}
	l := &Library{Folder: "/cache/x"}
	if got, want := l.Environment(), "LD_LIBRARY_PATH=/cache/x:/nowhere:"+dir; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	t.Setenv(pathVariable, "")
	if got, want := l.Environment(), "LD_LIBRARY_PATH=/cache/x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
