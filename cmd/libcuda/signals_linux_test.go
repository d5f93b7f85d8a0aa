package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignals runs programs whose timers interrupt calls, with handlers that need a large stack, and
// programs that wait for signals in a thread.
func TestSignals(t *testing.T) {
	exe := program(t, "signals.c")
	for part, want := range map[string]string{
		"timers-early": "timers: right\n",
		"timers-late":  "timers: right\n",
		"waits":        "waits: right\n",
		"masks":        "masks: right\n",
	} {
		if arm64 && part == "masks" {
			continue // the emulator's threads block other signals
		}
		if got := run(t, exe, part); got != want {
			t.Errorf("%s: got %q, want %q", part, got, want)
		}
	}
	lib := filepath.Join(library(t), "libcuda.so.1")
	if got, want := run(t, compiled(t, "opened.c"), lib), "opened: right\n"; got != want {
		t.Errorf("opened late: got %q, want %q", got, want)
	}
}

// TestOtherRuntime: the signals by which another Go runtime interrupts its loops reach it.
func TestOtherRuntime(t *testing.T) {
	if arm64 {
		t.Skip("a program of this machine's architecture")
	}
	dir := library(t)
	exe := filepath.Join(t.TempDir(), "preempt")
	build := exec.Command("go", "build", "-o", exe, "./testdata/preempt")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), "FERRY_LIBCUDA="+filepath.Join(dir, "libcuda.so.1"), "GOMAXPROCS=2")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "collected\n" {
		t.Errorf("%v (%v)\n%s", err, context.Cause(ctx), out)
	}
}

// TestFaults lets programs crash in their own code, in which they must end as without the library, and
// gives calls addresses that are not there.
func TestFaults(t *testing.T) {
	exe := program(t, "crash.c")
	for _, p := range []struct {
		part   string
		signal syscall.Signal // that ends the program, or 0
		code   int            // with which it exits otherwise
		want   string         // what it writes
	}{
		{"crash", syscall.SIGSEGV, 0, ""},
		{"thread", syscall.SIGSEGV, 0, ""},
		{"callback", syscall.SIGSEGV, 0, ""},
		{"sent", syscall.SIGSEGV, 0, ""},
		{"divide", syscall.SIGFPE, 0, ""},
		{"abort", syscall.SIGABRT, 0, ""},
		{"tell-before", 0, 7, "handler: 11\n"},
		{"tell-after", 0, 7, "handler: 11\n"},
		{"callback-tell", 0, 7, "handler: 11\n"},
		{"jump-before", 0, 0, "jumps: right\n"},
		{"jump-after", 0, 0, "jumps: right\n"},
		{"wild", 0, 0, "wild: right\n"},
		{"wild-tell", 0, 7, "handler: 11\n"},
		{"pipes", syscall.SIGPIPE, 0, "pipes: right\n"},
		{"pipe-default", syscall.SIGPIPE, 0, ""},
	} {
		if arm64 && p.part == "divide" {
			continue // division by zero is no fault there
		}
		out, status := ends(t, exe, p.part)
		out = strings.TrimPrefix(out, emulated(p.signal))
		if out != p.want || status.Signal() != p.signal && p.signal != 0 || p.signal == 0 && status.ExitStatus() != p.code {
			t.Errorf("%s: ends with %v, status %d, and writes %.800q; want %v, %d, %q", p.part, status.Signal(), status.ExitStatus(), out, p.signal, p.code, p.want)
		}
	}
	// What Go's runtime itself cannot survive has a line above it that says whose error it is.
	out, status := ends(t, exe, "fatal")
	first, rest, _ := strings.Cut(out, "\n")
	if !strings.HasPrefix(first, "ferry: libcuda.so.1 on the software GPU ends the process") || !strings.HasPrefix(rest, "SIGSEGV: ") || !status.Signaled() {
		t.Errorf("fatal: ends with %v and writes %.800q", status.Signal(), out)
	}
}

// emulated returns what the emulator writes when a signal ends a program.
func emulated(s syscall.Signal) string {
	if s == 0 || !arm64 {
		return ""
	}
	name := strings.ToUpper(s.String()[:1]) + s.String()[1:]
	return fmt.Sprintf("qemu: uncaught target signal %d (%s) - core dumped\n", int(s), name)
}

// ends runs a program that may crash, and returns what it writes and how it ends.
func ends(t *testing.T, exe, part string) (string, syscall.WaitStatus) {
	t.Helper()
	out, err := command(exe, part).CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ProcessState == nil) {
		t.Fatalf("%s: %v", part, err)
	} else if ok {
		return string(out), failed.Sys().(syscall.WaitStatus)
	}
	return string(out), 0
}
