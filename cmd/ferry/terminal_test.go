package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestProgress expects no report in the first second and none where there is no terminal,
// then one line that is rewritten and says the time left.
func TestProgress(t *testing.T) {
	clock := time.Unix(1000, 0)
	for _, c := range []struct {
		terminal bool
		columns  int
		want     string
	}{
		{false, 0, ""},
		{true, 0, "\r\x1b[Ka step (3 of 4), about 1s left\r\x1b[Ka step (4 of 4), about 1s left\r\x1b[K"},
		{true, 10, "\r\x1b[Ka step (3\r\x1b[Ka step (4\r\x1b[K"},
	} {
		var out bytes.Buffer
		now := clock
		p := &progress{w: &out, terminal: c.terminal, columns: c.columns, began: clock, now: func() time.Time { return now }}
		for i := range 4 {
			now = clock.Add(time.Duration(i) * 600 * time.Millisecond)
			p.step(i, 4, "a step")
		}
		p.done()
		p.done()
		if out.String() != c.want {
			t.Errorf("terminal %v: got %q, want %q", c.terminal, out.String(), c.want)
		}
	}
}

// TestTimeLeft: three of 10 steps took a minute, so the others take 140 seconds.
func TestTimeLeft(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(1000, 0)
	p := &progress{w: &out, terminal: true, began: clock, now: func() time.Time { return clock.Add(time.Minute) }}
	p.step(3, 10, "x")
	if want := "\r\x1b[Kx (4 of 10), about 2m20s left"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestColour(t *testing.T) {
	if colour(&bytes.Buffer{}) || isTerminal(&bytes.Buffer{}) {
		t.Error("a buffer was taken for a terminal")
	}
}

// TestNoColour: NO_COLOR and TERM=dumb win over a terminal, and no file is one.
func TestNoColour(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Setenv("COLUMNS", "40")
	if isTerminal(f) || columns(f) != 0 {
		t.Errorf("a file was taken for a terminal of %d columns", columns(f))
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if isTerminal(null) && runtime.GOOS == "linux" {
		t.Error("/dev/null was taken for a terminal")
	}
}
