package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/bits"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bench"
	"github.com/ferrygpu/ferry/internal/bench/grid"
)

// step is the prefix of the kinds of "ferry compare". A step of that command is a case
// whose kind is "step " and the kind of memory, and whose size is the number of floats.
const step = "step "

// readSteps adds the times of a document of "ferry compare --json" to all.
func readSteps(text []byte, all map[grid.Case][]float64) error {
	var doc struct {
		Predicted bool                         `json:"predicted"`
		Rows      []map[string]json.RawMessage `json:"rows"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	if doc.Predicted {
		return errors.New("it has predictions, not measurements")
	}
	for _, row := range doc.Rows {
		var n int
		if err := json.Unmarshal(row["elements"], &n); err != nil {
			return err
		}
		for _, k := range bench.Kinds() {
			var ns float64
			if err := json.Unmarshal(row[k.Key()+"_ns"], &ns); err != nil {
				return err
			}
			if c := (grid.Case{Kind: step + k.Key(), Size: n}); !c.Test() {
				all[c] = append(all[c], ns)
			}
		}
	}
	return nil
}

// predictSteps adds the predictions of the steps that want accepts to out.
func (f *fitter) predictSteps(ctx context.Context, g *ferry.GPU, want func(grid.Case) bool, out map[grid.Case]float64) error {
	least, most := 64, 0
	for c := range f.measured {
		if strings.HasPrefix(c.Kind, step) && want(c) {
			e := bits.Len(uint(c.Size)) - 1
			least, most = min(least, e), max(most, e)
		}
	}
	if most == 0 {
		return nil
	}
	r, err := bench.Compare(ctx, g, &bench.Options{Min: least, Max: most})
	if err != nil {
		return err
	}
	for _, row := range r.Rows {
		for _, k := range bench.Kinds() {
			c := grid.Case{Kind: step + k.Key(), Size: row.Elements}
			if _, known := f.measured[c]; known && want(c) && row.Points[k] != nil {
				out[c] = float64(row.Points[k].Median)
			}
		}
	}
	return nil
}
