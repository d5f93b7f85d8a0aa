package main

import (
	"runtime"
	"strings"
	"testing"
)

// TestRanks: the status is that of the rank that failed first, which is named.
func TestRanks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	status, out, errs := ferryRun("ranks", "-n", "3", "--device", "soft", "--", "sh", "-c", `echo "$RANK of $WORLD_SIZE on $FERRY_DEVICE"; echo "error $1" >&2`, "sh", "-n")
	if status != exitOK || len(out) != 3*len("[0] 0 of 3 on soft\n") || !strings.Contains(out, "[2] 2 of 3 on soft\n") || !strings.Contains(errs, "[1] error -n\n") {
		t.Errorf("status %d\n%s\n%s", status, out, errs)
	}
	status, _, errs = ferryRun("ranks", "-n2", "--", "sh", "-c", `[ $RANK = 0 ] || exit 5; sleep 600`)
	if status != 5 || errs != "ferry ranks: rank 1 failed first: sh: exit status 5\n" {
		t.Errorf("status %d, %q", status, errs)
	}
	if status, _, errs := ferryRun("ranks", "-n", "2", "--", "/no/such/program"); status != exitError || !strings.Contains(errs, "/no/such/program") {
		t.Errorf("status %d, %q", status, errs)
	}
	for want, args := range map[string][]string{
		"want -- before the program": {"ranks", "-n", "2", "sh"},
		"no program after --":        {"ranks", "-n", "2", "--"},
		"-n is required":             {"ranks", "--", "true"},
		"-n 0: must be 1 to 1024":    {"ranks", "-n", "0", "--", "true"},
		"-n 1025: must be 1 to 1024": {"ranks", "-n", "1025", "--", "true"},
	} {
		if status, out, errs := ferryRun(args...); status != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, %q, want %q", args, status, errs, want)
		}
	}
}
