// Package compiletest compiles kernels for tests, or skips them where there is no compiler.
// With FERRY_REQUIRE_COMPILER=1 in the environment such a skip is a failure. So a machine
// with a compiler proves that its tests ran. Tests that run with several versions of clang
// take one of them, and all with FERRY_FULL=1. What clang writes is kept between runs, see
// [Source].
package compiletest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// RequireVariable is the environment variable that turns skips into failures.
const RequireVariable = "FERRY_REQUIRE_COMPILER"

// The major versions of clang that Clangs looks for. Older ones cannot compile the header.
const (
	oldest = 14
	newest = 25
)

// Compile returns the PTX and the facts of a source, which name is for messages. It skips
// the test if there is no compiler, and fails it for any other error.
func Compile(t testing.TB, name, source string, o *compile.Options) *compile.Result {
	t.Helper()
	r, err := Source(t.Context(), name, []byte(source), o)
	Check(t, err)
	return r
}

// File is Compile for a file.
func File(t testing.TB, path string, o *compile.Options) *compile.Result {
	t.Helper()
	r, err := compile.File(t.Context(), path, o)
	Check(t, err)
	return r
}

// Check ends a test if there is an error: it skips the test if the error says that there is
// no compiler, and fails it otherwise.
func Check(t testing.TB, err error) {
	t.Helper()
	if Missing(err) {
		Skip(t, err)
	}
	if e, ok := errors.AsType[*compile.Error](err); ok {
		t.Fatal(err, "\n", e.Log)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Missing reports whether an error says that there is no compiler.
func Missing(err error) bool {
	_, missing := errors.AsType[*compile.NotFoundError](err)
	return missing
}

// Skip ends a test that needs a compiler. It fails the test if RequireVariable is 1.
func Skip(t testing.TB, reason ...any) {
	t.Helper()
	if os.Getenv(RequireVariable) == "1" {
		t.Fatal(append([]any{"no compiler, and " + RequireVariable + "=1:"}, reason...)...)
	}
	t.Skip(append([]any{"no compiler:"}, reason...)...)
}

// Clangs returns the paths of clangs, the oldest first, or skips the test if there is none.
// It returns the one that FERRY_CLANG names, else the newest, else the one without a version
// in its name. With FERRY_FULL=1 it returns every one with a version.
func Clangs(t testing.TB) []string {
	t.Helper()
	var names, found []string
	for v := oldest; v <= newest; v++ {
		names = append(names, fmt.Sprintf("clang-%d", v))
	}
	all := sample.Full()
	if !all {
		names = append([]string{"clang"}, names...)
		if named := os.Getenv(compile.ClangVariable); named != "" {
			names = []string{named}
		}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			found = append(found, path)
		}
	}
	switch {
	case len(found) == 0:
		Skip(t, "none of these is in the search path:", names)
	case !all:
		return found[len(found)-1:]
	}
	return found
}

// Clang returns the path of one clang, or skips the test if there is none.
func Clang(t testing.TB) string {
	t.Helper()
	all := Clangs(t)
	return all[len(all)-1]
}
