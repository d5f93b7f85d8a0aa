package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchPatterns measures a family of patterns, writes the times, and compares others with
// them: those of another run, and those of the file itself.
func TestBenchPatterns(t *testing.T) {
	bench := func(args ...string) string {
		t.Helper()
		status, out, errs := ferryRun(append([]string{"bench", "--set", "patterns"}, args...)...)
		if status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, errs)
		}
		return out
	}
	file := filepath.Join(t.TempDir(), "times.json")
	text := bench("--device", "soft:h200", "--only", "graphs", "--json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text, "graph of copies, kernels and copies out"); n != 3 {
		t.Errorf("%d cases of a kind that has 3:\n%s", n, text)
	}
	const none = "| graphs | 5 | 0.0, 0.0 % | 0 | 6 | 0.0, 0.0 % | 0 |"
	if got := bench("--device", "soft:h200", "--against", file); !strings.Contains(got, none) {
		t.Errorf("measured again: got\n%s\nwant %s", got, none)
	}
	if got := bench("--read", file, "--against", file); !strings.Contains(got, none) {
		t.Errorf("read: got\n%s\nwant %s", got, none)
	}
	if got := bench("--read", file, "--against", file, "--cases"); strings.Count(got, "\ngraph of ") != 5 {
		t.Errorf("got\n%s\nwant the 5 cases for development", got)
	}
}
