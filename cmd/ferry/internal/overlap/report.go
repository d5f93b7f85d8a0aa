package overlap

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/trace"
)

// Schema is the schema of the JSON of a report.
const Schema = "ferry.overlap/1"

// Report is what the experiment has shown. Times are nanoseconds.
type Report struct {
	Schema     string      `json:"schema"`
	Device     string      `json:"device"`
	Predicted  bool        `json:"predicted"` // by a software GPU
	Order      string      `json:"order"`
	Streams    int         `json:"streams"`
	Chunks     int         `json:"chunks"`
	Engines    int         `json:"engines"` // copy engines
	CopyBytes  int         `json:"copy_bytes"`
	KernelNs   int64       `json:"kernel_ns"` // what a kernel was asked to take
	Operations []Operation `json:"operations"`
	TotalNs    int64       `json:"total_ns"`  // from the first start to the last end
	SerialNs   int64       `json:"serial_ns"` // the sum of all operations
	BoundNs    int64       `json:"bound_ns"`  // no order of these operations takes less
	Overlap    float64     `json:"overlap"`   // of what can overlap, the part that did: 0 to 1
	OtherNs    int64       `json:"other_order_total_ns"`
	Sentence   string      `json:"sentence"`
}

// Operation is an operation of the experiment. Its number is its place in the list, which
// is the order of issue.
type Operation struct {
	Stream    int    `json:"stream"`
	Kind      string `json:"kind"` // "copy in", "kernel" or "copy out"
	Chunk     int    `json:"chunk"`
	Engine    string `json:"engine"`
	StartNs   int64  `json:"start_ns"`
	EndNs     int64  `json:"end_ns"`
	BlockedBy *int   `json:"blocked_by"` // the operation whose progress it waited for; null if it started when it was issued
	Reason    string `json:"reason"`     // host, order, engine, queue, check; inferred from the times on hardware

	queued int64
}

var kindNames = [kinds]string{"copy in", "kernel", "copy out"}

// newReport makes the report of operations, which are in the order of issue. other are
// those of the other order.
func newReport(device string, predicted bool, o *Options, f facts, ops, other []trace.Operation) *Report {
	r := &Report{Schema: Schema, Device: device, Predicted: predicted, Order: o.Order, Streams: o.Streams, Chunks: o.Chunks,
		Engines: f.engines, CopyBytes: o.Bytes, KernelNs: o.Kernel.Nanoseconds()}
	first, _ := window(ops)
	index := map[uint64]int{}
	for i, x := range plan(*o) {
		index[ops[i].ID] = i
		r.Operations = append(r.Operations, Operation{Stream: x.stream, Kind: kindNames[x.kind], Chunk: x.chunk, Engine: ops[i].Engine,
			StartNs: ops[i].Start - first, EndNs: ops[i].End - first, Reason: ops[i].Why, queued: ops[i].Queued - first})
	}
	for i := range r.Operations {
		if by, ok := index[ops[i].After]; ok {
			r.Operations[i].BlockedBy = &by
		} else if ops[i].Why == "unknown" {
			r.infer(i)
		}
	}
	r.measure(f)
	begin, end := window(other)
	r.OtherNs = end - begin
	r.Sentence = r.sentence()
	return r
}

// window returns the first start and the last end.
func window(ops []trace.Operation) (first, last int64) {
	if len(ops) == 0 {
		return 0, 0
	}
	first, last = ops[0].Start, ops[0].End
	for _, o := range ops {
		first, last = min(first, o.Start), max(last, o.End)
	}
	return first, last
}

// inferred is how far two times of hardware may be apart, in nanoseconds, for one to be the
// cause of the other.
const inferred = 5000

// infer finds what operation i of hardware waited for, by the times: the last operation
// before it in its stream, or else on its engine, that ended when it started.
func (r *Report) infer(i int) {
	o := &r.Operations[i]
	o.Reason = "host"
	for j := range r.Operations {
		p := &r.Operations[j]
		near := j != i && p.EndNs <= o.StartNs+inferred && p.EndNs > o.StartNs-inferred
		switch {
		case near && p.Stream == o.Stream:
			o.BlockedBy, o.Reason = &j, "order"
			return
		case near && p.Engine == o.Engine:
			o.BlockedBy, o.Reason = &j, "engine"
		}
	}
}

// load is what a set of operations of one engine needs: the time before the first can
// start, their own time, and the time after the last of them at least.
type load struct{ before, busy, after int64 }

// measure computes total, bound and overlap. Any set of operations of an engine bounds
// the total. All of them are one, and those of a kind another: with one copy engine the
// last copy in has a kernel behind it.
func (r *Report) measure(f facts) {
	loads := map[[2]string]*load{}
	chain := make([]int64, r.Streams)
	for i := range r.Operations {
		o := &r.Operations[i]
		took, rest := o.EndNs-o.StartNs, r.rest(i)
		r.SerialNs += took
		r.TotalNs = max(r.TotalNs, o.EndNs)
		for _, set := range [][2]string{{o.Engine, ""}, {o.Engine, o.Kind}} {
			l := loads[set]
			if l == nil {
				l = &load{before: math.MaxInt64, after: math.MaxInt64}
				loads[set] = l
			}
			l.busy += took
			l.before, l.after = min(l.before, chain[o.Stream]), min(l.after, rest)
		}
		chain[o.Stream] += took
	}
	r.BoundNs = slices.Max(chain)
	for set, l := range loads {
		if set[0] == "compute" && f.concurrent && f.engines > 0 {
			continue // kernels can overlap each other
		}
		r.BoundNs = max(r.BoundNs, l.before+l.busy+l.after)
	}
	r.BoundNs = min(r.BoundNs, r.TotalNs) // gaps between operations are not part of it
	if r.SerialNs > r.BoundNs {
		r.Overlap = max(0, min(1, float64(r.SerialNs-r.TotalNs)/float64(r.SerialNs-r.BoundNs)))
	}
}

