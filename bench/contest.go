package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// figure is what Ferry and its peers are compared by.
type figure struct {
	target int
	what   string
	bytes  int     // moved in the time of a sample; 0 if the time itself is the figure
	goal   float64 // the ratio to reach, 0 for none
}

// entrant is Ferry, without a name, or a peer.
type entrant struct {
	name string
	// sample makes its data fresh, takes so many nanoseconds for each row, and
	// checks the outcome.
	sample func() ([]float64, error)
}

// contest has entrants take samples of the same rows in turns.
type contest struct {
	rows     []figure
	entrants []entrant // Ferry is the first
}

// run takes samples in rounds of random order, after one round for warming up.
// There is a result for each row and peer, or for each row if there is no peer.
func (c contest) run(rounds int) (results []SpeedResult, err error) {
	samples := make([][][]float64, len(c.entrants)) // of an entrant and a row
	for i := range samples {
		samples[i] = make([][]float64, len(c.rows))
	}
	for round := range rounds + 1 {
		for _, i := range rand.Perm(len(c.entrants)) {
			figures, err := c.sample(c.entrants[i])
			if err != nil {
				return nil, err
			}
			for k, ns := range figures {
				if round > 0 {
					samples[i][k] = append(samples[i][k], c.rows[k].of(ns))
				}
			}
		}
	}
	for k, r := range c.rows {
		if len(c.entrants) == 1 {
			results = append(results, r.result(samples[0][k], "", nil))
		}
		for i, e := range c.entrants[1:] {
			results = append(results, r.result(samples[0][k], e.name, samples[i+1][k]))
		}
	}
	return results, nil
}

// sample takes one and sees that it is whole.
func (c contest) sample(e entrant) ([]float64, error) {
	figures, err := e.sample()
	if err == nil && len(figures) != len(c.rows) {
		err = fmt.Errorf("%d figures for %d rows", len(figures), len(c.rows))
	}
	for _, ns := range figures {
		if err == nil && ns <= 0 {
			err = errors.New("no time has passed")
		}
	}
	if err != nil && e.name != "" {
		return nil, fmt.Errorf("%s by %s: %w", c.rows[0].what, e.name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.rows[0].what, err)
	}
	return figures, nil
}

// of is what a time says: itself, or a bandwidth.
func (r figure) of(ns float64) float64 {
	if r.bytes == 0 {
		return ns
	}
	return float64(r.bytes) / ns * 1e9
}

// result is Ferry's median beside a peer's, or alone.
func (r figure) result(own []float64, peer string, theirs []float64) SpeedResult {
	x := SpeedResult{Target: r.target, What: r.what, Unit: "ns", Ferry: middle(own), PeerName: peer, GoalRatio: r.goal, Samples: len(own), MAD: spread(own)}
	if r.bytes > 0 {
		x.Unit = "bytes_per_s"
	}
	if peer != "" {
		x.Peer, x.PeerMAD = middle(theirs), spread(theirs)
	}
	return x.judge()
}
