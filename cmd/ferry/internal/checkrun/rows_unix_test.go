//go:build unix

package checkrun_test

import (
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
	"github.com/ferrygpu/ferry/internal/checks"
)

// fullVariable makes the test binary a program whose disk is full.
const fullVariable = "FERRY_TEST_FULL"

// TestFullProgram is the program of TestNoRoom.
func TestFullProgram(t *testing.T) {
	if os.Getenv(fullVariable) == "" {
		t.Skip("a program for TestNoRoom")
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
		t.Fatal(err)
	}
	if err := checks.Ready(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if checks.Append(checks.Row{Check: "memory", Text: "lost"}) {
			t.Fatal("a row was written to a full disk")
		}
	}
}

// TestNoRoom: that a process could write nothing at all is in the report, also if it could make
// no file for the mark. A link that leads nowhere stands for a disk without room for names.
func TestNoRoom(t *testing.T) {
	for _, before := range []string{"", `ln -s /none/x "$FERRY_CHECK_REPORT.lost"; `} {
		p := &checkrun.Program{Args: []string{"sh", "-c", before + `exec "$0" -test.run='^TestFullProgram$'`, os.Args[0]}, Env: []string{fullVariable + "=1"}, Stdout: io.Discard, Stderr: os.Stderr}
		r, err := p.Run(t.Context())
		if err != nil || r.Status != 0 || len(r.GaveUp) != 1 || !strings.Contains(r.GaveUp[0].String(), "a process could not write to the file of findings") {
			t.Errorf("%q: %+v, %v", before, r, err)
		}
	}
}
