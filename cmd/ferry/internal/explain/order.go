package explain

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
)

// A copy counts as behind a large one if the large one has at least largeTimes its bytes, and
// the copy waits at least waitTimes its own duration.
const (
	largeTimes = 16
	waitTimes  = 3
)

// findQueue finds transfers that waited for one of another stream: in the queue of their
// engine while it was idle, or behind a much larger one.
func findQueue(l *timeline) (all []loss) {
	byID := map[uint64]*transfer{}
	for _, t := range l.ops {
		byID[t.ID] = t
	}
	ends := map[int]int64{} // of the last operation of each stream
	engines := map[string][]*transfer{}
	for i, t := range l.ops {
		other, ns := byID[t.After], int64(0)
		ready := max(t.Queued, ends[t.Stream])
		switch {
		case !t.crosses():
		case (t.Why == "queue" || t.Why == "engine") && other != nil:
			if ns = idleBefore(engines[t.Engine], other, ready); float64(ns) < idlePart*float64(t.ns()) {
				ns = 0
			}
			ns = max(ns, behindLarge(t, other, t.Start-ready))
		case t.Why == "unknown":
			if other = overlapping(l.ops, i); other != nil {
				ns = behindLarge(t, other, other.End-max(t.Start, other.Start))
			}
		}
		if ns > 0 && other.Stream != t.Stream {
			all = append(all, loss{t: t, at: t.call.Site, ns: ns, source: l.source(), other: other})
		}
		ends[t.Stream] = max(ends[t.Stream], t.End)
		engines[t.Engine] = append(engines[t.Engine], t)
	}
	return all
}

// behindLarge returns the wait of a transfer for another one if that is much larger.
func behindLarge(t, other *transfer, wait int64) int64 {
	own := t.ns()
	if t.Why == "unknown" { // the time between its events includes the wait
		own -= wait
	}
	if other.Bytes < largeTimes*t.Bytes || wait < waitTimes*own {
		return 0
	}
	return wait
}

// idlePart is the part of a transfer's own time from which on the idle time of its engine
// counts. Less is the time from one operation to the next.
const idlePart = 0.1

// idleBefore returns for how long an engine was idle, from a time on, until an operation of
// it began.
func idleBefore(engine []*transfer, other *transfer, from int64) int64 {
	for i, t := range slices.Backward(engine) {
		if t == other {
			if i > 0 {
				from = max(from, engine[i-1].End)
			}
			return max(0, other.Start-from)
		}
	}
	return 0
}

// nearOps bounds how many operations overlapping looks at.
const nearOps = 64

// overlapping returns the largest operation on the engine of operation i that was in
// progress beside it, in another stream, and ended before it; or nil. On hardware an
// operation seems to begin when its engine is still busy.
func overlapping(ops []*transfer, i int) (found *transfer) {
	t := ops[i]
	for _, o := range ops[max(0, i-nearOps):min(len(ops), i+nearOps)] {
		if o.Engine == t.Engine && o.Stream != t.Stream && o.End > t.Start && o.End <= t.End && (found == nil || o.Bytes > found.Bytes) {
			found = o
		}
	}
	return found
}

func sayQueue(g *group) string {
	first := g.losses[0]
	for _, x := range g.losses {
		if x.ns > first.ns {
			first = x
		}
	}
	how := "while its engine was idle"
	if first.other.Bytes >= largeTimes*first.t.Bytes {
		how = "which is much larger"
	}
	return fmt.Sprintf("%s; one waited %s for %s of %s in another stream (%s), %s", g.what(), tracereport.Duration(first.ns),
		first.other.Name, tracereport.Bytes(first.other.Bytes), siteOf(g.on.rec, first.other), how)
}

// Limits of rounds.
const (
	leastRounds = 3   // of copies and kernels in turn, below which there is little to overlap
	leastGain   = 0.1 // of the time, below which work counts as overlapped
)

// roundTimes is what operations in turn take and could take.
type roundTimes struct {
	n            int
	took, atBest int64
}

// findSerial finds transfers that run while no other engine works, in a program of several
// rounds of copies and kernels.
func findSerial(l *timeline) (all []loss) {
	r := l.measureRounds()
	l.rounds = r
	lost := r.took - r.atBest
	if r.n < leastRounds || l.engines() == 0 || float64(lost) < leastGain*float64(r.took) {
		return nil
	}
	alone := l.alone()
	total := int64(0)
	for t, ns := range alone {
		if t.crosses() && !t.isPageable() {
			total += ns
		}
	}
	lost = min(lost, total)
	for _, t := range l.ops {
		if ns := alone[t]; ns > 0 && t.crosses() && !t.isPageable() {
			all = append(all, loss{t: t, at: t.call.Site, ns: int64(float64(lost) * float64(ns) / float64(total)), source: l.source()})
		}
	}
	return all
}

// measureRounds counts the rounds, and what they take at best: as long as the engine with
// most work, with the first copy in before and the last copy out behind.
func (l *timeline) measureRounds() (r roundTimes) {
	sums := map[string]int64{}
	copied := false
	var end, first, last int64
	for _, t := range l.ops {
		switch {
		case t.crosses():
			copied = true
			if t.in() && first == 0 {
				first = t.ns()
			} else if !t.in() {
				last = t.ns()
			}
		case t.Engine == "compute" && copied:
			r.n++
			copied = false
		}
		sums[t.Engine] += t.ns()
		r.took += max(0, t.End-max(t.Start, end))
		end = max(end, t.End)
	}
	for _, ns := range sums {
		r.atBest = max(r.atBest, ns)
	}
	r.atBest += first + last
	return r
}

// alone returns for how long each operation ran while no other engine did.
func (l *timeline) alone() map[*transfer]int64 {
	type edge struct {
		at    int64
		begin bool
		t     *transfer
	}
	var edges []edge
	for _, t := range l.ops {
		edges = append(edges, edge{t.Start, true, t}, edge{t.End, false, t})
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return int(max(-1, min(1, a.at-b.at))) })
	out := map[*transfer]int64{}
	running := map[*transfer]bool{}
	for i, e := range edges {
		if e.begin {
			running[e.t] = true
		} else {
			delete(running, e.t)
		}
		if i+1 < len(edges) && len(running) == 1 {
			for t := range running {
				out[t] += edges[i+1].at - e.at
			}
		}
	}
	return out
}

func saySerial(g *group) string {
	r := g.on.rounds
	return fmt.Sprintf("%s, ran while no other engine worked; the %d rounds of copies and kernels took %s and need %s when they overlap", g.what(), r.n,
		tracereport.Duration(r.took), tracereport.Duration(r.atBest))
}
