package bench

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"time"

	"github.com/ferrygpu/ferry/internal/info"
)

// Schema is the version of the document that [Comparison.JSON] makes.
const Schema = "ferry.compare/1"

// Comparison is what [Compare] found out.
type Comparison struct {
	Device info.Device
	Rows   []Row
}

// Row is the times of all kinds at one size.
type Row struct {
	Elements int               // of each vector, float32
	Points   [kindCount]*Point // by Kind; nil where the device lacks the kind
	Verified bool              // whether every result of every sample was right
}

// Best is the fastest kind that gets the data to the CPU; [KernelAlone] does
// not. It is false if there is none.
func (r *Row) Best() (Kind, bool) {
	best, found := Kind(0), false
	for k := range KernelAlone {
		p := r.Points[k]
		if p != nil && (!found || p.Median < r.Points[best].Median) {
			best, found = k, true
		}
	}
	return best, found
}

// exponent is the e of the row's 2^e elements.
func (r *Row) exponent() int { return bits.Len(uint(r.Elements)) - 1 }

// size names the row's size in a sentence.
func (r *Row) size() string { return fmt.Sprintf("2^%d", r.exponent()) }

type comparisonJSON struct {
	Schema    string      `json:"schema"`
	Device    info.Device `json:"device"`
	Predicted bool        `json:"predicted"`
	Rows      []rowJSON   `json:"rows"`
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
	Verified          bool                     `json:"verified"`
	Samples           map[string]int           `json:"samples"`
	MAD               map[string]time.Duration `json:"mad_ns"`
	P5                map[string]time.Duration `json:"p5_ns"`
	P95               map[string]time.Duration `json:"p95_ns"`
}

// JSON is the comparison as one document. Times are whole nanoseconds.
func (c *Comparison) JSON() ([]byte, error) {
	doc := comparisonJSON{Schema: Schema, Device: c.Device, Predicted: c.Device.Emulated, Rows: []rowJSON{}}
	for i := range c.Rows {
		doc.Rows = append(doc.Rows, c.Rows[i].json())
	}
	text, err := json.Marshal(doc)
	return append(text, '\n'), err
}

func (r *Row) json() rowJSON {
	out := rowJSON{
		Elements: r.Elements, Bytes: 4 * r.Elements, Verified: r.Verified,
		Samples: map[string]int{}, MAD: map[string]time.Duration{},
		P5: map[string]time.Duration{}, P95: map[string]time.Duration{},
	}
	for k, field := range [kindCount]**time.Duration{
		Pageable: &out.Pageable, Pinned: &out.Pinned, WriteCombined: &out.WriteCombined,
		ZeroCopy: &out.ZeroCopy, ZeroCopyIn: &out.ZeroCopyIn,
		Managed: &out.Managed, ManagedPrefetched: &out.ManagedPrefetched, KernelAlone: &out.Kernel,
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
