package fit

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	"github.com/ferrygpu/ferry/internal/measure/bench"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/internal/printable"
)

// step is the prefix of the kinds of "ferry compare". A step of that command is a case
// whose kind is "step " and the kind of memory, and whose size is the number of floats.
const step = "step "

// readSteps reads a document of "ferry compare --json". Kinds that the device lacks have no
// cases.
func readSteps(name string, text []byte) (*grid.Result, error) {
	var doc struct {
		Device    info.Device                  `json:"device"`
		Predicted bool                         `json:"predicted"`
		Rows      []map[string]json.RawMessage `json:"rows"`
	}
	if err := document.Decode(name, text, bench.Schema, &doc); err != nil {
		return nil, err
	}
	printable.Strings(&doc.Device)
	out := &grid.Result{Device: doc.Device, Predicted: doc.Predicted}
	for _, row := range doc.Rows {
		var n int
		if err := json.Unmarshal(row["elements"], &n); err != nil {
			return nil, fmt.Errorf("%s: a row without a number of elements: %w", name, err)
		}
		for _, k := range bench.Kinds() {
			var ns float64
			if text := row[k.Key()+"_ns"]; text != nil && json.Unmarshal(text, &ns) == nil && ns > 0 {
				out.Points = append(out.Points, grid.Point{Case: grid.Case{Kind: step + k.Key(), Size: n}, Median: ns})
			}
		}
	}
	return out, nil
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
