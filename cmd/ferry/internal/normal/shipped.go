package normal

import (
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

//go:embed *.json
var shipped embed.FS

// Names returns the names of the references that are part of the program.
func Names() (names []string) {
	entries, _ := shipped.ReadDir(".")
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Named returns the reference with a name.
func Named(name string) (*Reference, error) {
	text, err := shipped.ReadFile(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no reference %q: the references are %s", name, strings.Join(Names(), ", "))
	}
	ref := new(Reference)
	if err := json.Unmarshal(text, ref); err != nil {
		return nil, fmt.Errorf("read the reference %s: %w", name, err)
	}
	ref.index()
	return ref, nil
}

// Nearest returns the shipped reference for a result: that of the same product, else the one
// with the nearest times. It returns nil if no reference has a time of the result.
func Nearest(r *grid.Result) *Reference {
	var best *Reference
	least := math.Inf(1)
	for _, name := range Names() {
		ref, err := Named(name)
		if err != nil {
			continue
		}
		d, ok := distance(r, ref)
		if ok && ref.Device == r.Device.Name {
			d = -1
		}
		if ok && d < least {
			best, least = ref, d
		}
	}
	return best
}

// distance returns the median of |ln(time/reference)|, and whether they have a case in
// common.
func distance(r *grid.Result, ref *Reference) (float64, bool) {
	var off []float64
	for _, p := range r.Points {
		if row := ref.Row(p.Case); row != nil {
			off = append(off, math.Abs(math.Log(max(p.Median, 1)/row.Median)))
		}
	}
	if len(off) == 0 {
		return 0, false
	}
	slices.Sort(off)
	return off[len(off)/2], true
}
