package load

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/trace"
)

// meter records what a device does.
type meter struct {
	gpu      *ferry.GPU // whose calls are recorded
	recorder *trace.Recorder
	dir      string
}

// newMeter opens the device of g again, with a recording. If its calls are recorded already, as
// FERRY_TRACE has them, nothing is added, and there are no parts.
func newMeter(g *ferry.GPU) (m *meter, err error) {
	if _, recorded := cu.As[*trace.Driver](g.Driver()); recorded {
		return &meter{gpu: g}, nil
	}
	m = new(meter)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.dir, err = os.MkdirTemp("", "ferry-load-"); err != nil {
		return m, err
	}
	if m.recorder, err = trace.Start(&trace.Options{Path: m.path()}); err != nil {
		return m, err
	}
	m.gpu, err = ferry.OpenDriver(m.recorder.Wrap(g.Driver()), int(g.CUDevice()))
	return m, err
}

func (m *meter) path() string { return filepath.Join(m.dir, "recording.json") }

// mark makes a call that stands in the recording, to find what comes after it or before it.
func (m *meter) mark() error {
	_, _, err := m.gpu.MemInfo()
	return err
}

const markCall = "cuMemGetInfo"

// parts ends the recording, and returns what it has between the first two marks. known is false if
// nothing was recorded.
func (m *meter) parts() (p Parts, known bool, err error) {
	if m.recorder == nil {
		return p, false, nil
	}
	if err := errors.Join(m.gpu.Close(), m.recorder.Close()); err != nil {
		return p, false, err
	}
	m.gpu = nil
	r, err := trace.ReadFile(m.path())
	if err != nil {
		return p, false, err
	}
	p, known = measure(r)
	return p, known, nil
}

// close ends what is left.
func (m *meter) close() (err error) {
	if m.recorder == nil {
		return nil
	}
	if m.gpu != nil {
		err = m.gpu.Close()
	}
	return errors.Join(err, m.recorder.Close(), os.RemoveAll(m.dir))
}

// interval is a time.
type interval struct{ from, to int64 }

// The calls that a load waits for beside copies.
var (
	pinningCalls = []string{"cuMemHostAlloc", "cuMemHostRegister"}
	memoryCalls  = []string{"cuMemAlloc"}
)

// measure divides the time between two marks.
func measure(r *trace.Recording) (p Parts, known bool) {
	whole, known := between(r)
	var busy, pinning, memory []interval
	for _, o := range r.Operations {
		known = known && o.Untimed == ""
		busy = append(busy, interval{o.Start, o.End})
	}
	for _, c := range r.Calls {
		switch {
		case slices.Contains(pinningCalls, c.Name):
			pinning = append(pinning, interval{c.Start, c.End})
		case slices.Contains(memoryCalls, c.Name):
			memory = append(memory, interval{c.Start, c.End})
		}
	}
	p.Link = union(whole, busy)
	p.Pinning = union(whole, busy, pinning) - p.Link
	p.Memory = union(whole, busy, pinning, memory) - p.Link - p.Pinning
	p.Rest = whole.to - whole.from - p.Link - p.Pinning - p.Memory
	return p, known
}

// between returns the time from the end of the first mark to the begin of the second.
func between(r *trace.Recording) (whole interval, ok bool) {
	var marks []trace.Call
	for _, c := range r.Calls {
		if c.Name == markCall {
			marks = append(marks, c)
		}
	}
	if len(marks) < 2 {
		return whole, false
	}
	slices.SortFunc(marks, func(a, b trace.Call) int { return cmp.Compare(a.Start, b.Start) })
	return interval{marks[0].End, marks[1].Start}, true
}

// union returns the time that intervals cover together, within a whole.
func union(whole interval, lists ...[]interval) (total int64) {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	at := whole.from
	for _, x := range all {
		from, to := max(x.from, at), min(x.to, whole.to)
		if to > from {
			total += to - from
			at = to
		}
	}
	return total
}
