package bench

import (
	"errors"
	"strings"

	"github.com/ferrygpu/ferry"
)

// What Ferry's calls may take, as ratios, of the time that the same takes from C.
const callGoal = 1 / 1.10

// callRepeats is how many rounds of calls there are for one of other samples: they
// are short, and vary.
const callRepeats = 11

// SpeedCalls measures calls, target 6, beside the same from C, or alone where peer
// is "". peer is a library made of internal/bench/peer/calls.c. It makes its calls in this
// process, each beside Ferry's: two processes on one machine differ by more than
// what is to be seen here.
func SpeedCalls(g *ferry.GPU, peer string, rounds int) (results []SpeedResult, err error) {
	calls, err := openCallers(g, peer)
	defer func() { err = errors.Join(err, calls.close()) }()
	if err != nil {
		return nil, err
	}
	var here, there []float64 // of a round, until they are asked for
	sample := func(mine *[]float64) func() ([]float64, error) {
		return func() (figures []float64, err error) {
			if *mine == nil {
				here, there, err = calls.round()
			}
			figures, *mine = *mine, nil
			return figures, err
		}
	}
	c := contest{entrants: []entrant{{"", sample(&here)}}, repeats: callRepeats}
	for _, x := range calls.calls {
		c.rows = append(c.rows, callRow(x.what))
	}
	if peer != "" {
		c.entrants = append(c.entrants, entrant{"C", sample(&there)})
	}
	return c.run(rounds)
}

// callRow is a call with its goal. To do nothing, or the least, is there to be seen: no
// call from Go takes less than the one and C's time, no safe one less than the other.
func callRow(what string) figure {
	if what == nothing || strings.HasPrefix(what, least) {
		return figure{6, what, 0, 0}
	}
	if strings.Contains(what, "submitted") {
		return figure{6, what, 0, togetherGoal}
	}
	return figure{6, what, 0, callGoal}
}
