package bench

import (
	"encoding/json"
	"math"
	"time"

	"github.com/ferrygpu/ferry/internal/measure/info"
)

// Schema is the version of the document that [Comparison.JSON] returns.
const Schema = "ferry.compare/1"

// comparisonJSON is the document. Fields with omitempty are there only if they were asked
// for, or if the device can.
type comparisonJSON struct {
	Schema    string      `json:"schema"`
	Device    info.Device `json:"device"`
	Predicted bool        `json:"predicted"`
	Kernel    *OwnKernel  `json:"kernel,omitempty"`
	Link      *Link       `json:"link,omitempty"`
	Rows      []rowJSON   `json:"rows"`
	Reuse     []reuseJSON `json:"reuse,omitempty"`
}

// reuseJSON is the rows with a number of launches on the same inputs.
type reuseJSON struct {
	Times int       `json:"times"`
	Rows  []rowJSON `json:"rows"`
}

type rowJSON struct {
	Elements          int                      `json:"elements"`
	Bytes             int                      `json:"bytes"` // of one vector
	Pageable          *time.Duration           `json:"pageable_ns"`
	Pinned            *time.Duration           `json:"pinned_ns"`
	WriteCombined     *time.Duration           `json:"write_combined_ns"`
	ZeroCopy          *time.Duration           `json:"zero_copy_ns"`
	ZeroCopyIn        *time.Duration           `json:"zero_copy_in_ns"`
	Managed           *time.Duration           `json:"managed_ns"`
	ManagedPrefetched *time.Duration           `json:"managed_prefetched_ns"`
	Kernel            *time.Duration           `json:"kernel_ns"`
	PageableInKernels *time.Duration           `json:"pageable_in_kernels_ns,omitempty"`
	ZeroCopyKernel    *time.Duration           `json:"zero_copy_kernel_ns,omitempty"`
	Verified          bool                     `json:"verified"`
	Samples           map[string]int           `json:"samples"`
	MAD               map[string]time.Duration `json:"mad_ns"`
	P5                map[string]time.Duration `json:"p5_ns"`
	P95               map[string]time.Duration `json:"p95_ns"`
	Rate              map[string]float64       `json:"gb_per_s,omitempty"`
	LinkPercent       map[string]float64       `json:"link_percent,omitempty"`
}

// JSON returns the comparison as one document. Times are whole nanoseconds.
func (c *Comparison) JSON() ([]byte, error) {
	doc := comparisonJSON{Schema: Schema, Device: c.Device, Predicted: c.Device.Emulated, Kernel: c.Kernel, Link: c.Link}
	doc.Rows = rowsJSON(c.Rows, c.Link)
	for _, r := range c.Reuse {
		doc.Reuse = append(doc.Reuse, reuseJSON{r.Times, rowsJSON(r.Rows, nil)})
	}
	text, err := json.Marshal(doc)
	return append(text, '\n'), err
}

// rowsJSON returns rows, with their rates if the link is known.
func rowsJSON(rows []Row, link *Link) []rowJSON {
	out := []rowJSON{}
	for i := range rows {
		out = append(out, rows[i].json())
		if link != nil {
			out[i].addRates(&rows[i], link)
		}
	}
	return out
}

func (r *Row) json() rowJSON {
	out := rowJSON{
		Elements: r.Elements, Bytes: 4 * r.Elements, Verified: r.Verified,
		Samples: map[string]int{}, MAD: map[string]time.Duration{},
		P5: map[string]time.Duration{}, P95: map[string]time.Duration{},
	}
	for k, field := range [pointCount]**time.Duration{
		Pageable: &out.Pageable, Pinned: &out.Pinned, WriteCombined: &out.WriteCombined,
		ZeroCopy: &out.ZeroCopy, ZeroCopyIn: &out.ZeroCopyIn,
		Managed: &out.Managed, ManagedPrefetched: &out.ManagedPrefetched, KernelAlone: &out.Kernel,
		PageableInKernels: &out.PageableInKernels, ZeroCopyKernel: &out.ZeroCopyKernel,
	} {
		p := r.Points[k]
		if p == nil {
			continue
		}
		*field = &p.Median
		key := Kind(k).Key()
		out.Samples[key], out.MAD[key], out.P5[key], out.P95[key] = p.Samples, p.MAD, p.P5, p.P95
	}
	return out
}

// addRates adds the rates of all kinds whose data crosses the link.
func (out *rowJSON) addRates(r *Row, link *Link) {
	out.Rate, out.LinkPercent = map[string]float64{}, map[string]float64{}
	for k := range pointCount {
		if p := r.Points[k]; p != nil && k != KernelAlone {
			out.Rate[k.Key()] = math.Round(1e3*r.rate(p)) / 1e3
			out.LinkPercent[k.Key()] = math.Round(10*r.linkPercent(p, link)) / 10
		}
	}
}
