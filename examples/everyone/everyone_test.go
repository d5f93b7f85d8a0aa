package everyone

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// tools is what the programs are built and run by: the command, and the library that it builds.
type tools struct{ ferry, library string }

// build builds the command and the library once for all programs.
func build(t *testing.T) tools {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the library is for Linux")
	}
	need(t, "gcc")
	ferry := filepath.Join(t.TempDir(), "ferry")
	run(t, nil, "go", "build", "-o", ferry, "../../cmd/ferry")
	return tools{ferry, strings.TrimSpace(run(t, nil, ferry, "lib"))}
}

// need skips a test without a program.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("FERRY_REQUIRE_COMPILER") == "1" && (name == "gcc" || name == "python3") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

// run runs a program and returns its standard output.
func run(t *testing.T, environment []string, args ...string) string {
	t.Helper()
	out, stderr, err := try(environment, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, stderr)
	}
	return out
}

func try(environment []string, args ...string) (out, stderr string, err error) {
	var o, e bytes.Buffer
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), environment...)
	c.Stdout, c.Stderr = &o, &e
	err = c.Run()
	return o.String(), e.String(), err
}

// right demands the output of the right program: on the software GPU as it is, when every operation
// ends as late as it may, and under all checks.
func (x tools) right(t *testing.T, args ...string) {
	t.Helper()
	path := []string{"LD_LIBRARY_PATH=" + x.library}
	for _, environment := range [][]string{path, append(path, "FERRY_SCHEDULE=lazy")} {
		if got := run(t, environment, args...); got != "42.0\n" {
			t.Errorf("%v: got %q, want 42.0", environment[1:], got)
		}
	}
	out, stderr, err := try(nil, append([]string{x.ferry, "check", "--device", "soft", "--"}, args...)...)
	if err != nil || !strings.HasPrefix(out, "42.0\n") || !strings.Contains(out, "0 findings") {
		t.Errorf("check: %v\n%s%s", err, out, stderr)
	}
}

func TestPython(t *testing.T) {
	python := need(t, "python3")
	build(t).right(t, python, "increment.py")
}

func TestRust(t *testing.T) {
	rustc := need(t, "rustc")
	x := build(t)
	program := filepath.Join(t.TempDir(), "increment")
	run(t, nil, rustc, "--edition", "2021", "-O", "-L", x.library, "-o", program, "increment.rs")
	x.right(t, program)
}

// TestGo runs a Go program on gorgonia.org/cu, a binding with cgo, which it downloads.
func TestGo(t *testing.T) {
	if !sample.Full() {
		t.Skip("downloads a module: FERRY_FULL=1 runs it")
	}
	x := build(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/gorgonia")); err != nil {
		t.Fatal(err)
	}
	ptx, err := os.ReadFile("increment.ptx")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "increment.ptx"), ptx, 0o644); err != nil {
		t.Fatal(err)
	}
	environment := []string{"CGO_ENABLED=1", "GOFLAGS=-mod=mod", "CGO_CFLAGS=-I" + x.library + "/headers/compat", "CGO_LDFLAGS=-L" + x.library}
	run(t, environment, "go", "-C", dir, "build", "-o", "increment", ".")
	x.right(t, filepath.Join(dir, "increment"))
}

// TestWithoutWait: the lesson of docs/everyone.md. Without the wait the program prints what the
// memory had before, and the check says what is missing.
func TestWithoutWait(t *testing.T) {
	x := build(t)
	text, err := os.ReadFile("increment.cu")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "increment.cu"), filepath.Join(dir, "increment")
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "cudaDeviceSynchronize") {
			kept = append(kept, line)
		}
	}
	for _, c := range []struct {
		lines  []string
		prints string
	}{{kept, "41.0\n"}, {strings.SplitAfter(string(text), "\n"), "42.0\n"}} {
		if err := os.WriteFile(source, []byte(strings.Join(c.lines, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, stderr, err := try(nil, x.ferry, "cc", source, "-o", program); err != nil {
			if strings.Contains(stderr, "no clang") && os.Getenv("FERRY_REQUIRE_COMPILER") != "1" {
				t.Skip(stderr)
			}
			t.Fatalf("ferry cc: %v\n%s%s", err, out, stderr)
		}
		if c.prints == "42.0\n" {
			x.right(t, program)
			continue
		}
		if got := run(t, []string{"LD_LIBRARY_PATH=" + x.library, "FERRY_SCHEDULE=lazy"}, program); got != c.prints {
			t.Errorf("without the wait: got %q, want %q", got, c.prints)
		}
		out, _, err := try(nil, x.ferry, "check", "--device", "soft", "--", program)
		for _, part := range []string{"free in flight", "the host has not waited", "increment.cu:"} {
			if err == nil || !strings.Contains(out, part) {
				t.Errorf("check without the wait: %v, no %q in\n%s", err, part, out)
			}
		}
	}
}
