package grid

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/internal/info"
)

// Schema is the version of the document that [Result.JSON] returns.
const Schema = "ferry.grid/1"

// Result is the times of the cases on a device.
type Result struct {
	Schema    string      `json:"schema"`
	Device    info.Device `json:"device"`
	Predicted bool        `json:"predicted"` // the times are from a virtual clock
	Points    []Point     `json:"points"`    // in the order of [Cases], without those that the device lacks
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
	return r, nil
}

// Text returns the result as a table with a row per case.
func (r *Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Device.Line())
	last := ""
	for _, p := range r.Points {
		k := kindOf(p.Case)
		if p.Kind != last {
			fmt.Fprintf(&b, "\n%s\n", p.Kind)
			last = p.Kind
		}
		rate := ""
		if k.unit == "bytes" && p.Median > 0 {
			rate = fmt.Sprintf("%9.3f GB/s", float64(p.Size)/p.Median)
		}
		fmt.Fprintf(&b, "%12s %-18s %12.2f us%s\n", size(p.Size, k.unit), k.unit, p.Median/1e3, rate)
	}
	return b.String()
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
