package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNoPathOpened: no path in a recording or a result is opened. Each of them is replaced by that
// of a FIFO, where opening would hang.
func TestNoPathOpened(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	replaced := func(from, path string) string {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), path) {
			t.Fatalf("%s has no %s", from, path)
		}
		to := filepath.Join(dir, filepath.Base(from))
		if err := os.WriteFile(to, []byte(strings.ReplaceAll(string(text), path, fifo)), 0o600); err != nil {
			t.Fatal(err)
		}
		return to
	}
	recording := replaced("../../trace/testdata/recording.jsonl", "/home/user/program/main.go")
	result := replaced("testdata/before.json", `NVIDIA H200`)
	for _, args := range [][]string{
		{"trace", recording}, {"explain", recording}, {"trace", recording, "--json"}, {"trace", recording, "--html", filepath.Join(dir, "x.html")},
		{"diff", result, result}, {"bench", "--read", result},
	} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if status, _, errs := ferryRun(args...); status != exitOK {
				t.Errorf("%v: status %d, stderr %q", args, status, errs)
			}
		}()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatalf("%v opens a path of its input", args)
		}
	}
}
