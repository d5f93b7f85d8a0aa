package main

import (
	"strings"
	"testing"
)

// TestCompareMore demands the output of what compare measures on request, and on a machine
// that reads pageable memory.
func TestCompareMore(t *testing.T) {
	goldens(t, "compare-more", "compare", "--device", "soft:h200", "--min", "16", "--max", "17", "--reuse", "1,2", "--rates")
	golden(t, "compare-gh200.txt", want(t, "compare", "--device", "soft:gh200", "--min", "10", "--max", "11"))
	out := want(t, "compare", "--device", "soft:h200", "--min", "10", "--max", "11", "--ptx", shipped(t), "--kernel", "vector_add", "--json")
	if !strings.Contains(out, `"name": "vector_add"`) || strings.Count(out, `"verified": true`) != 2 {
		t.Errorf("got %s", out)
	}
}

func TestCompareWrong(t *testing.T) {
	for line, part := range map[string]string{
		"--reuse 0":               "--reuse 0: want 1 to 1000",
		"--reuse 1,x":             `invalid value "1,x"`,
		"--ptx a.ptx":             "--ptx needs --kernel",
		"--kernel k":              "--kernel needs --ptx",
		"--rate":                  "did you mean",
		"--min 3 --max 2 --rates": "want 0 <= min",
	} {
		if status, out, errs := ferryRun(append([]string{"compare", "--device", "soft"}, strings.Fields(line)...)...); status != exitUsage || out != "" || !strings.Contains(errs, part) {
			t.Errorf("%s: status %d, %q, want %q", line, status, errs, part)
		}
	}
	for line, part := range map[string]string{
		"--ptx absent.ptx --kernel k":                   "absent.ptx",
		"--ptx testdata/saxpy.ptx --kernel saxpy":       "compare launches (const float *a",
		"--ptx testdata/saxpy.ptx --kernel none":        `kernel "none" is not in`,
		"--ptx testdata/info-h200.txt --kernel nothing": "info-h200.txt",
	} {
		if status, out, errs := ferryRun(append([]string{"compare", "--device", "soft"}, strings.Fields(line)...)...); status != exitError || out != "" || !strings.Contains(errs, part) {
			t.Errorf("%s: status %d, %q, want %q", line, status, errs, part)
		}
	}
}
