package explain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/doctor"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// runBytes is the memory of a run.
const runBytes = 4 << 20

// repeats is how often hardware runs are timed. The median counts.
const repeats = 7

// lab is a device on which a topic is run.
type lab struct {
	ctx    context.Context
	g      *ferry.GPU
	soft   *softgpu.Driver  // nil on hardware
	prof   *profile.Profile // of the device; nil if there is none
	shadow []Step           // on hardware: the steps of the same topic on the software GPU
	hw     doctor.Hardware
	files  fs.FS // the root of the machine
	r      *Report

	s          *ferry.Stream
	from, to   *ferry.Event
	read, fill *ferry.Kernel
	chase      *ferry.Kernel
	out        *ferry.Device[uint32]
	undo       []func() error
}

// newLab prepares a device for the runs of a report.
func newLab(ctx context.Context, g *ferry.GPU, r *Report) (l *lab, err error) {
	l = &lab{ctx: ctx, g: g, soft: softgpu.Of(g.Driver()), r: r}
	if l.soft != nil {
		l.prof = l.soft.Machine()
	} else {
		l.readMachine()
	}
	if err := l.prepare(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// readMachine reads what hardware shows of itself.
func (l *lab) readMachine() {
	l.prof = profile.ForDevice(l.g.Name())
	l.files = os.DirFS("/")
	address, err := l.g.Driver().DeviceGetPCIBusId(l.g.CUDevice())
	if err != nil {
		l.note("the PCI address is not known: %v", err)
		return
	}
	m, err := doctor.OpenNVML()
	if err != nil {
		m = nil
	}
	l.hw = doctor.ReadHardware(l.files, m, address)
}

func (l *lab) note(format string, args ...any) {
	l.r.Notes = append(l.r.Notes, fmt.Sprintf(format, args...))
}

// prepare makes what all runs need.
func (l *lab) prepare() (err error) {
	if l.s, err = ferry.NewStream(l.g, nil); err != nil {
		return err
	}
	l.after(l.s.Close)
	for _, e := range []**ferry.Event{&l.from, &l.to} {
		if *e, err = ferry.NewEvent(l.g, nil); err != nil {
			return err
		}
		l.after((*e).Close)
	}
	m, err := ferry.Load(l.g, []byte(kernelsPTX), nil)
	if err != nil {
		return err
	}
	l.after(m.Close)
	for name, k := range map[string]**ferry.Kernel{"read": &l.read, "write": &l.fill, "chase": &l.chase} {
		if *k, err = m.Kernel(name); err != nil {
			return err
		}
	}
	if l.out, err = ferry.Alloc[uint32](l.g, 4); err != nil {
		return err
	}
	l.after(l.out.Close)
	return nil
}

// after lets close call f.
func (l *lab) after(f func() error) { l.undo = append(l.undo, f) }

func (l *lab) close() (err error) {
	for _, f := range slices.Backward(l.undo) {
		err = errors.Join(err, f())
	}
	return err
}

// source is that of times that the lab measures.
func (l *lab) source() Source {
	if l.soft != nil {
		return Predicted
	}
	return Observed
}

// has reports whether an attribute of the device is not 0.
func (l *lab) has(a cu.DeviceAttribute) bool {
	v, err := l.g.Attribute(a)
	return err == nil && v != 0
}

// onDevice returns the time on the device of what f queues: of the first run, or the
// median of several.
func (l *lab) onDevice(times int, f func() error) (time.Duration, error) {
	return l.median(times, func() (time.Duration, error) {
		if err := errors.Join(l.s.Record(l.from), f(), l.s.Record(l.to), l.s.Wait(l.ctx)); err != nil {
			return 0, err
		}
		return l.to.Since(l.from)
	})
}

// onHost returns the time that f takes the host.
func (l *lab) onHost(times int, f func() error) (time.Duration, error) {
	return l.median(times, func() (time.Duration, error) {
		began := l.g.Now()
		err := f()
		return l.g.Now() - began, errors.Join(err, l.s.Wait(l.ctx))
	})
}

// median returns the median of several measurements.
func (l *lab) median(times int, measure func() (time.Duration, error)) (time.Duration, error) {
	if l.soft != nil {
		times = 1 // all are the same
	}
	var all []time.Duration
	for range times {
		if err := l.ctx.Err(); err != nil {
			return 0, err
		}
		d, err := measure()
		if err != nil {
			return 0, err
		}
		all = append(all, d)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// timing is what a run measures.
type timing struct {
	text  string
	bytes int // for the bandwidth; 0 for none
	once  bool
	host  bool // on the host's clock
	f     func() error
}

// time runs and times something and adds a step.
func (l *lab) time(path string, x timing) error {
	times, measure := repeats, l.onDevice
	if x.host {
		measure = l.onHost
	}
	if !x.once { // the first use of memory and code takes longer
		if _, err := measure(1, x.f); err != nil {
			return err
		}
	} else {
		times = 1
	}
	d, err := measure(times, x.f)
	if err != nil {
		return err
	}
	if x.bytes > 0 && d > 0 {
		x.text += ": " + rate(float64(x.bytes), float64(d))
	}
	l.add(Step{Path: path, Place: "run", CostNs: cost(float64(d)), Source: l.source(), Text: x.text})
	return nil
}

// add adds a step.
func (l *lab) add(s Step) { l.r.Steps = append(l.r.Steps, s) }

func cost(ns float64) *float64 { return &ns }

// reading launches the kernel that reads the memory at an address.
func (l *lab) reading(at cu.DevicePtr, bytes int) func() error {
	return func() error { return l.s.Launch(l.read, l.g.GridStride(bytes/16), at, uint64(bytes/16), l.out) }
}

// writing launches the kernel that writes the memory at an address.
func (l *lab) writing(at cu.DevicePtr, bytes int) func() error {
	return func() error { return l.s.Launch(l.fill, l.g.GridStride(bytes/16), at, uint64(bytes/16), uint32(7)) }
}

// The chain of reads of one thread.
const (
	chainReads = 512
	chainStep  = 1088 // words: a page and some more, so that no read finds a cache line of another
)

// chain fills a slice so that each word has the index of the next one to read.
func chain(words []uint32) {
	at := uint32(0)
	for range chainReads {
		next := (at + chainStep) % uint32(len(words))
		words[at] = next
		at = next
	}
}

// alone measures the time of one read that waits for the one before.
func (l *lab) alone(path, text string, at cu.DevicePtr) error {
	chase := func(n uint32) func() error {
		return func() error { return l.s.Launch(l.chase, ferry.Cover(1, 1), at, n, l.out) }
	}
	if _, err := l.onDevice(1, chase(chainReads)); err != nil {
		return err
	}
	few, err := l.onDevice(repeats, chase(chainReads/8))
	if err != nil {
		return err
	}
	many, err := l.onDevice(repeats, chase(chainReads))
	if err != nil {
		return err
	}
	ns := float64(many-few) / (chainReads - chainReads/8)
	l.add(Step{Path: path, Place: "run", CostNs: cost(ns), Source: l.source(), Text: text})
	return nil
}
