package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/ferrygpu/ferry"
)

// What Ferry's calls may take, as ratios, of the time that the same takes from C.
const (
	callGoal = 1 / 1.10
	// stepInC is what steps submitted together are beside.
	stepInC = "step: copy in, launch, copy out, event"
)

// SpeedCalls measures calls, target 6, beside peer, a program made of
// bench/peer/calls.c, or alone where that is "".
func SpeedCalls(g *ferry.GPU, peer string, rounds int) ([]SpeedResult, error) {
	first, err := Calls(g)
	if err != nil {
		return nil, err
	}
	var c contest
	for _, cost := range first {
		c.rows = append(c.rows, callRow(cost.What))
	}
	c.entrants = []entrant{{"", func() ([]float64, error) {
		costs, err := Calls(g)
		return pick(c.rows, costs, func(what string) string { return what }, err)
	}}}
	if peer != "" {
		c.entrants = append(c.entrants, entrant{"C", func() ([]float64, error) {
			costs, err := callsOf(peer)
			return pick(c.rows, costs, inC, err)
		}})
	}
	return c.run(rounds)
}

// callRow is a call with its goal. To do nothing is there to be seen: no call from Go
// takes less than that and C's time.
func callRow(what string) figure {
	if what == nothing {
		return figure{6, what, 0, 0}
	}
	if strings.Contains(what, "submitted") {
		return figure{6, what, 0, togetherGoal}
	}
	return figure{6, what, 0, callGoal}
}

// inC is what a call is called in C.
func inC(what string) string {
	what = strings.TrimPrefix(what, "ferry: ")
	if strings.HasPrefix(what, "step") {
		return stepInC
	}
	return what
}

// pick is the costs of rows, by the names that they have there.
func pick(rows []figure, costs []CallCost, name func(string) string, err error) (figures []float64, _ error) {
	by := map[string]float64{}
	for _, c := range costs {
		by[c.What] = c.NS
	}
	for _, r := range rows {
		ns, ok := by[name(r.what)]
		if !ok && err == nil {
			err = fmt.Errorf("%q was not measured", name(r.what))
		}
		figures = append(figures, ns)
	}
	return figures, err
}

// callsOf runs a program that prints costs, one JSON object a line.
func callsOf(program string) (costs []CallCost, err error) {
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run peer %s: %w", program, err)
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var c CallCost
		switch err := d.Decode(&c); {
		case errors.Is(err, io.EOF):
			return costs, nil
		case err != nil:
			return nil, fmt.Errorf("what peer %s prints: %w", program, err)
		}
		costs = append(costs, c)
	}
}
