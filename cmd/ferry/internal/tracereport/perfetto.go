package tracereport

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/trace"
)

// event is an event of the Trace Event Format, which Chrome and Perfetto read. Times are
// microseconds.
type event struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"`
	TS   *float64       `json:"ts,omitempty"`
	Dur  *float64       `json:"dur,omitempty"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	ID   uint64         `json:"id,omitempty"`
	BP   string         `json:"bp,omitempty"`
	Args map[string]any `json:"args,omitempty"`
}

// Processes of the trace: the host of each driver, and each device.
const (
	pidsPerDriver = 1000
	hostPID       = 1         // plus pidsPerDriver * (driver - 1)
	devicePID     = 2         // plus the device
	firstTID      = 1_000_000 // above all processes: a thread with the number of its process is its main thread
)

// Perfetto writes the recording in the Trace Event Format (JSON), which Perfetto and
// chrome://tracing load. Each driver has a process with tracks of calls. Each device is a
// process with a track for each stream and each engine. Slices of a track never overlap:
// what runs at the same time in a stream or on an engine is on a second track of it.
// Arrows lead from a call to its operations in their streams.
func Perfetto(w io.Writer, r *trace.Recording) error {
	p := &perfetto{w: bufio.NewWriterSize(w, 1<<16), rec: r, tracks: map[trackKey]*tracks{}, processes: map[int]bool{}, calls: map[uint64]callPlace{}}
	p.raw(`{"displayTimeUnit":"ns","otherData":`)
	p.json(map[string]any{"program": r.Program, "schema": trace.Schema, "lost_calls": r.LostCalls, "lost_operations": r.LostOps})
	p.raw(`,"traceEvents":[`)
	calls := slices.Clone(r.Calls)
	slices.SortStableFunc(calls, func(a, b trace.Call) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID)) })
	for i := range calls {
		p.call(&calls[i])
	}
	ops := slices.Clone(r.Operations)
	slices.SortStableFunc(ops, func(a, b trace.Operation) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID))
	})
	for i := range ops {
		p.operation(&ops[i])
	}
	p.raw("\n]}\n")
	if p.err != nil {
		return p.err
	}
	return p.w.Flush()
}

// perfetto writes events.
type perfetto struct {
	w         *bufio.Writer
	rec       *trace.Recording
	err       error
	any       bool
	tracks    map[trackKey]*tracks
	processes map[int]bool // with a name
	lastTID   int          // tracks are numbered across processes, as threads of one system are
	calls     map[uint64]callPlace
}

// trackKey names the tracks of a process that have one name.
type trackKey struct {
	pid  int
	name string
}

// callPlace is where the slice of a call is.
type callPlace struct {
	pid, tid int
	start    int64
}

func (p *perfetto) raw(s string) {
	if _, err := p.w.WriteString(s); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *perfetto) json(v any) {
	b, err := json.Marshal(v)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.raw(string(printable.JSON(b)))
}

func (p *perfetto) add(e event) {
	if p.any {
		p.raw(",")
	}
	p.any = true
	p.raw("\n")
	p.json(e)
}

// rounding is the error of the time of an event on hardware, in nanoseconds: within a
// stream, operations that seem to overlap by less do not.
const rounding = 1000

// slice adds a slice to the first track of a name that is free, and returns the number
// of the track and the start.
func (p *perfetto) slice(pid int, process, name string, order int, title, cat string, start, end int64, args map[string]any) (tid int, from int64) {
	group := p.tracks[trackKey{pid, name}]
	if group == nil {
		group = new(tracks)
		p.tracks[trackKey{pid, name}] = group
	}
	t := group.free(start)
	if t == nil {
		t = p.track(pid, name, group.count(), process, order)
		group.add(t)
	}
	start = max(start, t.end)
	end = max(start, end)
	group.use(t, end)
	ts, dur := micros(start), micros(end-start)
	p.add(event{Name: title, Cat: cat, Ph: "X", TS: &ts, Dur: &dur, PID: pid, TID: t.tid, Args: args})
	return t.tid, start
}

// track makes a track, and names it, and its process when that is new.
func (p *perfetto) track(pid int, name string, nth int, process string, order int) *track {
	if !p.processes[pid] {
		p.processes[pid] = true
		p.add(event{Name: "process_name", Ph: "M", PID: pid, Args: map[string]any{"name": process}})
		p.add(event{Name: "process_sort_index", Ph: "M", PID: pid, Args: map[string]any{"sort_index": pid}})
	}
	p.lastTID++
	t := &track{tid: firstTID + p.lastTID, end: -1 << 62}
	if nth > 0 {
		name += fmt.Sprintf(" (%d)", nth+1)
	}
	p.add(event{Name: "thread_name", Ph: "M", PID: pid, TID: t.tid, Args: map[string]any{"name": name}})
	p.add(event{Name: "thread_sort_index", Ph: "M", PID: pid, TID: t.tid, Args: map[string]any{"sort_index": order}})
	return t
}

func micros(ns int64) float64 { return float64(ns) / 1000 }

func (p *perfetto) call(c *trace.Call) {
	args := map[string]any{"call": c.ID}
	if s, ok := p.rec.Sites[c.Site]; ok {
		args["line"], args["function"] = s.String(), s.Func
	}
	if c.Bytes > 0 {
		args["bytes"] = c.Bytes
	}
	if c.Stream != trace.NoStream {
		args["stream"] = c.Stream
	}
	if c.Error != "" {
		args["error"] = c.Error
	}
	pid := pidsPerDriver*(c.Driver-1) + hostPID
	process := fmt.Sprintf("host: %s, driver %d", p.rec.Program, c.Driver)
	tid, start := p.slice(pid, process, fmt.Sprintf("driver calls %d", c.Track), c.Track, c.Name, "call", c.Start, c.End, args)
	p.calls[c.ID] = callPlace{pid, tid, start}
}

func (p *perfetto) operation(o *trace.Operation) {
	if o.Untimed != "" {
		return
	}
	pid := pidsPerDriver*(o.Driver-1) + devicePID + o.Device
	process := fmt.Sprintf("device %d", o.Device)
	for _, d := range p.rec.Devices {
		if d.ID == o.Device && d.Driver == o.Driver {
			process += ": " + d.Name
			break
		}
	}
	args := map[string]any{"operation": o.ID, "call": o.Call, "engine": o.Engine, "why": o.Why}
	if o.Bytes > 0 {
		args["bytes"] = o.Bytes
	}
	if o.From != "" {
		args["from"], args["to"] = o.From, o.To
	}
	if o.After != 0 {
		args["after"] = o.After
	}
	if o.Part != "" {
		args["longest_part"] = o.Part
	}
	if o.Count > 0 {
		args["count"] = o.Count
	}
	tid, start := p.slice(pid, process, streamName(o.Stream), o.Stream+10, o.Name, "operation", o.Start, o.End, args)
	p.flow(o, pid, tid, start)
	if o.Engine != "" {
		p.slice(pid, process, "engine: "+o.Engine, 1<<20, o.Name, "engine", o.Start, o.End, args)
	}
}

// flow adds the arrow from the call of an operation to its slice.
func (p *perfetto) flow(o *trace.Operation, pid, tid int, start int64) {
	c, ok := p.calls[o.Call]
	if !ok {
		return
	}
	from, to := micros(c.start), micros(start)
	id := o.ID + uint64(o.Driver)<<32
	p.add(event{Name: "queues", Cat: "flow", Ph: "s", TS: &from, PID: c.pid, TID: c.tid, ID: id})
	p.add(event{Name: "queues", Cat: "flow", Ph: "f", BP: "e", TS: &to, PID: pid, TID: tid, ID: id})
}

// streamName returns the name of a stream's track.
func streamName(stream int) string {
	switch stream {
	case 0:
		return "default stream"
	case -1:
		return "per-thread default streams"
	case trace.NoStream:
		return "nodes of graphs"
	}
	return fmt.Sprintf("stream %d", stream)
}
