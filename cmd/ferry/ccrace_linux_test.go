package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// racesCUDA are the programs of testdata/cu/mistakes.cu that clang's race detector finds, with the
// functions of the library that its reports name.
var racesCUDA = map[string]string{
	"no_synchronization": "kernel_writes", "managed_in_use": "kernel_writes", "stale_read": "copy_writes", "wrong_stream_synchronized": "copy_writes",
	"source_changed": "copy_reads", "no_order_of_streams": "kernel_writes", "event_never_recorded": "fill_writes", "default_stream_assumed": "kernel_writes",
	"pageable_copy_assumed_done": "copy_writes", "used_before_its_allocation": "fill_writes",
}

// TestRace runs programs that "ferry cc --race" has built. The detector reports each wrong one, at both
// of its lines, and none of the correct twins.
func TestRace(t *testing.T) {
	if os.Getenv("FERRY_FULL") != "1" {
		t.Skip("builds a second library; FERRY_FULL=1 runs it")
	}
	requireCC(t)
	source := ccProgram("mistakes.cu")
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	program, text := filepath.Join(t.TempDir(), "mistakes"), string(data)
	if status, _, errs := ferryRun("cc", "--race", source, "-o", program); status != exitOK || errs != "" {
		t.Fatalf("ferry cc: status %d, stderr %q", status, errs)
	}
	status, library, errs := ferryRun("lib", "--race")
	if status != exitOK {
		t.Fatal(errs)
	}
	// A program whose race is reported while it exits has hung in a lock of the detector, in 2 of some
	// 60 runs on a loaded machine. Its report is written by then.
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		c := exec.CommandContext(ctx, program, args...)
		c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.TrimSpace(library), "FERRY_DEVICE=soft")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for name, how := range racesCUDA {
		out, err := run(name)
		if err == nil || strings.Count(out, "WARNING: ThreadSanitizer: data race") != 1 || !strings.Contains(out, how) {
			t.Errorf("%s: got %v, want one report with %s\n%s", name, err, how, out)
		}
		for _, mark := range []string{name + " 1", name + " 2"} {
			if line := "mistakes.cu" + lineOf(t, text, mark); !strings.Contains(out, line) {
				t.Errorf("%s: the report lacks %s:\n%s", name, line, out)
			}
		}
		if out, err := run(name, "right"); err != nil || out != "" {
			t.Errorf("%s right: got %v\n%s", name, err, out)
		}
	}
	// --run finds the library for such programs by itself.
	status, _, errs = ferryRun("cc", "--race", "--run", "--device", "soft", source, "--", "stale_read")
	if status != 66 || !strings.Contains(errs, "mistakes.cu"+lineOf(t, text, "stale_read 1")) {
		t.Errorf("--run: status %d, stderr %q", status, errs)
	}
}
