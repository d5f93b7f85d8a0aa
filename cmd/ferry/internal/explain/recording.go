package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/trace"
)

// transfer is an operation of a recording with what belongs to it.
type transfer struct {
	*trace.Operation
	call *trace.Call // that queued it; never nil
	on   *timeline
}

// ns returns how long the operation took.
func (t *transfer) ns() int64 { return t.End - t.Start }

// crosses reports whether the operation moves data between host and device.
func (t *transfer) crosses() bool {
	return t.From != "" && t.Bytes > 0 && (t.From != device || t.To != device)
}

// in reports whether it moves data to the device.
func (t *transfer) in() bool { return t.To == device || t.To == managed && t.From != device }

// isPageable reports whether one side is pageable memory.
func (t *transfer) isPageable() bool { return t.From == pageable || t.To == pageable }

// timeline has the operations of one device.
type timeline struct {
	rec     *trace.Recording
	prof    *profile.Profile // of the device; nil if there is none
	virtual bool             // times are predictions
	node    int              // of the device
	ops     []*transfer      // with times, by their start
	waits   []*trace.Call    // calls that wait, by their end
	total   int64            // sum of the times of all operations
	memory  *allocations

	// The fastest copy of page-locked memory in each direction, in bytes per nanosecond:
	// what a machine without a profile is compared with. 0 for none.
	bestIn, bestOut float64

	rounds roundTimes
}

// source is that of the times of the timeline.
func (l *timeline) source() Source {
	if l.virtual {
		return Predicted
	}
	return Observed
}

// timelines returns the devices of a recording that have operations.
func timelines(rec *trace.Recording) (all []*timeline) {
	type key struct{ driver, device int }
	by := map[key]*timeline{}
	calls := map[uint64]*trace.Call{}
	for i := range rec.Calls {
		calls[rec.Calls[i].ID] = &rec.Calls[i]
	}
	memory := allocationsOf(rec)
	for i := range rec.Operations {
		o := &rec.Operations[i]
		if o.Untimed != "" {
			continue
		}
		k := key{o.Driver, o.Device}
		l := by[k]
		if l == nil {
			l = newTimeline(rec, o.Driver, o.Device)
			l.memory = memory
			by[k], all = l, append(all, l)
		}
		c := calls[o.Call]
		if c == nil {
			c = &trace.Call{Driver: o.Driver, Stream: trace.NoStream}
		}
		l.add(&transfer{o, c, l})
	}
	for _, l := range all {
		slices.SortStableFunc(l.ops, func(a, b *transfer) int { return cmp.Compare(a.Start, b.Start) })
	}
	return all
}

func newTimeline(rec *trace.Recording, driver, dev int) *timeline {
	l := &timeline{rec: rec, node: trace.NoNode}
	for i := range rec.Drivers {
		if d := &rec.Drivers[i]; d.ID == driver && d.Virtual() {
			l.virtual = true
			l.prof, _ = profile.Named(d.Profile) // else it is a file's, which is not here
		}
	}
	for _, d := range rec.Devices {
		if d.Driver == driver && d.ID == dev {
			l.node = d.Node
			if l.prof == nil {
				l.prof = profile.ForDevice(d.Name)
			}
		}
	}
	for i := range rec.Calls {
		if c := &rec.Calls[i]; c.Driver == driver && waiting(c) {
			l.waits = append(l.waits, c)
		}
	}
	slices.SortStableFunc(l.waits, func(a, b *trace.Call) int { return cmp.Compare(a.End, b.End) })
	return l
}

// bestBytes is the least size of a copy that counts as the fastest one.
const bestBytes = 1 << 20

func (l *timeline) add(t *transfer) {
	l.ops = append(l.ops, t)
	l.total += t.ns()
	if !t.crosses() || t.isPageable() || t.Bytes < bestBytes || t.ns() <= 0 {
		return
	}
	rate := float64(t.Bytes) / float64(t.ns())
	if t.in() {
		l.bestIn = max(l.bestIn, rate)
	} else {
		l.bestOut = max(l.bestOut, rate)
	}
}

// fast predicts how long one copy of page-locked memory takes. known is false if there is
// neither a profile nor a copy to compare with.
func (l *timeline) fast(in bool, bytes uint64) (ns int64, known bool) {
	rate := l.bestOut
	if in {
		rate = l.bestIn
	}
	switch {
	case l.prof != nil && in:
		return int64(l.prof.Copy.PinnedHtoD.Ns(float64(bytes))), true
	case l.prof != nil:
		return int64(l.prof.Copy.PinnedDtoH.Ns(float64(bytes))), true
	case rate > 0:
		return int64(float64(bytes) / rate), true
	}
	return 0, false
}

// basis says what fast compares with.
func (l *timeline) basis() string {
	if l.prof != nil {
		return "by the profile " + l.prof.Name
	}
	return "by the fastest copy of the recording"
}

// engines returns the number of the device's copy engines, or 1 if it is not known.
func (l *timeline) engines() int {
	if l.prof == nil {
		return 1
	}
	n, known := l.prof.Attribute(cu.DeviceAttributeAsyncEngineCount)
	if !known {
		return 0
	}
	return int(n)
}

// Recording explains why transfers of a recording were slow. name is that of its file.
func Recording(name string, rec *trace.Recording) *Report {
	r := reportOf(name, rec)
	r.Findings = findings(timelines(rec), func(*transfer) bool { return true })
	return r
}

// reportOf begins the report of a recording.
func reportOf(name string, rec *trace.Recording) *Report {
	s := tracereport.Summarize(rec)
	r := newReport(name, cmp.Or(strings.Join(s.Devices, ", "), "no device"))
	r.recording, r.Predicted = true, s.Predicted
	crossing, bytes, ns := 0, uint64(0), int64(0)
	for i := range rec.Operations {
		o := &rec.Operations[i]
		if t := (transfer{Operation: o}); o.Untimed == "" && t.crosses() {
			crossing, bytes, ns = crossing+1, bytes+o.Bytes, ns+t.ns()
		}
	}
	r.About = fmt.Sprintf("%s (process %d): %d calls, %d operations; %d %s of %s in %s.", s.Program, s.PID, s.Calls, s.Operations,
		crossing, plural(crossing, "transfer"), tracereport.Bytes(bytes), tracereport.Duration(ns))
	r.Notes = append(r.Notes, s.Notes...)
	return r
}

// plural returns a noun for a number of things.
func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
