package runner

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/internal/layout"
)

// maxTextValues is how many values of an output the text shows.
const maxTextValues = 64

// textWidth is the width of lines with values, in columns, where the terminal does not say it.
const textWidth = 80

// Page returns the result for a reader. With bits, values are shown as bit patterns.
func (r *Result) Page(bits bool) *layout.Page {
	p := new(layout.Page)
	p.Linef("%s\n\nkernel %s, grid %s, block %s, buffers in %s memory", r.Device.Line(), r.Kernel, ShapeText(r.Grid), ShapeText(r.Block), r.Memory)
	for i := range r.Outputs {
		p.Line("")
		r.Outputs[i].addTo(p, bits)
	}
	p.Line("")
	p.Table(r.facts())
	return p
}

// facts returns the times of the kernel, and what its checks found.
func (r *Result) facts() *layout.Table {
	predicted := "measured"
	if r.Device.Emulated {
		predicted = "predicted from profile " + *r.Device.Profile
	}
	t := &layout.Table{Columns: []layout.Column{{}, {Width: 11}, {Words: true}}}
	t.Row("wall time", durationText(r.Wall), "from launch to completion on this host, measured")
	t.Row("device time", durationText(r.DeviceTime), "of the kernel, "+predicted)
	t.Row("threads", fmt.Sprint(r.Threads), rateText(r.ThreadsPerSecond())+" of wall time")
	if r.Checked {
		t.Row("findings", fmt.Sprint(len(r.Findings)))
		for _, g := range r.GaveUp {
			t.Row("gave up", "", g.String())
		}
	}
	return t
}

// addTo adds the first values of an output to a page.
func (o *Output) addTo(p *layout.Page, bits bool) {
	p.Linef("parameter %d, %s: %s", o.Arg, shorten(o.Text, 48), count(o.Elements, "element"))
	shown := min(o.shown(), maxTextValues)
	words := make([]string, shown)
	for i := range words {
		v := Element(o.head, o.Type, i)
		if bits {
			words[i] = string(appendBits(nil, o.Type, v))
		} else {
			words[i] = string(appendText(nil, o.Type, v))
		}
	}
	p.Draw(func(columns int) string { return inColumns(words, columns) })
	if rest := o.Elements - shown; rest > 0 {
		p.Linef("  and %d more (--json has the first %d)", rest, maxValues)
	}
	p.Linef("  sha256 %s", hex.EncodeToString(o.SHA256[:]))
}

// inColumns returns values in columns. Each line begins with the index of its first value.
func inColumns(words []string, columns int) string {
	if columns <= 0 || columns > textWidth {
		columns = textWidth
	}
	width := 0
	for _, word := range words {
		width = max(width, len(word))
	}
	lead := len(fmt.Sprintf("  [%d]", max(len(words)-1, 0)))
	n := 1
	for n < 32 && lead+2*n*(width+2) <= columns {
		n *= 2
	}
	var b strings.Builder
	for i, word := range words {
		if i%n == 0 {
			fmt.Fprintf(&b, "%*s", lead, fmt.Sprintf("[%d]", i))
		}
		fmt.Fprintf(&b, "  %*s", width, word)
		if i%n == n-1 || i == len(words)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// durationText formats a time in the largest unit that is not greater.
func durationText(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3f ms", float64(d)/1e6)
	case d >= time.Microsecond:
		return fmt.Sprintf("%.3f us", float64(d)/1e3)
	}
	return fmt.Sprintf("%d ns", d)
}

// rateText formats a number of threads per second.
func rateText(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.2f G threads/s", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.2f M threads/s", v/1e6)
	}
	return fmt.Sprintf("%.2f k threads/s", v/1e3)
}
