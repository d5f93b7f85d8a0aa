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
	// Progress, if not nil, is called before each turn of a case.
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
	samples, err := r.passes(ctx, cases, o)
	for _, c := range cases {
		if len(samples[c]) > 0 {
			out.Points = append(out.Points, point(c, samples[c]))
		}
	}
	if err != nil {
		return out, fmt.Errorf("measure %s: %w", g, err)
	}
	return out, nil
}

// Hardware is gone through several times, with some of the samples each: a host
// has slow and fast seconds, and a case that is measured in one of them shows that
// second. What is dear to set up has all of its samples in one pass.
const (
	passes = 4
	dear   = 32 * mib
)

// passes takes the samples of all cases; with an error, as far as it got.
func (r *rig) passes(ctx context.Context, cases []Case, o *Options) (map[Case][]float64, error) {
	var turns []turn
	for pass := range passes {
		for _, c := range cases {
			switch once := r.emulated != nil || c.Size >= dear; {
			case !once:
				turns = append(turns, turn{c, passes})
			case pass == 0:
				turns = append(turns, turn{c, 1})
			}
		}
	}
	samples := map[Case][]float64{}
	for i, t := range turns {
		if o.Progress != nil {
			o.Progress(i, len(turns), t.Case)
		}
		some, err := r.measure(ctx, t, o.Budget)
		if err != nil {
			return samples, fmt.Errorf("%v: %w", t.Case, err)
		}
		samples[t.Case] = append(samples[t.Case], some...)
	}
	return samples, nil
}

// turn is a case that has its samples in so many turns.
type turn struct {
	Case
	of int
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

// measure takes the samples of one turn.
func (r *rig) measure(ctx context.Context, t turn, budget time.Duration) ([]float64, error) {
	x, err := kindOf(t.Case).make(r, t.Size)
	if err == nil {
		err = r.sync()
	}
	var samples []float64
	if err == nil {
		samples, err = r.sample(ctx, x, t.of, budget)
	}
	if failed := r.release(); err == nil {
		err = failed
	}
	return samples, err
}

func point(c Case, samples []float64) Point {
	slices.Sort(samples)
	at := func(percent int) float64 { return samples[max((percent*len(samples)+99)/100, 1)-1] }
	return Point{Case: c, Median: at(50), P5: at(5), P95: at(95), Samples: len(samples)}
}

// sample takes the times of a trial in one of so many turns. A virtual clock has no
// noise: after a first round, which brings what only the first use costs, one
// sample says it all.
func (r *rig) sample(ctx context.Context, t trial, turns int, budget time.Duration) ([]float64, error) {
	if budget == 0 {
		budget = 80 * time.Millisecond
	}
	budget /= time.Duration(turns)
	warm, least, most := 2, (3+turns-1)/turns, (25+turns-1)/turns
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
