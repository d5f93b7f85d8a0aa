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

// contest has entrants take samples of the same rows in turns. Ferry's are the
// first: one that has all rows, or several, each with as many of them. A peer is
// beside each of those.
type contest struct {
	rows     []figure
	entrants []entrant
	repeats  int // rounds for each that is asked for; 0 is 1
	// goal is the ratio to reach beside a peer; nil for that of the row.
	goal func(r figure, peer string) float64
}

// runAll runs contests one after the other, up to the first that fails.
func runAll(contests []contest, rounds int) (results []SpeedResult, err error) {
	for _, c := range contests {
		some, err := c.run(rounds)
		if err != nil {
			return results, err
		}
		results = append(results, some...)
	}
	return results, nil
}

// own is how many entrants are Ferry's, and how many rows each has.
func (c contest) own() (count, each int) {
	for _, e := range c.entrants {
		if e.name == "" {
			count++
		}
	}
	return count, len(c.rows) / count
}

// run takes samples in rounds of random order, after one round for warming up.
// There is a result for each row and peer, or for each row if there is no peer.
func (c contest) run(rounds int) (results []SpeedResult, err error) {
	_, each := c.own()
	samples := make([][][]float64, len(c.entrants)) // of an entrant and a row
	for i := range samples {
		samples[i] = make([][]float64, each)
	}
	for round := range rounds*max(c.repeats, 1) + 1 {
		for _, i := range rand.Perm(len(c.entrants)) {
			figures, err := c.sample(i)
			if err != nil {
				return nil, err
			}
			for k, ns := range figures {
				if round > 0 {
					samples[i][k] = append(samples[i][k], ns)
				}
			}
		}
	}
	return c.results(samples), nil
}

// results are the rows, each beside each peer.
func (c contest) results(samples [][][]float64) (results []SpeedResult) {
	own, each := c.own()
	for k, r := range c.rows {
		mine := samples[k/each][k%each]
		if own == len(c.entrants) {
			results = append(results, r.result(mine, "", nil, c.goalOf(r, "")))
		}
		for i, e := range c.entrants[own:] {
			results = append(results, r.result(mine, e.name, samples[own+i][k%each], c.goalOf(r, e.name)))
		}
	}
	return results
}

// goalOf is the ratio to reach.
func (c contest) goalOf(r figure, peer string) float64 {
	if c.goal == nil {
		return r.goal
	}
	return c.goal(r, peer)
}

// sample has entrant i take one, and sees that it is whole.
func (c contest) sample(i int) ([]float64, error) {
	e := c.entrants[i]
	own, each := c.own()
	figures, err := e.sample()
	if err == nil && len(figures) != each {
		err = fmt.Errorf("%d figures for %d rows", len(figures), each)
	}
	for _, ns := range figures {
		if err == nil && ns <= 0 {
			err = errors.New("no time has passed")
		}
	}
	switch {
	case err == nil:
		return figures, nil
	case i >= own:
		return nil, fmt.Errorf("%s by %s: %w", c.rows[0].what, e.name, err)
	}
	return nil, fmt.Errorf("%s: %w", c.rows[i*each].what, err)
}

// of is what a time says: itself, or a bandwidth.
func (r figure) of(ns float64) float64 {
	if r.bytes == 0 {
		return ns
	}
	return float64(r.bytes) / ns * 1e9
}

// result is Ferry's median beside a peer's, or alone, of samples in nanoseconds.
func (r figure) result(own []float64, peer string, theirs []float64, goal float64) SpeedResult {
	x := SpeedResult{Target: r.target, What: r.what, Unit: "ns", PeerName: peer, GoalRatio: goal, Samples: len(own)}
	if r.bytes > 0 {
		x.Unit = "bytes_per_s"
	}
	x.Ferry, x.MAD = r.typical(own)
	if peer != "" {
		x.Peer, x.PeerMAD = r.typical(theirs)
	}
	return x.judge()
}

// typical is the median of what samples say, and how far they spread.
func (r figure) typical(samples []float64) (median, mad float64) {
	var values []float64
	for _, ns := range samples {
		values = append(values, r.of(ns))
	}
	return middle(values), spread(values)
}
