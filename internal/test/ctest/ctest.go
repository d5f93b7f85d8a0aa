// Package ctest builds libraries in C for tests that call them.
package ctest

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ferrygpu/ferry/internal/dl"
)

// Library builds a shared library of one source file, in a folder of its own, and returns its path.
// It skips the test where there is no C compiler, or C libraries cannot be called.
func Library(t testing.TB, source, name string, flags ...string) (path string) {
	t.Helper()
	if !dl.Supported {
		t.Skipf("cannot call C on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	path = filepath.Join(t.TempDir(), name)
	for _, compiler := range []string{"gcc", "clang", "cc"} {
		if file, err := exec.LookPath(compiler); err == nil {
			args := append([]string{"-Wall", "-Werror", "-shared", "-fPIC", "-O1", "-o", path, source}, flags...)
			if out, err := exec.Command(file, args...).CombinedOutput(); err != nil {
				t.Fatalf("%s %s: %v\n%s", compiler, source, err, out)
			}
			return path
		}
	}
	t.Skip("there is no C compiler")
	return ""
}
