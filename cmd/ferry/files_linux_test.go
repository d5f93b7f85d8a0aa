package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/trace"
)

// TestNotReplaced: a program that does not begin, or opens no device, leaves what is at the
// paths of its results, whatever that is. What is no regular file is refused before.
func TestNotReplaced(t *testing.T) {
	dir := t.TempDir()
	old, empty, pipe := filepath.Join(dir, "old"), filepath.Join(dir, "empty"), filepath.Join(dir, "pipe")
	write(t, old, "old")
	if err := firstError(os.Mkdir(empty, 0o755), syscall.Mkfifo(pipe, 0o644)); err != nil {
		t.Skip(err)
	}
	for _, flag := range []string{"--record", "--perfetto", "--html"} {
		for path, want := range map[string]string{
			old: "/no/such", filepath.Join(dir, "new"): "/no/such", empty: "is a directory", pipe: "is a named pipe", "/dev/zero": "is a device",
		} {
			status, out, errs := ferryRun("trace", flag, path, "--", "/no/such/program")
			if status != exitError || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s %s: status %d, stdout %q, stderr %q, want %q", flag, path, status, out, errs, want)
			}
		}
		if status, _, errs := ferryRun("trace", flag, old, "--", "true"); status != exitError || !strings.Contains(errs, "has opened no device") {
			t.Errorf("%s: status %d, %s", flag, status, errs)
		}
	}
	for _, args := range [][]string{
		{"bench", "--save-profile", pipe + ".json"}, {"profile", "fit", "testdata/before.json", "--out", pipe + ".json"},
	} {
		if err := os.Rename(pipe, pipe+".json"); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := ferryRun(args...); status != exitError || !strings.Contains(errs, "is a named pipe") {
			t.Errorf("%v: status %d, %s", args, status, errs)
		}
		if err := os.Rename(pipe+".json", pipe); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
		t.Errorf("the old file has %q, %v", text, err)
	}
	wantFiles(t, dir, "empty", "old", "pipe")
}

// These variables make the test binary a ferry with little room: its arguments, and the size of
// the largest file in bytes.
const (
	smallDisk = "FERRY_TEST_SMALL_DISK"
	smallRoom = "FERRY_TEST_SMALL_ROOM"
)

// TestSmallDisk is the program that TestFullDisk runs.
func TestSmallDisk(t *testing.T) {
	words := os.Getenv(smallDisk)
	if words == "" {
		t.Skip("a program for TestFullDisk")
	}
	signal.Ignore(syscall.SIGXFSZ)
	room, err := strconv.ParseUint(os.Getenv(smallRoom), 10, 64)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: room})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(99)
	}
	os.Exit(run(t.Context(), strings.Split(words, "\n"), os.Stdout, os.Stderr))
}

// onSmallDisk runs the command with little room, and returns all that it prints.
func onSmallDisk(room int, args ...string) (string, error) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSmallDisk$")
	cmd.Env = append(os.Environ(), smallDisk+"="+strings.Join(args, "\n"), fmt.Sprintf("%s=%d", smallRoom, room))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestFullDisk: commands that find the disk full leave the files that were there, and nothing
// else.
func TestFullDisk(t *testing.T) {
	recording := filepath.Join(t.TempDir(), "recording.json")
	want(t, traced(t, "end", "--record", recording)...)
	ptx, err := os.ReadFile("internal/bind/testdata/mangled.ptx")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"trace", recording, "--perfetto", "old.json"},
		{"trace", recording, "--html", "old.html"},
		{"bench", "--read", "testdata/before.json", "--html", "old.html"},
		{"bind", "k.ptx", "-o", "old.go", "--package", "k"},
		{"man", "--dir", "old"},
		traced(t, "end", "--record", "old.json"),
	} {
		dir := t.TempDir()
		var old []string
		for i, word := range args {
			switch {
			case word == "k.ptx":
				args[i] = filepath.Join(dir, "k.ptx")
				write(t, args[i], string(ptx))
			case word == "old":
				args[i] = dir
				old = append(old, filepath.Join(dir, "ferry.1"), filepath.Join(dir, "ferry-trace.1"))
			case strings.HasPrefix(word, "old."):
				args[i] = filepath.Join(dir, word)
				old = append(old, args[i])
			}
		}
		for _, path := range old {
			write(t, path, "old")
		}
		before := filesOf(t, dir)
		out, err := onSmallDisk(512, args...)
		if err == nil || !strings.Contains(out, "file too large") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		if after := filesOf(t, dir); after != before {
			t.Errorf("%q: the folder has\n%swant\n%s", args, after, before)
		}
	}
}

// TestRecordCut: when the disk becomes full while a recording grows, a file that was there stays,
// and the error says where the new recording is. Without such a file it is kept as it is.
func TestRecordCut(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old.json"), filepath.Join(dir, "fresh.json")
	write(t, old, "old")
	for _, path := range []string{old, fresh} {
		out, err := onSmallDisk(1500, traced(t, "end", "--record", path)...)
		if (err != nil) != (path == old) || !strings.Contains(out, "file too large") {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
		if path == old {
			_, at, _ := strings.Cut(out, "stays as it was, because the new recording could not be written whole")
			_, at, _ = strings.Cut(at, "what there is of it is in ")
			path, _, _ = strings.Cut(at, "\n")
		}
		if rec, err := trace.ReadFile(path); err != nil || !strings.Contains(rec.Why, "file too large") || rec.LostCalls == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
		t.Errorf("the old file has %.40q, %v", text, err)
	}
}

// TestRecordNotBegun: a program that could not begin its recording is told from one that opened
// no device.
func TestRecordNotBegun(t *testing.T) {
	out, err := onSmallDisk(512, traced(t, "end")...)
	if err == nil || !strings.Contains(out, "could not begin its recording: see standard error") || !strings.Contains(out, "file too large") {
		t.Errorf("%v\n%s", err, out)
	}
}

// filesOf returns the files of a folder with their contents.
func filesOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		fmt.Fprintf(&b, "%s: %.60q %v\n", e.Name(), text, err)
	}
	return b.String()
}
