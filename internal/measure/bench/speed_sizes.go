package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ferrygpu/ferry"
)

const (
	// sizesGoal is a ratio of 1 within noise: a copy of a slice is not slower than
	// cuMemcpy of the same memory at any size.
	sizesGoal = 0.95
	// sizesWhat describes a size and a direction.
	sizesWhat = "by powers of two: plain slice of %d bytes %s"
	// beyondCaches is the largest size that the peer in C measures. Larger copies take
	// long and show nothing new.
	beyondCaches = 16 << 20
)

// SpeedSizes measures copies of slices for every power of two of bytes up to most. It
// compares them with cuMemcpy, called by this process for the same memory and by the peer
// internal/measure/bench/peer/stage.cu. Small sizes have more samples, because they are short and
// their times vary.
func SpeedSizes(g *ferry.GPU, most, samples int, peers []Peer) ([]SpeedResult, error) {
	return runWays(g, most, 0, samples, peers, func(ways []way) (all []contest) {
		ways = slices.DeleteFunc(ways, func(w way) bool { return w.name != "" && w.name != driverHere && w.name != driverInC })
		for i := range ways {
			if ways[i].name == driverInC {
				ways[i].most = min(ways[i].most, beyondCaches)
			}
		}
		for n := 1; n <= most; n *= 2 {
			for _, in := range []bool{true, false} {
				row := figure{stageTarget, fmt.Sprintf(sizesWhat, n, direction(in)), 0, sizesGoal}
				all = append(all, StageCase{Bytes: n, In: in}.among(ways, contest{rows: []figure{row}, repeats: sizesRepeats(g, n)}))
			}
		}
		return all
	})
}

// sizesRepeats returns how many rounds of n bytes there are for each requested round. A
// virtual clock has no noise.
func sizesRepeats(g *ferry.GPU, n int) int {
	switch {
	case g.Emulated() || n > beyondCaches:
		return 1
	case n > 64<<10:
		return 3
	}
	return 11
}

// ofSizes returns the case of a result of [SpeedSizes], and false for other results.
func (r SpeedResult) ofSizes() (c StageCase, ok bool) {
	way := ""
	n, _ := fmt.Sscanf(r.What, sizesWhat, &c.Bytes, &way)
	c.In = way == direction(true)
	return c, n == 2
}

// Text returns the report as a table with a line per result. The results of [SpeedSizes]
// have their own table.
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
		_ = w.Flush() // b is a strings.Builder
	}
	if len(sizes) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		writeSizes(&b, sizes)
	}
	return b.String()
}

// writeSizes writes a table of results of SpeedSizes with a line per size.
func writeSizes(w io.Writer, results []SpeedResult) {
	type cell struct {
		StageCase
		peer string
	}
	cells, sizes, met := map[cell]SpeedResult{}, []int{}, 0
	for _, r := range results {
		c, _ := r.ofSizes()
		cells[cell{c, r.PeerName}] = r
		sizes = append(sizes, c.Bytes)
		if r.Met {
			met++
		}
	}
	fmt.Fprintf(w, "Copies of slices compared with cuMemcpy of the same memory in this process (here) and with C, target %d. The\n", stageTarget)
	fmt.Fprintf(w, "goal is a ratio of %.2f: not slower, within noise. %d of %d meet it; the others have a !.\n\n", sizesGoal, met, len(results))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "size\tin\there\tratio\tC\tratio\tout\there\tratio\tC\tratio")
	for _, n := range slices.Compact(sizes) {
		line := sizeText(n)
		for _, in := range []bool{true, false} {
			here, c := cells[cell{StageCase{Bytes: n, In: in}, driverHere}], cells[cell{StageCase{Bytes: n, In: in}, driverInC}]
			line += "\t" + here.value(here.Ferry)
			for _, x := range []SpeedResult{here, c} {
				line += "\t" + x.value(x.Peer) + "\t" + x.marked()
			}
		}
		fmt.Fprintln(table, line)
	}
	_ = table.Flush() // w is a strings.Builder
}

// marked returns the ratio, with a mark if the goal is not met.
func (r SpeedResult) marked() string {
	if r.Ratio > 0 && !r.Met {
		return ratioText(r.Ratio) + " !"
	}
	return ratioText(r.Ratio)
}
