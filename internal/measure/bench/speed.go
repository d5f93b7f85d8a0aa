package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// SpeedSchema is the version of a [SpeedReport].
const SpeedSchema = "ferry.speed/1"

// SpeedReport compares the speed of Ferry and its peers, measured in one run.
type SpeedReport struct {
	Schema  string            `json:"schema"`
	Machine map[string]string `json:"machine"`
	Results []SpeedResult     `json:"results"`
}

// SpeedResult is one figure of Ferry and of a peer. Small times and large bandwidths are
// better. A ratio over 1 is in favour of Ferry.
type SpeedResult struct {
	Target    int     `json:"target"` // number of Ferry's target, 0 for none
	What      string  `json:"what"`
	Unit      string  `json:"unit"` // "bytes_per_s" or "ns"
	Ferry     float64 `json:"ferry"`
	PeerName  string  `json:"peer_name,omitempty"`
	Peer      float64 `json:"peer,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	GoalRatio float64 `json:"goal_ratio,omitempty"` // the ratio to reach, if the goal depends on the peer
	Goal      float64 `json:"goal,omitempty"`       // the figure to reach
	Met       bool    `json:"met"`                  // true if there is no goal; false if the goal's peer is missing
	Samples   int     `json:"samples"`
	MAD       float64 `json:"mad"`                // of Ferry's samples, in the unit
	PeerMAD   float64 `json:"peer_mad,omitempty"` // of the peer's
}

// judge fills in Ratio, Goal and Met.
func (r SpeedResult) judge() SpeedResult {
	small, compared := r.Unit == "ns", r.Peer != 0 && r.Ferry != 0
	switch {
	case !compared:
	case small:
		r.Ratio = r.Peer / r.Ferry
	default:
		r.Ratio = r.Ferry / r.Peer
	}
	switch {
	case r.GoalRatio == 0:
	case small:
		r.Goal = r.Peer / r.GoalRatio
	default:
		r.Goal = r.Peer * r.GoalRatio
	}
	switch {
	case r.GoalRatio > 0 && !compared:
		r.Met = false
	case small:
		r.Met = r.Goal == 0 || r.Ferry <= r.Goal
	default:
		r.Met = r.Ferry >= r.Goal
	}
	return r
}

func (r SpeedResult) targetText() string {
	if r.Target == 0 {
		return "-"
	}
	return fmt.Sprint(r.Target)
}

// value formats a figure with its unit, or a dash for none.
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

// goalText formats the ratio or the figure to reach.
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

// sizeText formats a number of bytes in the largest unit that gives an integer.
func sizeText(n int) string {
	unit := 0
	for ; n >= 1024 && n%1024 == 0 && unit < 3; unit++ {
		n /= 1024
	}
	return fmt.Sprint(n, [...]string{" bytes", " KiB", " MiB", " GiB"}[unit])
}
