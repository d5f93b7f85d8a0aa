package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/internal/printable"
)

// progress reports the progress of a long measurement on a terminal, in one line that it
// rewrites. It shows nothing in the first second, and nothing where stderr is no terminal.
type progress struct {
	w        io.Writer
	terminal bool
	columns  int // of the terminal; 0 if not known
	began    time.Time
	shown    bool // the terminal shows a line now
	now      func() time.Time

	what         string    // the step of bar
	first, drawn time.Time // when that step began, and when bar has last drawn it
}

const firstReport = time.Second // no report before this time

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), columns: columns(w), began: time.Now(), now: time.Now}
}

// say reports the current step of work whose length is not known.
func (p *progress) say(text string) {
	if !p.terminal || p.now().Sub(p.began) < firstReport {
		return
	}
	text = printable.Line(text)
	if p.columns > 0 && len(text) >= p.columns {
		text = text[:p.columns-1] // a longer line could not be rewritten
	}
	p.shown = true
	fmt.Fprintf(p.w, "\r\x1b[K%s", text)
}

// step reports that the next of total steps begins, after done. It adds the time left, as
// if the other steps took as long as those done.
func (p *progress) step(done, total int, what string) {
	text := fmt.Sprintf("%s (%d of %d)", what, done+1, total)
	if done > 0 {
		left := p.now().Sub(p.began) / time.Duration(done) * time.Duration(total-done)
		text += fmt.Sprintf(", about %v left", max(left, time.Second).Round(time.Second))
	}
	p.say(text)
}

// bar reports how many of the bytes of a step are done, with a bar and the rate. It rewrites the line
// ten times a second at most.
func (p *progress) bar(what string, done, total int64) {
	now := p.now()
	if p.what != what {
		p.what, p.first = what, now
	}
	if now.Sub(p.drawn) < time.Second/10 || total <= 0 {
		return
	}
	p.drawn = now
	rate := ""
	if took := now.Sub(p.first); took > 0 {
		rate = fmt.Sprintf(", %.0f MB/s", float64(done)/1e6/took.Seconds())
	}
	unit, name := int64(1<<30), "GiB"
	if total < unit {
		unit, name = 1<<20, "MiB"
	}
	full := int(barWidth * done / total)
	p.say(fmt.Sprintf("%s [%s%s] %3d %%, %.1f of %.1f %s%s", what, strings.Repeat("=", full), strings.Repeat(" ", barWidth-full),
		100*done/total, float64(done)/float64(unit), float64(total)/float64(unit), name, rate))
}

const barWidth = 24 // characters

// done clears the line.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
