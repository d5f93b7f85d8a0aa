package main

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

// TestRun: a run prints its figures, and a wrong command line is refused.
func TestRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the software GPU shares memory under Linux")
	}
	var out, failed bytes.Buffer
	if status := run([]string{"--device", "soft:h200", "--rounds", "3"}, &out, &failed); status != 0 || !strings.Contains(out.String(), "3 rounds\nFerry  median") {
		t.Errorf("status %d, output:\n%s%s", status, &out, &failed)
	}
	for _, args := range [][]string{{"--rounds", "0"}, {"word"}, {"--none"}} {
		if status := run(args, &out, &failed); status != 2 {
			t.Errorf("%v: status %d, want 2", args, status)
		}
	}
	if status := run([]string{"--device", "soft:none"}, &out, &failed); status != 1 {
		t.Errorf("an unknown device: status %d, want 1", status)
	}
}
