package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// figure is a quantity that is compared: a time or a bandwidth.
type figure struct {
	target int     // number of Ferry's target, 0 for none
	what   string  // description
	bytes  int     // bytes moved in a sample's time; 0 if the time itself is the figure
	goal   float64 // ratio to reach, 0 for none
}

// entrant is a program in a contest: Ferry, without a name, or a peer.
type entrant struct {
	name string
	// sample writes new data, runs the operation and checks the result. It returns the
	// nanoseconds for each row.
	sample func() ([]float64, error)
}

// contest measures the same figures for Ferry and for peers, in turns. Ferry's entrants
// are the first. There is one for all rows, or several that divide the rows equally. Each
// peer is compared with each of them.
type contest struct {
	rows     []figure
	entrants []entrant
	repeats  int // rounds for each requested round; 0 is 1
	// goal returns the ratio to reach in comparison with a peer. If it is nil, the row's
	// goal is used.
	goal func(r figure, peer string) float64
}

// runAll runs contests one after the other until one fails.
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

// own returns the number of Ferry's entrants, and the number of rows of each.
func (c contest) own() (count, each int) {
	for _, e := range c.entrants {
		if e.name == "" {
			count++
		}
	}
	return count, len(c.rows) / count
}

// run takes samples in rounds, after one round for warming up. Each round has a random
// order. There is a result for each row and peer, or for each row if there is no peer.
func (c contest) run(rounds int) (results []SpeedResult, err error) {
	_, each := c.own()
	samples := make([][][]float64, len(c.entrants)) // by entrant, by row
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

// results returns a result for each row and each peer.
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

// goalOf returns the ratio to reach in comparison with a peer.
func (c contest) goalOf(r figure, peer string) float64 {
	if c.goal == nil {
		return r.goal
	}
	return c.goal(r, peer)
}

// sample takes a sample of entrant i and checks that it has a positive time for each row.
func (c contest) sample(i int) ([]float64, error) {
	e := c.entrants[i]
	own, each := c.own()
	figures, err := e.sample()
	if err == nil && len(figures) != each {
		err = fmt.Errorf("%d figures for %d rows", len(figures), each)
	}
	for _, ns := range figures {
		if err == nil && ns <= 0 {
			err = errors.New("the measured time is not positive")
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

// of converts a time to the figure: the time itself, or a bandwidth.
func (r figure) of(ns float64) float64 {
	if r.bytes == 0 {
		return ns
	}
	return float64(r.bytes) / ns * 1e9
}

// result returns Ferry's median, and a peer's if it has a name. Samples are in nanoseconds.
func (r figure) result(own []float64, peer string, theirs []float64, goal float64) SpeedResult {
	x := SpeedResult{Target: r.target, What: r.what, Unit: "ns", PeerName: peer, GoalRatio: goal, Samples: len(own)}
	if r.bytes > 0 {
		x.Unit = "bytes_per_s"
	}
	x.Ferry, x.MAD = r.summarize(own)
	if peer != "" {
		x.Peer, x.PeerMAD = r.summarize(theirs)
	}
	return x.judge()
}

// summarize returns the median of the figure over samples, and the median absolute
// deviation.
func (r figure) summarize(samples []float64) (median, mad float64) {
	var values []float64
	for _, ns := range samples {
		values = append(values, r.of(ns))
	}
	return Median(values), Deviation(values)
}
