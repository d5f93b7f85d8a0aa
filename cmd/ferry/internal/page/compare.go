package page

import (
	"encoding/json"
	"fmt"

	"github.com/ferrygpu/ferry/internal/measure/bench"
	"github.com/ferrygpu/ferry/internal/measure/info"
)

// comparison is a document of ferry compare.
type comparison struct {
	Device info.Device      `json:"device"`
	Kernel *bench.OwnKernel `json:"kernel"` // nil for the vector addition
	Rows   []comparisonRow
	Reuse  []reuseRows
}

// comparisonRow is a size of a comparison.
type comparisonRow struct {
	bytes    float64             // of one vector
	verified bool                // whether all results were right
	ns       map[string]*float64 // by the key of the kind; nil if the device lacks it
}

// UnmarshalJSON reads the times of whatever kinds the row has.
func (r *comparisonRow) UnmarshalJSON(text []byte) error {
	var known struct {
		Bytes    float64 `json:"bytes"`
		Verified bool    `json:"verified"`
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &known); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	r.bytes, r.verified, r.ns = known.Bytes, known.Verified, map[string]*float64{}
	for _, k := range measuredKinds() {
		var ns *float64
		if value, ok := all[k.Key()+"_ns"]; ok {
			if err := json.Unmarshal(value, &ns); err != nil {
				return err
			}
		}
		r.ns[k.Key()] = ns
	}
	return nil
}

// comparePage returns the page of ferry compare.
func comparePage(c *comparison) *Page {
	p := &Page{Title: "ferry compare", Device: deviceLine(c.Device), Marked: marked(c.Device), Name: "ferry-compare.json"}
	wrong, rows := 0, 0
	for _, all := range c.byReuse() {
		for _, r := range all.Rows {
			if rows++; !r.verified {
				wrong++
			}
		}
	}
	if wrong > 0 {
		p.note(fmt.Sprintf("The results of %d of %d rows were wrong. Their times mean nothing.", wrong, rows))
	}
	p.add(c.times())
	p.add(c.rates())
	p.add(c.reuse())
	if t := c.bestKinds(); t != nil {
		p.Tables = append(p.Tables, t)
	}
	return p
}

// measuredKinds are the kinds that a row can have, but for the kernel of zero-copy by itself.
func measuredKinds() []bench.Kind { return append(bench.Kinds(), bench.PageableInKernels) }

// subject returns what was measured, for titles.
func (c *comparison) subject() string {
	if c.Kernel != nil {
		return "The kernel " + c.Kernel.Name
	}
	return "Vector addition"
}

// series returns a line for each kind that was measured, and which of them is the kernel
// alone: the last one, or none. Each value is f of a time.
func (c *comparison) series(f func(bytes, ns float64) float64) (all []Series, alone int) {
	alone = -1
	var kernel *Series
	for _, k := range measuredKinds() {
		s := Series{Name: k.String()}
		for _, r := range c.Rows {
			if ns := r.ns[k.Key()]; ns != nil && *ns > 0 && r.bytes > 0 {
				s.Points = append(s.Points, Point{r.bytes, f(r.bytes, *ns)})
			}
		}
		if len(s.Points) == 0 {
			continue
		}
		if k == bench.KernelAlone {
			s.Dashed, kernel = true, &s
			continue
		}
		all = append(all, s)
	}
	if kernel != nil {
		alone, all = len(all), append(all, *kernel)
	}
	return all, alone
}

// rivals are the pairs of kinds whose crossovers are always worth a label.
var rivals = [][2]string{
	{bench.Pinned.String(), bench.Pageable.String()}, {bench.ZeroCopy.String(), bench.Pinned.String()},
	{bench.ManagedPrefetched.String(), bench.Managed.String()},
}

// vectorSize is the axis of the charts of a comparison.
var vectorSize = Axis{"size of a vector", Bytes}

func (c *comparison) times() *Chart {
	series, alone := c.series(func(_, ns float64) float64 { return ns })
	if len(series) == 0 || alone == 0 {
		return nil
	}
	chart := &Chart{ID: "time", Title: c.subject() + " by kind of memory: time by size", X: vectorSize, Y: Axis{"time", Time}, Series: series}
	chart.Sentence = join(chart.fastest(), chart.crossovers(rivals))
	if c.Kernel == nil {
		chart.Sentence = join(chart.Sentence, "Each input is read once: more reads favour copies.")
	}
	if alone > 0 {
		chart.Sentence += " The dashed line is the kernel alone, on vectors that are on the device already."
	}
	return chart
}

// moved is how many vectors a step moves over the link: two in, and one back.
const moved = 3

func (c *comparison) rates() *Chart {
	series, alone := c.series(func(bytes, ns float64) float64 { return moved * bytes / ns })
	if alone >= 0 {
		series = append(series[:alone], series[alone+1:]...) // it moves nothing over the link
	}
	if len(series) == 0 {
		return nil
	}
	chart := &Chart{ID: "rate", Title: c.subject() + " by kind of memory: bandwidth over the link", X: vectorSize, Y: Axis{"bandwidth (GB/s)", Rate}, Series: series}
	best, top := chart.highest()
	chart.Sentence = fmt.Sprintf("The most is %s, by %s at %s. The three vectors count.", Rate.text(top.Y), best.Name, sizeText(top.X))
	if rate, name := duplexRate(c.Device); rate > 0 {
		chart.Sentence += fmt.Sprintf(" That is %.0f %% of the ceiling of %s, at which two vectors go in while one goes out (%s).", 100*top.Y/rate, Rate.text(rate), name)
		chart.bound("ceiling: "+name, rate)
	} else {
		chart.Sentence += " The dashed line is that rate, because the rate of the link is not known."
		chart.bound("fastest here", top.Y)
	}
	return chart
}

// duplexRate returns the rate at which a step could move its vectors, if the link were never
// idle. The two vectors that go in bound it.
func duplexRate(d info.Device) (rate float64, name string) {
	rate, name = linkRate(nil, d)
	return rate * moved / 2, name
}
