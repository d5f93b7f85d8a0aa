package inflight

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestExplore runs the litmus tests in all interleavings with a few preemptions. It
// runs a copy of the package in which testdata/explore/sched stands for sync,
// sync/atomic and runtime and lets the test choose the next thread before each atomic
// instruction. There, accesses to Event.known, which is not atomic, take time, and must
// not overlap.
func TestExplore(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	if _, err := os.Stat("testdata"); err != nil {
		t.Skip("the test binary runs without the source of the package")
	}
	dir := t.TempDir()
	write := func(name string, text []byte) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write("go.mod", []byte("module explore\n\ngo 1.26\n"))
	write("sched/sched.go", read("testdata/explore/sched/sched.go"))
	write("inflight/run_test.go", read("testdata/explore/litmus.go"))
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source []byte
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			source = append(source, read(name)...)
		}
	}
	for _, pattern := range []*regexp.Regexp{imported, received, accessed} {
		if n := len(pattern.FindAll(source, -1)); n < 2 {
			t.Errorf("%v matches %d times: the test would not see those instructions", pattern, n)
		}
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") || name == "help_test.go" || strings.HasPrefix(name, "litmus_") {
			write("inflight/"+name, explorable(read(name)))
		}
	}
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-timeout=5m", fmt.Sprintf("-short=%v", !sample.Full()), "./inflight")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOTOOLCHAIN=local", "GOWORK=off", "GOARCH=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var (
	imported = regexp.MustCompile(`(?m)^(import |\t)"(?:sync/)?(atomic|sync|runtime)"$`)
	received = regexp.MustCompile(`<-([a-z]+\.(?:ended|wake))\b`)
	accessed = regexp.MustCompile(`(?m)^\t+.* e\.known$|^\t+e\.known = .*$`)
)

// explorable is a file of this package with sched in place of sync, sync/atomic and
// runtime.
func explorable(text []byte) []byte {
	text = accessed.ReplaceAll(text, []byte("runtime.Begin()\n$0\nruntime.End()"))
	text = imported.ReplaceAll(text, []byte(`$1$2 "explore/sched"`))
	return received.ReplaceAll(text, []byte(`sync.Recv($1)`))
}
