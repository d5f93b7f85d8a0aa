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
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

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
		got := (&gputest.Recorder{TB: t}).Run(func(tb testing.TB) { Check(tb, c.err) })
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
		t.Setenv(sample.FullVariable, all)
		t.Setenv(compile.ClangVariable, named)
		t.Setenv(RequireVariable, "")
		var got []string
		(&gputest.Recorder{TB: t}).Run(func(tb testing.TB) {
			for _, path := range Clangs(tb) {
				got = append(got, filepath.Base(path))
			}
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s=%q, %s=%q: got %q, want %q", sample.FullVariable, all, compile.ClangVariable, named, got, want)
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
