package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// isTerminal says whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0
}

// colour says whether w may get colours: a terminal that knows them, and a user
// who has not set NO_COLOR.
func colour(w io.Writer) bool {
	term := os.Getenv("TERM")
	return os.Getenv("NO_COLOR") == "" && term != "" && term != "dumb" && isTerminal(w)
}

// progress tells on stderr what takes long: nothing in the first second; then, on
// a terminal, one line that is rewritten, elsewhere a line every few seconds.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time
	last     time.Time // when something was shown
	shown    bool      // on the terminal now
	now      func() time.Time
}

const (
	patience = time.Second
	rarely   = 5 * time.Second
)

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), began: time.Now(), now: time.Now}
}

// say shows where things are.
func (p *progress) say(format string, args ...any) {
	now := p.now()
	if now.Sub(p.began) < patience || !p.terminal && now.Sub(p.last) < rarely {
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
