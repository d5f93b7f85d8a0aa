package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0
}

// colour reports whether output to w may be coloured: w is a terminal with colours,
// and NO_COLOR is not set.
func colour(w io.Writer) bool {
	term := os.Getenv("TERM")
	return os.Getenv("NO_COLOR") == "" && term != "" && term != "dumb" && isTerminal(w)
}

// progress reports the progress of a long measurement on stderr. It shows nothing in
// the first second. Then it rewrites one line on a terminal; elsewhere it writes a line
// every few seconds.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time
	last     time.Time // time of the last report
	shown    bool      // the terminal shows a line now
	now      func() time.Time
}

const (
	firstReport    = time.Second     // no report before this time
	reportInterval = 5 * time.Second // between lines, where w is not a terminal
)

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), began: time.Now(), now: time.Now}
}

// say reports the current step.
func (p *progress) say(format string, args ...any) {
	now := p.now()
	if now.Sub(p.began) < firstReport || !p.terminal && now.Sub(p.last) < reportInterval {
		return
	}
	p.last = now
	text := fmt.Sprintf(format, args...)
	if !p.terminal {
		fmt.Fprintf(p.w, "ferry: %s\n", text)
		return
	}
	p.shown = true
	fmt.Fprintf(p.w, "\r\x1b[K%s", text)
}

// done clears the line.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
