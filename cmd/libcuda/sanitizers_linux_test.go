package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSanitizers builds the C side of the library with the sanitizers of C, and runs programs that are built
// with them too. Go is not watched. Each sanitizer must also find an error that a program makes in a stub,
// else it watches none.
func TestSanitizers(t *testing.T) {
	if os.Getenv("FERRY_FULL") != "1" {
		t.Skip("minutes; FERRY_FULL=1 runs it")
	}
	library(t) // skips where there is no compiler
	for _, s := range []struct{ flags, planted, report string }{
		{"address,undefined", "overflow", "AddressSanitizer: heap-buffer-overflow"},
		{"thread", "race", "ThreadSanitizer: data race"},
	} {
		dir := t.TempDir()
		flag := "-fsanitize=" + s.flags
		if err := build(dir, "CGO_CFLAGS=-g -O1 -fno-omit-frame-pointer "+flag, "CGO_LDFLAGS="+flag); err != nil {
			t.Fatal(err)
		}
		linked := []string{"-g", flag, filepath.Join(dir, "libcuda.so.1"), "-Wl,-rpath," + dir}
		for _, p := range [][]string{{"vadd.c"}, {"contexts.c"}, {"hostfunc.c"}, {"library.c"}, {"virtual.c"}, {"oldlaunch.c"}, {"misuse.c"}, {"print.c"}, {"soak.c", "100000"}} {
			if out, err := sanitized(compiled(t, p[0], linked...), p[1:]...); err != nil || strings.Contains(out, "Sanitizer") || strings.Contains(out, "runtime error") {
				t.Errorf("%s, %s: %v\n%.8000s", s.flags, p[0], err, out)
			}
		}
		out, err := sanitized(compiled(t, "sanitized.c", linked...), s.planted)
		if err == nil || !strings.Contains(out, s.report) || !strings.Contains(out, "zz_stubs.c") {
			t.Errorf("%s does not find the %s in a stub: %v\n%.8000s", s.flags, s.planted, err, out)
		}
	}
}

// sanitized runs a program that has a sanitizer. Go's memory is never freed, so leaks are not looked for.
func sanitized(exe string, args ...string) (string, error) {
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0", "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
