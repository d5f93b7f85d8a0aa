package advise

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Term is a part of a predicted time. The terms of a time add up to it.
type Term struct {
	Name   string `json:"name"`
	Ns     int64  `json:"ns"`
	Source string `json:"source"` // "timeline", or "run" for a difference to another run
}

// span is what a device did in an interval of virtual time.
type span struct {
	what       string
	start, end time.Duration
}

// recorder collects the operations of a software GPU.
type recorder struct{ spans []span }

// Queued does nothing.
func (r *recorder) Queued(uint64) {}

// Ended keeps an operation that takes time.
func (r *recorder) Ended(op *cu.Operation) {
	if what := operation(op); what != "" && op.End > op.Start {
		r.spans = append(r.spans, span{what, op.Start, op.End})
	}
}

// operation names what a device does in an operation, or returns "" for what is no work.
func operation(op *cu.Operation) string {
	switch {
	case op.Kernel != "":
		return "kernel"
	case op.Engine == "copy in" || strings.HasPrefix(op.To, "device") && !strings.HasPrefix(op.From, "device"):
		return "copy in"
	case op.Engine == "copy out" || strings.HasPrefix(op.From, "device") && op.To != "" && !strings.HasPrefix(op.To, "device"):
		return "copy out"
	case op.Engine == "" || op.Engine == "host":
		return ""
	}
	return op.Engine
}

// timeline divides the interval from begin to end among what the device did: the names of
// all operations that ran at a moment, and before, between and after them the CPU's part.
func timeline(spans []span, begin, end time.Duration) []Term {
	edges := []time.Duration{begin, end}
	for _, s := range spans {
		edges = append(edges, min(max(s.start, begin), end), min(max(s.end, begin), end))
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	first, last := end, begin
	for _, s := range spans {
		first, last = min(first, s.start), max(last, s.end)
	}
	var terms []Term
	for i := 1; i < len(edges); i++ {
		from, to := edges[i-1], edges[i]
		name := running(spans, from)
		switch {
		case name != "":
		case from < first:
			name = termSubmit
		case from >= last:
			name = termReturn
		default:
			name = termBetween
		}
		terms = addTerm(terms, Term{name, int64(to - from), "timeline"})
	}
	return terms
}

// Terms in which no operation runs on the device.
const (
	termSubmit  = "submit"          // until the first operation begins
	termBetween = "CPU between"     // between operations
	termReturn  = "return to CPU"   // after the last operation
	termReads   = "CPU reads"       // of results
	termLink    = "link"            // of a kernel that uses host memory
	termPages   = "pages in kernel" // that move while a kernel runs
)

// running returns the names of what runs at a moment, in the order of a step.
func running(spans []span, at time.Duration) string {
	var names []string
	for _, s := range spans {
		if s.start <= at && at < s.end {
			names = append(names, s.what)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return strings.Join(slices.Compact(names), " + ")
}

// place returns a name that sorts in the order of a step.
func place(name string) string {
	return map[string]string{"copy in": "0", "kernel": "1", "copy out": "2"}[name] + name
}

// addTerm adds a term to those of the same name.
func addTerm(terms []Term, t Term) []Term {
	for i := range terms {
		if terms[i].Name == t.Name {
			terms[i].Ns += t.Ns
			return terms
		}
	}
	return append(terms, t)
}

// take moves up to ns of time from one term to another one.
func take(terms []Term, from, to, source string, ns int64) []Term {
	for i := range terms {
		if terms[i].Name == from && ns > 0 {
			ns = min(ns, terms[i].Ns)
			terms[i].Ns -= ns
			return addTerm(terms, Term{to, ns, source})
		}
	}
	return terms
}

// nsOf returns the time of a term, or 0.
func nsOf(terms []Term, name string) int64 {
	for _, t := range terms {
		if t.Name == name {
			return t.Ns
		}
	}
	return 0
}
