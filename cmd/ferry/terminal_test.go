package main

import (
	"bytes"
	"testing"
	"time"
)

// TestProgress expects no report in the first second, then one line every five seconds,
// or a rewritten line on a terminal.
func TestProgress(t *testing.T) {
	clock := time.Unix(1000, 0)
	for _, c := range []struct {
		terminal bool
		want     string
	}{
		{false, "ferry: step 2\nferry: step 8\n"},
		{true, "\r\x1b[Kstep 2\r\x1b[Kstep 3\r\x1b[Kstep 4\r\x1b[Kstep 5\r\x1b[Kstep 6\r\x1b[Kstep 7\r\x1b[Kstep 8\r\x1b[K"},
	} {
		var out bytes.Buffer
		now := clock
		p := &progress{w: &out, terminal: c.terminal, began: clock, now: func() time.Time { return now }}
		for i := range 9 {
			now = clock.Add(time.Duration(i) * 900 * time.Millisecond)
			p.say("step %d", i)
		}
		p.done()
		p.done()
		if out.String() != c.want {
			t.Errorf("terminal %v: got %q, want %q", c.terminal, out.String(), c.want)
		}
	}
}

func TestColour(t *testing.T) {
	if colour(&bytes.Buffer{}) || isTerminal(&bytes.Buffer{}) {
		t.Error("a buffer was taken for a terminal")
	}
}