// rest returns the time of the operations after operation i in its stream.
func (r *Report) rest(i int) (sum int64) {
	for j := i + 1; j < len(r.Operations); j++ {
		if o := &r.Operations[j]; o.Stream == r.Operations[i].Stream {
			sum += o.EndNs - o.StartNs
		}
	}
	return sum
}

// JSON returns the report as one indented document.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// wait is how long operations of a kind waited for another stream, for one reason.
type wait struct {
	kind, by, reason string
	ns               int64 // in sum
	idle             int64 // of it, while the engine was idle or the device had room
	longest          int   // the operation that waited longest
	times            int
}

// waits returns the waits for other streams: first those with the longest time in which
// the engine was idle, then the longest in sum.
func (r *Report) waits() []wait {
	all := map[[3]string]*wait{}
	for i := range r.Operations {
		o := &r.Operations[i]
		if o.BlockedBy == nil || r.Operations[*o.BlockedBy].Stream == o.Stream {
			continue
		}
		ns := r.waited(i)
		if ns <= 0 {
			continue
		}
		by := &r.Operations[*o.BlockedBy]
		k := [3]string{o.Kind, by.Kind, o.Reason}
		w := all[k]
		if w == nil {
			w = &wait{kind: o.Kind, by: by.Kind, reason: o.Reason, longest: i}
			all[k] = w
		}
		w.ns += ns
		w.idle += r.idle(i, ns)
		w.times++
		if ns > r.waited(w.longest) {
			w.longest = i
		}
	}
	var list []wait
	for _, w := range all {
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b wait) int {
		return cmp.Or(cmp.Compare(b.idle, a.idle), cmp.Compare(b.ns, a.ns), cmp.Compare(a.longest, b.longest))
	})
	return list
}

// waited returns how long operation i waited after it was issued and the operation before
// it in its stream had ended.
func (r *Report) waited(i int) int64 {
	o := &r.Operations[i]
	from := max(0, o.queued)
	for j := range i {
		if p := &r.Operations[j]; p.Stream == o.Stream {
			from = max(from, p.EndNs)
		}
	}
	return o.StartNs - from
}

// idle returns for how long the engine of operation i was idle while i waited. waited is the
// length of that wait. If the engine is not the reason for the wait, it was idle all the time.
// Otherwise it was idle before it began the operation that i waited for. A time of at most 1 %
// of the whole run counts as 0.
func (r *Report) idle(i int, waited int64) int64 {
	o := &r.Operations[i]
	if o.Reason != "engine" {
		return waited
	}
	by := &r.Operations[*o.BlockedBy]
	from := o.StartNs - waited
	for j := range r.Operations {
		if p := &r.Operations[j]; p.Engine == o.Engine && p.EndNs <= by.StartNs {
			from = max(from, p.EndNs)
		}
	}
	if idle := by.StartNs - from; idle > r.TotalNs/100 {
		return idle
	}
	return 0
}

// sentence says what blocked what.
func (r *Report) sentence() string {
	waits := r.waits()
	if r.Streams == 1 {
		return "With one stream nothing overlaps, because each operation follows the one before it."
	}
	if len(waits) == 0 || waits[0].ns < r.TotalNs/100 {
		return "No operation waited for another stream for 1 % of the total or more."
	}
	w := waits[0]
	o := &r.Operations[w.longest]
	by := &r.Operations[*o.BlockedBy]
	text := fmt.Sprintf("The %s of stream %d waited %s for the %s of stream %d, %s", o.Kind, o.Stream, tracereport.Duration(r.waited(w.longest)),
		by.Kind, by.Stream, r.because(w.longest))
	if w.times > 1 {
		text += fmt.Sprintf("; %d such waits are %s", w.times, tracereport.Duration(w.ns))
	}
	return text + "."
}

// because explains for which reason operation i waited.
func (r *Report) because(i int) string {
	o := &r.Operations[i]
	switch o.Reason {
	case "engine":
		if idle := r.idle(i, r.waited(i)); idle > 0 {
			return fmt.Sprintf("which was issued before it: the engine %q keeps the order of issue, and was idle for %s of that time, until the %s could start",
				o.Engine, tracereport.Duration(idle), r.Operations[*o.BlockedBy].Kind)
		}
		return fmt.Sprintf("because the engine %q serves both, one at a time", o.Engine)
	case "queue":
		return fmt.Sprintf("because it was issued after it, and the queue of the engine %q keeps the order of issue", o.Engine)
	case "check":
		if o.Kind == kindNames[kernel] {
			return "because the operation issued behind that kernel must see its end first: a dependency check of old devices"
		}
		return "because it may start only when all blocks of the kernels issued before it have started: a dependency check of old devices"
	}
	return "which had to end first"
}
