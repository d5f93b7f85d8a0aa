package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// Text is the report as a table for people, a line a result; those of [SpeedSizes]
// have a table of their own.
func (r *SpeedReport) Text() string {
	var b strings.Builder
	var sizes []SpeedResult
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "target\twhat\tFerry\tpeer\t\tratio\tgoal\t")
	for _, x := range r.Results {
		if _, ok := x.ofSizes(); ok {
			sizes = append(sizes, x)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.targetText(), x.What, x.value(x.Ferry), x.value(x.Peer), x.PeerName, ratioText(x.Ratio), x.goalText(), x.verdict())
	}
	if len(sizes) < len(r.Results) || len(sizes) == 0 {
		_ = w.Flush() // to a strings.Builder
	}
	if len(sizes) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		writeSizes(&b, sizes)
	}
	return b.String()
}

func (r SpeedResult) targetText() string {
	if r.Target == 0 {
		return "-"
	}
	return fmt.Sprint(r.Target)
}

// value is a figure with its unit, a dash for none.
func (r SpeedResult) value(v float64) string {
	switch {
	case v == 0:
		return "-"
	case r.Unit == "bytes_per_s":
		return fmt.Sprintf("%.2f GB/s", v/1e9)
	case v < 100:
		return fmt.Sprintf("%.1f ns", v)
	}
	return timeText(time.Duration(v))
}

func ratioText(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}

// goalText is the ratio to reach, or the figure.
func (r SpeedResult) goalText() string {
	switch {
	case r.GoalRatio > 0:
		return ratioText(r.GoalRatio)
	case r.Goal > 0:
		return r.value(r.Goal)
	}
	return "-"
}

func (r SpeedResult) verdict() string {
	switch {
	case r.GoalRatio > 0 && r.Peer == 0:
		return "no peer"
	case r.Goal == 0:
		return ""
	case r.Met:
		return "met"
	}
	return "not met"
}

// Write writes the report to a file, as JSON.
func (r *SpeedReport) Write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// sizeText is a number of bytes in the largest unit that leaves a whole number.
func sizeText(n int) string {
	unit := 0
	for ; n >= 1024 && n%1024 == 0 && unit < 3; unit++ {
		n /= 1024
	}
	return fmt.Sprint(n, [...]string{" bytes", " KiB", " MiB", " GiB"}[unit])
}
