package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// endless returns the name of a file that is never read to its end.
func endless(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "endless.ptx")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	return path
}

// TestRunLoadLimit: the limit and an interrupt end a load that does not end itself.
func TestRunLoadLimit(t *testing.T) {
	args := []string{"run", endless(t), "--device", "soft", "--kernel", "k", "--grid", "1", "--block", "1"}
	status, _, errs := ferryRun(append(args, "--limit", "20ms")...)
	if status != exitError || !strings.Contains(errs, "endless.ptx: it takes longer than the limit of 20ms") {
		t.Errorf("limit: status %d, stderr %q", status, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, said bytes.Buffer
	if status := run(ctx, args, &out, &said); status != exitInterrupted {
		t.Errorf("interrupt: status %d, stderr %q", status, said.String())
	}
}
