package overlap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// Orders of issue. Depth first issues all operations of a stream, then those of the next.
// Breadth first issues the copies in of all streams, then their kernels, then their
// copies out.
const (
	Depth   = "depth"
	Breadth = "breadth"
)

// Options choose the experiment.
type Options struct {
	Order   string
	Streams int           // 1 to MaxStreams
	Engines int           // copy engines of a software GPU, 1 to 3; 0 for those of its profile
	Chunks  int           // rounds of copy in, kernel, copy out of each stream; 0 for 1
	Kernel  time.Duration // of a kernel; 0 for half of a copy
	Bytes   int           // of a copy; 0 for DefaultBytes
}

// Limits and defaults of an experiment.
const (
	MaxStreams   = 16
	MaxChunks    = 64
	MaxEngines   = 3
	DefaultBytes = 8 << 20
	maxBytes     = 1 << 30
	maxKernel    = time.Second
)

// Check returns an error for options that cannot be run.
func (o *Options) Check() error {
	switch {
	case o.Order != Depth && o.Order != Breadth:
		return refusal.Invalid("the order is %q, must be depth or breadth", o.Order)
	case o.Streams < 1 || o.Streams > MaxStreams:
		return refusal.Invalid("%d streams, must be 1 to %d", o.Streams, MaxStreams)
	case o.Engines < 0 || o.Engines > MaxEngines:
		return refusal.Invalid("%d copy engines, must be 1 to %d", o.Engines, MaxEngines)
	case o.Chunks < 0 || o.Chunks > MaxChunks:
		return refusal.Invalid("%d chunks, must be 1 to %d", o.Chunks, MaxChunks)
	case o.Kernel < 0 || o.Kernel > maxKernel:
		return refusal.Invalid("a kernel of %v, must be at most %v", o.Kernel, maxKernel)
	case o.Bytes < 0 || o.Bytes > maxBytes:
		return refusal.Invalid("copies of %d bytes, must be at most %d", o.Bytes, maxBytes)
	case o.Streams*o.Bytes > maxBytes:
		return refusal.Invalid("copies of %d bytes in each of %d streams, must be at most %d together", o.Bytes, o.Streams, maxBytes)
	}
	return nil
}

// Run makes the experiment on g and reports it. On a software GPU it takes a fresh machine
// with the profile of g.
func Run(ctx context.Context, g *ferry.GPU, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("overlap: %w", err)
	}
	o.Chunks, o.Bytes = max(1, o.Chunks), max(o.Bytes, 0)
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	p, err := machine(g, o.Engines)
	if err != nil {
		return nil, fmt.Errorf("overlap: %w", err)
	}
	if o.Kernel == 0 {
		alone, err := record(ctx, g, p, Options{Order: Depth, Streams: 1, Chunks: 1, Kernel: time.Microsecond, Bytes: o.Bytes})
		if err != nil {
			return nil, fmt.Errorf("overlap: %w", err)
		}
		o.Kernel = time.Duration(alone[0].End-alone[0].Start) / 2
	}
	ops, err := record(ctx, g, p, o)
	if err != nil {
		return nil, fmt.Errorf("overlap: %w", err)
	}
	other := o
	other.Order = map[string]string{Depth: Breadth, Breadth: Depth}[o.Order]
	otherOps, err := record(ctx, g, p, other)
	if err != nil {
		return nil, fmt.Errorf("overlap: %w", err)
	}
	facts, err := factsOf(g, p)
	if err != nil {
		return nil, fmt.Errorf("overlap: %w", err)
	}
	return newReport(g.String(), g.Emulated(), &o, facts, ops, otherOps), nil
}

// machine returns the profile of a software GPU, with a number of copy engines unless it
// is 0. It returns nil for hardware, where the number cannot be chosen.
func machine(g *ferry.GPU, engines int) (*profile.Profile, error) {
	s := softgpu.Of(g.Driver())
	if s == nil {
		if engines != 0 {
			return nil, refusal.Invalid("%v is hardware, whose copy engines cannot be chosen: leave out --engines, or use --device soft", g)
		}
		return nil, nil
	}
	p := *s.Machine()
	if engines != 0 {
		p.Attributes = maps.Clone(p.Attributes)
		p.Attributes[enginesAttribute] = profile.Number{Value: float64(engines), Source: "--engines"}
	}
	return &p, nil
}

const enginesAttribute = "ASYNC_ENGINE_COUNT"

// facts are the properties of a device that bound the overlap.
type facts struct {
	engines    int  // copy engines
	concurrent bool // kernels can run at once
}

func factsOf(g *ferry.GPU, p *profile.Profile) (f facts, err error) {
	n, err := g.Driver().DeviceGetAttribute(cu.DeviceAttributeAsyncEngineCount, g.CUDevice())
	if err != nil {
		return f, err
	}
	many, err := g.Driver().DeviceGetAttribute(cu.DeviceAttributeConcurrentKernels, g.CUDevice())
	f = facts{int(n), many != 0}
	if p != nil {
		f.engines = p.Attributes[enginesAttribute].Int()
	}
	return f, err
}

// record runs the experiment once, with a recording, and returns its operations in the
// order of issue.
func record(ctx context.Context, g *ferry.GPU, p *profile.Profile, o Options) (ops []trace.Operation, err error) {
	dir, err := os.MkdirTemp("", "ferry-overlap-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "recording.json")
	r, err := trace.Start(&trace.Options{Path: path})
	if err != nil {
		return nil, err
	}
	inner, device := innermost(g.Driver()), g.CUDevice()
	if p != nil {
		if inner, err = softgpu.Open(softgpu.Options{Profile: p, Schedule: softgpu.Eager}); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		device = 0
	}
	skip, err := issue(ctx, r.Wrap(inner), device, o)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	rec, err := trace.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return sorted(rec, skip, o)
}

// innermost returns the driver inside all wrappers.
func innermost(d cu.Driver) cu.Driver {
	for {
		w, ok := d.(interface{ Unwrap() cu.Driver })
		if !ok || w.Unwrap() == nil {
			return d
		}
		d = w.Unwrap()
	}
}
