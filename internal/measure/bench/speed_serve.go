package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/bench/serve"
)

// The goals of SpeedServe beside the peer with threads.
const (
	goalOfRequests = 0.95     // page-locked memory: requests a second
	goalOfTail     = 1 / 1.05 // page-locked memory: p99 and p99.9
	goalOfPageable = 2        // pageable memory: requests a second
)

// fewCells are the cells for a software GPU.
var fewCells = []serve.Cell{
	{Kind: "pinned", Bytes: 4096, Goroutines: 16},
	{Kind: "pageable", Bytes: 65536, Goroutines: 4},
	{Kind: "pool", Bytes: 4096, Goroutines: 4},
	{Kind: "pinned", Bytes: 4096, Goroutines: 4, GC: true},
}

// SpeedServe measures goroutines that use a GPU at once: each request copies in, launches a
// kernel, copies out and waits. A sample serves a cell for d. The peer is
// internal/measure/bench/peer/serve.cu; peer is its command line, nil if it is missing. The rows of a
// cell are the time of all divided by requests, the CPU time of a request, p50, p99 and p99.9.
func SpeedServe(g *ferry.GPU, cells []serve.Cell, d time.Duration, samples int, peer []string) ([]SpeedResult, error) {
	var all []contest
	for _, c := range cells {
		x := contest{rows: serveRows(c), entrants: []entrant{{"", func() ([]float64, error) {
			f, err := serve.Run(g, c, d)
			return serveFigures(f), err
		}}}}
		if len(peer) > 0 && c.Peer() {
			x.entrants = append(x.entrants, entrant{"C", func() ([]float64, error) { return askServe(peer, c, d) }})
		}
		all = append(all, x)
	}
	return runAll(all, samples)
}

// serveRows returns the rows of a cell.
func serveRows(c serve.Cell) (rows []figure) {
	goals := [5]float64{}
	switch {
	case !c.Peer():
	case c.Kind == "pinned":
		goals = [5]float64{goalOfRequests, 0, 0, goalOfTail, goalOfTail}
	case c.Kind == "pageable":
		goals[0] = goalOfPageable
	}
	for i, what := range []string{"a request", "CPU time", "p50", "p99", "p99.9"} {
		rows = append(rows, figure{0, fmt.Sprintf("serve %v: %s", c, what), 0, goals[i]})
	}
	return rows
}

// serveFigures returns the figures of a cell in the order of its rows, in ns. It returns nil
// if there are none.
func serveFigures(f *serve.Figures) []float64 {
	if f == nil {
		return nil
	}
	each := 1e9 / f.PerSecond
	return []float64{each, max(f.CPU*each, 1), // at least 1: some systems do not tell CPU times
		f.P50 * 1e3, f.P99 * 1e3, f.P999 * 1e3}
}

// askServe runs the peer for a cell.
func askServe(peer []string, c serve.Cell, d time.Duration) ([]float64, error) {
	args := append(slices.Clone(peer[1:]), "--time", fmt.Sprintf("%gs", d.Seconds()), c.String())
	cmd := exec.Command(peer[0], args...)
	cmd.Stderr = os.Stderr
	line, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var f serve.Figures
	if err := json.Unmarshal(line, &f); err != nil {
		return nil, fmt.Errorf("read %q: %w", line, err)
	}
	return serveFigures(&f), nil
}
