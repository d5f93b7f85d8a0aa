package explain

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/ferrygpu/ferry/trace"
)

// loss is time that one transfer lost for one reason.
type loss struct {
	t      *transfer
	at     int   // the site of its call
	ns     int64 // lost
	source Source
	other  *transfer   // that t waited for; nil for none
	wait   *trace.Call // of the host; nil for none
}

// cause is a reason why transfers are slow.
type cause struct {
	name  string
	least int // transfers of a line below which it is no finding
	find  func(*timeline) []loss
	// evidence and do describe the losses of one line.
	evidence func(*group) string
	do       string
	inC      string // do for a program in C or C++; "" for the same
	// inPipeline is what to do if package pipeline makes the transfers; nil for do. It returns ""
	// if the program can do nothing: then it is no finding.
	inPipeline func(*group) string
}

// sourceOfC matches the files of programs that call the CUDA runtime or the driver themselves.
var sourceOfC = regexp.MustCompile(`\.(cu|cuh|c|cc|cpp|cxx|h|hpp)$`)

// group is the losses by one cause at one line of the program.
type group struct {
	cause  *cause
	on     *timeline
	site   int
	from   string
	to     string
	losses []loss
	ns     int64 // lost
	time   int64 // of the transfers
	bytes  uint64
}

// Limits below which a loss is no finding: a part of the time of all operations of the
// device, and a time.
const (
	leastPart = 0.02
	leastNs   = 10_000
)

// findings returns what made transfers slow, the most time lost first. Only transfers that
// are wanted count.
func findings(all []*timeline, wanted func(*transfer) bool) []Finding {
	out := []Finding{}
	for _, l := range all {
		for _, c := range causes {
			for _, g := range groups(l, c, wanted) {
				if len(g.losses) < c.least || g.ns < leastNs || float64(g.ns) < leastPart*float64(l.total) {
					continue
				}
				if do := g.advice(); do != "" {
					out = append(out, g.finding(do))
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(b.LostNs, a.LostNs) })
	return out
}

// groups collects the losses by a cause by lines and kinds of memory, in the order of the
// first loss.
func groups(l *timeline, c *cause, wanted func(*transfer) bool) (all []*group) {
	type key struct {
		site     int
		from, to string
	}
	by := map[key]*group{}
	for _, x := range c.find(l) {
		if !wanted(x.t) || x.ns <= 0 {
			continue
		}
		k := key{x.at, x.t.From, x.t.To}
		g := by[k]
		if g == nil {
			g = &group{cause: c, on: l, site: x.at, from: x.t.From, to: x.t.To}
			by[k], all = g, append(all, g)
		}
		g.losses = append(g.losses, x)
		g.ns += x.ns
		g.time += x.t.ns()
		g.bytes += x.t.Bytes
	}
	return all
}

// advice returns what to do about the losses of a group, "" for nothing.
func (g *group) advice() string {
	s := g.on.rec.Sites[g.site]
	switch c := g.cause; {
	case s.Pipeline && c.inPipeline != nil:
		return c.inPipeline(g)
	case c.inC != "" && sourceOfC.MatchString(s.File):
		return c.inC
	}
	return g.cause.do
}

func (g *group) finding(do string) Finding {
	s := g.on.rec.Sites[g.site]
	return Finding{
		Cause: g.cause.name, Site: s.String(), File: s.File, Line: s.Line, Function: s.Func,
		Transfers: len(g.losses), Bytes: g.bytes, TimeNs: g.time, LostNs: g.ns, Source: g.losses[0].source,
		Evidence: g.cause.evidence(g), Do: do,
	}
}

// siteOf returns the line of the program of a transfer.
func siteOf(rec *trace.Recording, t *transfer) string {
	if s := rec.Sites[t.call.Site].String(); s != "" {
		return s
	}
	return "a line that is not known"
}
