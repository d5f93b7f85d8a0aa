package compiletest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/compile"
)

// recorder is a testing.TB that records how a test ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()           {}
func (r *recorder) Fatal(args ...any) { r.end("fatal: " + fmt.Sprint(args...)) }
func (r *recorder) Skip(args ...any)  { r.end("skip: " + fmt.Sprint(args...)) }
func (r *recorder) end(how string)    { r.ended = how; panic(r) }
func (r *recorder) run(f func(testing.TB)) (how string) {
	defer func() {
		if v := recover(); v != nil && v != any(r) {
			panic(v)
		}
		how = r.ended
	}()
	f(r)
	return ""
}

// TestCheck: only a missing compiler skips, and only if no compiler is required.
func TestCheck(t *testing.T) {
	none := fmt.Errorf("compile k.cu: %w", &compile.NotFoundError{Tried: []string{"because"}})
	for _, c := range []struct {
		required string
		err      error
		want     string
	}{
		{"", nil, ""}, {"1", nil, ""},
		{"", none, "skip: no compiler"}, {"0", none, "skip: no compiler"}, {"1", none, "fatal: no compiler"},
		{"", errors.New("wrong"), "fatal: wrong"},
		{"", &compile.Error{Log: "the whole log"}, "the whole log"},
	} {
		t.Setenv(RequireVariable, c.required)
		got := (&recorder{TB: t}).run(func(tb testing.TB) { Check(tb, c.err) })
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || c.err == none && !strings.Contains(got, "because") {
			t.Errorf("%s=%q, error %v: %q, want %q", RequireVariable, c.required, c.err, got, c.want)
		}
	}
}

// TestClangs chooses among clangs of several versions.
func TestClangs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a program has another name there")
	}
	dir := t.TempDir()
	install := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(all, named string, want ...string) {
		t.Helper()
		t.Setenv("PATH", dir)
		t.Setenv(AllVariable, all)
		t.Setenv(compile.ClangVariable, named)
		t.Setenv(RequireVariable, "")
		var got []string
		(&recorder{TB: t}).run(func(tb testing.TB) {
			for _, path := range Clangs(tb) {
				got = append(got, filepath.Base(path))
			}
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s=%q, %s=%q: got %q, want %q", AllVariable, all, compile.ClangVariable, named, got, want)
		}
	}
	check("", "")
	install("clang")
	check("", "", "clang")
	install("clang-13", "clang-14", "clang-19", "clang-22")
	check("", "", "clang-22")
	check("", "clang-19", "clang-19")
	check("", "clang-20")
	check("1", "clang-19", "clang-14", "clang-19", "clang-22")
}
