package runner

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// maxTextValues is how many values of an output the text shows.
const maxTextValues = 64

// textWidth is the width of lines with values, in columns.
const textWidth = 80

// Text returns the result as text. With bits, values are shown as bit patterns.
func (r *Result) Text(bits bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Device.Line())
	fmt.Fprintf(&b, "kernel %s, grid %s, block %s, buffers in %s memory\n", r.Kernel, ShapeText(r.Grid), ShapeText(r.Block), r.Memory)
	for i := range r.Outputs {
		b.WriteByte('\n')
		r.Outputs[i].write(&b, bits)
	}
	predicted := "measured"
	if r.Device.Emulated {
		predicted = "predicted from profile " + *r.Device.Profile
	}
	fmt.Fprintf(&b, "\nwall time    %-12s from launch to completion on this host, measured\n", durationText(r.Wall))
	fmt.Fprintf(&b, "device time  %-12s of the kernel, %s\n", durationText(r.DeviceTime), predicted)
	fmt.Fprintf(&b, "threads      %-12d %s of wall time\n", r.Threads, rateText(r.ThreadsPerSecond()))
	if r.Checked {
		fmt.Fprintf(&b, "findings     %d\n", len(r.Findings))
		for _, g := range r.GaveUp {
			fmt.Fprintf(&b, "gave up      %v\n", g)
		}
	}
	return b.String()
}

func (o *Output) write(b *strings.Builder, bits bool) {
	fmt.Fprintf(b, "parameter %d, %s: %s\n", o.Arg, shorten(o.Text, 48), count(o.Elements, "element"))
	shown := min(o.shown(), maxTextValues)
	words := make([]string, shown)
	width := 0
	for i := range words {
		v := Element(o.head, o.Type, i)
		if bits {
			words[i] = string(appendBits(nil, o.Type, v))
		} else {
			words[i] = string(appendText(nil, o.Type, v))
		}
		width = max(width, len(words[i]))
	}
	writeColumns(b, words, width)
	if rest := o.Elements - shown; rest > 0 {
		fmt.Fprintf(b, "  and %d more (--json has the first %d)\n", rest, maxValues)
	}
	fmt.Fprintf(b, "  sha256 %s\n", hex.EncodeToString(o.SHA256[:]))
}

// writeColumns writes values in columns. Each line begins with the index of its first
// value.
func writeColumns(b *strings.Builder, words []string, width int) {
	lead := len(fmt.Sprintf("  [%d]", max(len(words)-1, 0)))
	columns := 1
	for columns < 32 && lead+2*columns*(width+2) <= textWidth {
		columns *= 2
	}
	for i, word := range words {
		if i%columns == 0 {
			fmt.Fprintf(b, "%*s", lead, fmt.Sprintf("[%d]", i))
		}
		fmt.Fprintf(b, "  %*s", width, word)
		if i%columns == columns-1 || i == len(words)-1 {
			b.WriteByte('\n')
		}
	}
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
