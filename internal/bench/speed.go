package bench

// SpeedSchema is the version of a [SpeedReport].
const SpeedSchema = "ferry.speed/1"

// SpeedReport is how fast Ferry is beside its peers, measured in one run.
type SpeedReport struct {
	Schema  string            `json:"schema"`
	Machine map[string]string `json:"machine"`
	Results []SpeedResult     `json:"results"`
}

// SpeedResult is one figure of Ferry beside that of a peer. Times, in ns, are better
// when they are small, bandwidths when they are large. A ratio over 1 is in favour
// of Ferry.
type SpeedResult struct {
	Target    int     `json:"target"` // number of what Ferry set out to reach, 0 for none
	What      string  `json:"what"`
	Unit      string  `json:"unit"` // "bytes_per_s" or "ns"
	Ferry     float64 `json:"ferry"`
	PeerName  string  `json:"peer_name,omitempty"`
	Peer      float64 `json:"peer,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	GoalRatio float64 `json:"goal_ratio,omitempty"` // to reach, where the goal depends on the peer
	Goal      float64 `json:"goal,omitempty"`       // of Ferry's figure
	Met       bool    `json:"met"`                  // also where there is no goal; not where the peer is missing
	Samples   int     `json:"samples"`
	MAD       float64 `json:"mad"`                // of Ferry's samples, in the unit
	PeerMAD   float64 `json:"peer_mad,omitempty"` // of the peer's
}

// judge fills in what follows from the figures.
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
