package grid

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/info"
)

// Schema is the version of the document that [Result.JSON] makes.
const Schema = "ferry.grid/1"

// Result is the times of the cases on a device.
type Result struct {
	Schema    string      `json:"schema"`
	Device    info.Device `json:"device"`
	Predicted bool        `json:"predicted"` // the times are those of a virtual clock
	Points    []Point     `json:"points"`    // in the order of [Cases]; what the device lacks is left out
}

// Point is the times of one case in nanoseconds.
type Point struct {
	Case
	Median  float64 `json:"median_ns"`
	P5      float64 `json:"p5_ns"`
	P95     float64 `json:"p95_ns"`
	Samples int     `json:"samples"`
}

// Options says what [Measure] measures. The zero value is all cases.
type Options struct {
	// Only, if not nil, chooses among the cases.
	Only func(Case) bool
	// Budget is the time for each case, overrun where three samples take longer.
	// Zero means 80 ms.
	Budget time.Duration
	// Progress, if not nil, is called before each case.
	Progress func(done, total int, next Case)
}

// Measure takes the times of the cases on g. It is safe for concurrent use, but
// measures what else runs on the device, too. With an error it returns what it
// has.
func Measure(ctx context.Context, g *ferry.GPU, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	r, err := newRig(g)
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w", g, err)
	}
	out := &Result{Schema: Schema, Device: info.Of(g), Predicted: g.Emulated()}
	cases := slices.DeleteFunc(Cases(), func(c Case) bool { return o.Only != nil && !o.Only(c) || !r.has(c) })
	if !g.Emulated() && len(cases) > 0 {
		if err := r.warmUp(); err != nil {
			return out, fmt.Errorf("measure %s: warm up: %w", g, err)
		}
	}
	for i, c := range cases {
		if o.Progress != nil {
			o.Progress(i, len(cases), c)
		}
		p, err := r.measure(ctx, c, o.Budget)
		if err != nil {
			return out, fmt.Errorf("measure %s: %v: %w", g, c, err)
		}
		out.Points = append(out.Points, p)
	}
	return out, nil
}

// has says whether the device can do a case.
func (r *rig) has(c Case) bool {
	k := kindOf(c)
	switch {
	case k.make == nil:
		return false
	case strings.Contains(c.Kind, "regist"):
		v, err := r.g.Attribute(cu.DeviceAttributeHostRegisterSupported)
		return err == nil && v != 0
	case slices.ContainsFunc(managedKinds, func(m kind) bool { return m.name == c.Kind }):
		v, err := r.g.Attribute(cu.DeviceAttributeConcurrentManagedAccess)
		return err == nil && v != 0
	case c.Kind == "copy host to host":
		v, err := r.g.Attribute(cu.DeviceAttributeUnifiedAddressing)
		return err == nil && v != 0
	case c.Kind == "pool memory: allocate and free":
		v, err := r.g.Attribute(cu.DeviceAttributeMemoryPoolsSupported)
		return err == nil && v != 0
	}
	return true
}

func kindOf(c Case) kind {
	for _, k := range kinds {
		if k.name == c.Kind {
			return k
		}
	}
	return kind{}
}

// warmTime is how long hardware is kept busy before the first sample, until its
// clocks are steady.
const warmTime = 300 * time.Millisecond

func (r *rig) warmUp() error {
	t, err := kernelComputes(r, 1024)
	for began := time.Now(); err == nil && time.Since(began) < warmTime; {
		err = t.step()
	}
	if failed := r.release(); err == nil {
		err = failed
	}
	return err
}

// measure runs one case.
func (r *rig) measure(ctx context.Context, c Case, budget time.Duration) (Point, error) {
	t, err := kindOf(c).make(r, c.Size)
	if err == nil {
		err = r.sync()
	}
	var samples []float64
	if err == nil {
		samples, err = r.sample(ctx, t, budget)
	}
	if failed := r.release(); err == nil {
		err = failed
	}
	if err != nil {
		return Point{}, err
	}
	slices.Sort(samples)
	at := func(percent int) float64 { return samples[max((percent*len(samples)+99)/100, 1)-1] }
	return Point{Case: c, Median: at(50), P5: at(5), P95: at(95), Samples: len(samples)}, nil
}

// sample takes the times of a trial. A virtual clock has no noise: after a first
// round, which brings what only the first use costs, one sample says it all.
func (r *rig) sample(ctx context.Context, t trial, budget time.Duration) ([]float64, error) {
	if budget == 0 {
		budget = 80 * time.Millisecond
	}
	warm, least, most := 3, 3, 25
	if r.emulated != nil {
		warm, least, most = 1, 1, 1
	}
	var samples []float64
	began := time.Now()
	for i := 0; len(samples) < most && (len(samples) < least || time.Since(began) < budget); i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		took, err := r.once(t)
		if err != nil {
			return nil, err
		}
		if i >= warm {
			samples = append(samples, float64(took))
		}
	}
	return samples, nil
}

// once is one sample.
func (r *rig) once(t trial) (time.Duration, error) {
	if t.prepare != nil {
		if err := t.prepare(); err != nil {
			return 0, fmt.Errorf("prepare: %w", err)
		}
	}
	began := r.g.Now()
	if err := t.step(); err != nil {
		return 0, err
	}
	took := r.g.Now() - began
	if t.after != nil {
		return took, t.after()
	}
	return took, nil
}

// JSON is the result as one document, a point a line.
func (r *Result) JSON() ([]byte, error) {
	head := *r
	head.Points = []Point{}
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-2] // before "]}"
	for i, p := range r.Points {
		line, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, "\n "...), line...)
	}
	return append(text, "\n]}\n"...), nil
}

// Parse reads what JSON wrote.
func Parse(text []byte) (*Result, error) {
	r := new(Result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read grid: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("read grid: schema %q: this Ferry reads %q", r.Schema, Schema)
	}
	return r, nil
}
