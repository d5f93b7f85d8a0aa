package grid

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/info"
)

// Schema is the version of the document that [Result.JSON] returns.
const Schema = "ferry.grid/1"

// Result is the times of the cases on a device.
type Result struct {
	Schema    string      `json:"schema"`
	Device    info.Device `json:"device"`
	Predicted bool        `json:"predicted"` // the times are from a virtual clock
	// Mode is "full" or "quick", or "" in files of older versions.
	Mode string `json:"mode,omitempty"`
	// Machine has the figures from which ceilings are calculated. It is nil in files of older
	// versions.
	Machine *Machine `json:"machine,omitempty"`
	// Marked has the families whose predictions are not to be relied on, with the reason.
	Marked  map[string]string `json:"marked,omitempty"`
	Skipped []Skip            `json:"skipped,omitempty"`  // what the device lacks, or what failed
	LeftOut []Case            `json:"left_out,omitempty"` // what there was no time for
	Points  []Point           `json:"points"`             // in the order of [Cases], without those that the device lacks
}

// Skip is a kind that was not measured, and why.
type Skip struct {
	Kind   string `json:"kind"`
	Sizes  []int  `json:"sizes"`
	Why    string `json:"why"`
	Failed bool   `json:"failed,omitempty"` // it failed although the device has what it needs
}

// Point is the times of one case in nanoseconds.
type Point struct {
	Case
	Median  float64 `json:"median_ns"`
	P5      float64 `json:"p5_ns"`
	P95     float64 `json:"p95_ns"`
	Samples int     `json:"samples"`
}

// JSON returns the result as one document, with a line per point.
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

// Parse parses a document that [Result.JSON] returned.
func Parse(text []byte) (*Result, error) {
	r := new(Result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read grid: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("read grid: schema %q, want %q, which this version of Ferry reads", r.Schema, Schema)
	}
	r.Rename()
	return r, nil
}

// Rename gives the cases of a document of an older version their names of today. Whoever
// decodes a document by other means than [Parse] calls it.
func (r *Result) Rename() {
	names := map[string]string{}
	for now, older := range olderNames {
		names[older] = now
	}
	rename := func(kind *string) {
		if now, ok := names[*kind]; ok {
			*kind = now
		}
	}
	for i := range r.Points {
		rename(&r.Points[i].Kind)
	}
	for i := range r.Skipped {
		rename(&r.Skipped[i].Kind)
	}
	for i := range r.LeftOut {
		rename(&r.LeftOut[i].Kind)
	}
}

// Page returns the result with a table for each kind, and a row in it for each case.
func (r *Result) Page() *layout.Page {
	p := new(layout.Page)
	p.Line(r.Device.Line())
	var t *layout.Table
	last := ""
	for _, point := range r.Points {
		k := kindOf(point.Case)
		if point.Kind != last {
			p.Line("\n" + point.Kind)
			if why := point.Marked(); r.Predicted && why != "" {
				p.Hang(4, "  do not rely on this prediction: "+why)
			}
			t = &layout.Table{Columns: []layout.Column{{Width: 12, Right: true}, {Width: 16}, {Width: 15, Right: true}, {Width: 13, Right: true}}, Narrow: true}
			p.Table(t)
			last = point.Kind
		}
		rate := ""
		if k.unit == "bytes" && point.Median > 0 {
			rate = fmt.Sprintf("%.3f GB/s", float64(point.Size)/point.Median)
		}
		t.Row(size(point.Size, k.unit), k.unit, fmt.Sprintf("%.2f us", point.Median/1e3), rate)
	}
	r.addMissing(p)
	return p
}

// addMissing says what was not measured.
func (r *Result) addMissing(p *layout.Page) {
	if len(r.Skipped) > 0 {
		p.Line("\nskipped")
	}
	for _, s := range r.Skipped {
		p.Hang(4, fmt.Sprintf("  %s: %s", s.Kind, s.Why))
	}
	if n := len(r.LeftOut); n > 0 {
		p.Linef("\nleft out, because the time was over: %d cases of", n)
		last := ""
		for _, c := range r.LeftOut {
			if c.Kind != last {
				p.Hang(4, "  "+c.Kind)
			}
			last = c.Kind
		}
	}
}

// CSV returns the result as comma-separated values with a row per case. bytes_per_s is empty
// unless the size is in bytes.
func (r *Result) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write([]string{"kind", "size", "unit", "median_ns", "p5_ns", "p95_ns", "samples", "bytes_per_s"})
	for _, p := range r.Points {
		rate := ""
		if p.Unit() == "bytes" && p.Median > 0 {
			rate = strconv.FormatFloat(float64(p.Size)/p.Median*1e9, 'f', 0, 64)
		}
		number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
		w.Write([]string{p.Kind, strconv.Itoa(p.Size), p.Unit(), number(p.Median), number(p.P5), number(p.P95), strconv.Itoa(p.Samples), rate})
	}
	w.Flush()
	return b.Bytes()
}

// size formats a number, in Ki and Mi if the unit is bytes and there are many.
func size(n int, unit string) string {
	switch {
	case !strings.HasPrefix(unit, "bytes") || n < kib:
		return fmt.Sprint(n)
	case n >= mib:
		return fmt.Sprintf("%d Mi", n/mib)
	}
	return fmt.Sprintf("%d Ki", n/kib)
}
