package main

import (
	"os"
	"strings"
	"testing"
)

// TestSoak makes calls from 64 threads, with callbacks: 30,000 of them, and with FERRY_FULL=1 a million
// under each schedule.
func TestSoak(t *testing.T) {
	exe := program(t, "soak.c")
	calls, schedules := "30000", []string{"eager"}
	if os.Getenv("FERRY_FULL") == "1" {
		calls, schedules = "1000000", []string{"eager", "lazy", "random:1"}
	}
	for _, schedule := range schedules {
		cmd := command(exe, calls)
		cmd.Env = append(os.Environ(), "FERRY_SCHEDULE="+schedule)
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %s", schedule, out)
		if err != nil || !strings.HasSuffix(string(out), "soak: right\n") {
			t.Errorf("%s: %v", schedule, err)
		}
	}
}
