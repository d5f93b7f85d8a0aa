package forktest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

// hang stops a child for ever, as a lock does that nobody opens.
func hang() {
	for {
		_ = syscall.Nanosleep(&syscall.Timespec{Sec: 3600}, nil)
	}
}

// TestRunAgain: a child that hangs by chance costs another child, and one that always hangs is an
// error. Children share no memory with the test, so files count them.
func TestRunAgain(t *testing.T) {
	if racebuild.On {
		t.Skip("the race detector's threads are not in a forked child")
	}
	defer func(was time.Duration) { forkLimit = was }(forkLimit)
	dir := t.TempDir()
	first := filepath.Join(dir, "first")
	if err := os.WriteFile(first, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	forkLimit = 2 * time.Second
	if text, err := Run(func() string {
		if syscall.Unlink(first) == nil {
			hang()
		}
		return "again"
	}); text != "again" || err != nil {
		t.Errorf("a child that hangs once: %q, %v", text, err)
	}
	forkLimit = 100 * time.Millisecond
	calls := filepath.Join(dir, "calls")
	_, err := Run(func() string {
		if file, err := syscall.Open(calls, syscall.O_CREAT|syscall.O_APPEND|syscall.O_WRONLY, 0o600); err == nil {
			_, _ = syscall.Write(file, []byte("x"))
		}
		hang()
		return ""
	})
	if !errors.Is(err, errHangs) || !strings.Contains(err.Error(), "killed after 100ms") {
		t.Errorf("a child that always hangs: %v", err)
	}
	if text, _ := os.ReadFile(calls); len(text) > attempts {
		t.Errorf("%d children, want %d at most", len(text), attempts)
	}
}
