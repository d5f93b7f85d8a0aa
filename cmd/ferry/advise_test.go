package main

import (
	"strings"
	"testing"
)

// TestAdvise has small copies: large ones of pageable memory have several goroutines, and times
// that can vary.
func TestAdvise(t *testing.T) {
	goldens(t, "advise", "advise", "--in", "16KiB", "--out", "8KiB", "--reuse", "2", "--device", "soft:h200")
	golden(t, "advise-verify.txt", want(t, "advise", "--in", "16KiB", "--verify", "--device", "soft:fermi-c2050"))
}

// TestAdviseBad: an error names the flag, the value and what is allowed, and nothing runs.
func TestAdviseBad(t *testing.T) {
	for wrong, want := range map[string]string{
		"":                        "--in 0: want more than 0 bytes",
		"--in 3":                  `--in "3": want a multiple of 4 bytes`,
		"--in 4KiB --out x":       `--out "x": want a multiple of 4 bytes`,
		"--in 4KiB --reuse 0":     "--reuse 0: want 1 to",
		"--in 4KiB --access tabl": `--access "tabl": want stream, stride=N, random, table or stencil=N`,
		"--in 4KiB --source net":  `--source "net": want slice, file, existing`,
		"--in 4KiB --devices 99":  "--devices 99: want 1 to 16",
		"--in 4KiB word":          `"word" is not expected here`,
	} {
		status, out, errs := ferryRun(append([]string{"advise", "--device", "soft"}, strings.Fields(wrong)...)...)
		if status != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, stdout %q, stderr %q", wrong, status, out, errs)
		}
	}
}
