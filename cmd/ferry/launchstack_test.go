package main

import (
	"strings"
	"testing"
)

// TestRunStack: a recursion fails with the default stack, and succeeds with a larger one.
func TestRunStack(t *testing.T) {
	for _, c := range []struct {
		flags  []string
		status int
		says   string
	}{
		{nil, exitError, "stack overflow: "},
		{[]string{"--stack", "65536"}, exitOK, ""},
		{[]string{"--stack", "524288"}, exitError, "--stack 524288: "},
	} {
		args := append([]string{"run", "../../softgpu/internal/simt/testdata/stack/recursions.ptx", "--kernel", "k_plain", "--grid", "1", "--block", "32",
			"--device", "soft", "out:u32=[32]", "u32=100"}, c.flags...)
		if status, _, errs := ferryRun(args...); status != c.status || !strings.Contains(errs, c.says) {
			t.Errorf("%q: status %d, want %d: %s", c.flags, status, c.status, errs)
		}
	}
}
