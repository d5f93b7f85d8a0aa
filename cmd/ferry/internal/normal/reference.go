package normal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// Schema is the version of the document of a reference.
const Schema = "ferry.reference/1"

// Reference is the times of machines of one type.
type Reference struct {
	Schema   string `json:"schema"`
	Name     string `json:"name"`   // such as "h200"
	Device   string `json:"device"` // the product
	Machines int    `json:"machines"`
	Runs     int    `json:"runs"`
	Kinds    []Kind `json:"kinds"`

	rows map[grid.Case]*Row
}

// Kind is the times of one kind of operation.
type Kind struct {
	Kind string `json:"kind"`
	Rows []Row  `json:"rows"`
}

// Row is the times of one size. It is written as a list of five numbers.
type Row struct {
	Size     int
	Median   float64 // ns: the median over the machines
	Low      float64 // ns: the shortest median of a run
	High     float64 // ns: the longest median of a run
	Machines int     // that measured it

	spread float64 // of the rows around it, as a factor
}

// MarshalJSON returns the row as a list.
func (r Row) MarshalJSON() ([]byte, error) {
	return json.Marshal([5]float64{float64(r.Size), r.Median, r.Low, r.High, float64(r.Machines)})
}

// UnmarshalJSON reads the row from a list.
func (r *Row) UnmarshalJSON(text []byte) error {
	var v [5]float64
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	*r = Row{Size: int(v[0]), Median: v[1], Low: v[2], High: v[3], Machines: int(v[4])}
	return nil
}

// New makes a reference of the runs on each machine. A row's median is that of the machines,
// and a machine's that of its runs. If there is one run in all, the range of a row is that
// of its samples.
func New(name string, machines ...[]*grid.Result) *Reference {
	ref := &Reference{Schema: Schema, Name: name, Machines: len(machines)}
	times, ranges := map[grid.Case][][]float64{}, map[grid.Case][]float64{}
	for _, runs := range machines {
		own := map[grid.Case][]float64{}
		for _, r := range runs {
			ref.Runs++
			ref.Device = r.Device.Name
			for _, p := range r.Points {
				own[p.Case] = append(own[p.Case], max(p.Median, 1))
				ranges[p.Case] = []float64{max(p.P5, 1), max(p.P95, 1)}
			}
		}
		for c, ns := range own {
			times[c] = append(times[c], ns)
		}
	}
	for _, c := range slices.Concat(grid.Operations.Cases(), grid.Patterns.Cases()) {
		if len(times[c]) > 0 {
			extra := ranges[c]
			if ref.Runs > 1 {
				extra = nil
			}
			ref.add(c, times[c], extra)
		}
	}
	ref.index()
	return ref
}

// add adds a row: the times of each machine, and other times that are normal.
func (ref *Reference) add(c grid.Case, machines [][]float64, extra []float64) {
	var medians []float64
	all := slices.Clone(extra)
	for _, runs := range machines {
		medians = append(medians, median(runs))
		all = append(all, runs...)
	}
	row := Row{Size: c.Size, Median: math.Round(median(medians)), Low: math.Round(slices.Min(all)), High: math.Round(slices.Max(all)), Machines: len(machines)}
	if n := len(ref.Kinds); n == 0 || ref.Kinds[n-1].Kind != c.Kind {
		ref.Kinds = append(ref.Kinds, Kind{Kind: c.Kind})
	}
	k := &ref.Kinds[len(ref.Kinds)-1]
	k.Rows = append(k.Rows, row)
}

// spreadOf returns how far the ends of the ranges of rows are from their medians: the
// furthest, as a factor.
func spreadOf(rows []Row) float64 {
	far := 1.0
	for _, r := range rows {
		far = max(far, r.Median/r.Low, r.High/r.Median)
	}
	return far
}

// median returns the median of numbers: with an even count, the mean of the middle two.
func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

// around is how many sizes on each side count for the spread of a row. Six machines are too
// few to know the range of each row by itself.
const around = 2

// index makes the rows findable.
func (ref *Reference) index() {
	ref.rows = map[grid.Case]*Row{}
	for i := range ref.Kinds {
		k := &ref.Kinds[i]
		for j := range k.Rows {
			k.Rows[j].spread = spreadOf(k.Rows[max(0, j-around):min(len(k.Rows), j+around+1)])
			ref.rows[grid.Case{Kind: k.Kind, Size: k.Rows[j].Size}] = &k.Rows[j]
		}
	}
}

// Row returns the row of a case, or nil.
func (ref *Reference) Row(c grid.Case) *Row { return ref.rows[c] }

// A time is normal up to a limit: the range of the row, made this much wider, or the range
// of the rows around it if that is wider, and a part more. With these numbers the rows of a machine
// against the reference of the other machines are normal but for 4 of 1000.
const (
	widen = 1.5  // in logarithms
	part  = 1.10 // a factor
)

// Limits returns the shortest and the longest normal time, in nanoseconds.
func (r *Row) Limits() (low, high float64) {
	out := func(seen float64) float64 { return max(math.Pow(seen, widen), r.spread) * part }
	return r.Median / out(r.Median/r.Low), r.Median * out(r.High/r.Median)
}

// JSON returns the reference as one document, with a line for each kind.
func (ref *Reference) JSON() ([]byte, error) {
	head := *ref
	head.Kinds = []Kind{}
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(text[:len(text)-2])
	for i, k := range ref.Kinds {
		line, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n%s", line)
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}
