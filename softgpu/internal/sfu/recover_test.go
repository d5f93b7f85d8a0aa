package sfu_test

import (
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu/internal/sfu"
	"github.com/ferrygpu/ferry/softgpu/internal/sfu/fit"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// A source returns n results of a form, named as in forms, for f32 from first on.
type source func(form string, first uint32, n int) ([]uint32, error)

// missing marks an argument without result.
const missing = math.MaxUint32

// A target says where the results of a table are, and how they are cut from sums.
type target struct {
	table, form string
	first       uint32 // the f32 of argument 0
	width       int    // bits of an argument
	index       int    // bits of it that choose a row
	unit        int    // a result is a multiple of 2**-unit before it becomes an f32
	shift       int    // the bits of a sum below
	skip        bool   // argument 0 has a result of its own
}

var targets = []target{
	{"sqrt", "sqrt.approx.ftz.f32", 0x3f800000, 24, 7, 23, 17, false},
	{"rcp", "rcp.approx.ftz.f32", 0x3f800000, 23, 7, 24, 16, false},
	{"rsqrt", "rsqrt.approx.ftz.f32", 0x3f800000, 24, 7, 24, 16, true},
	{"lg2", "lg2.approx.ftz.f32", 0x3f800000, 23, 6, 36, 2, true},
	{"ex2", "ex2.approx.ftz.f32", 0x3f800000, 23, 6, 22, 15, false},
}

// bounds returns what a result says of the sum that it was cut from.
func bounds(r uint32, unit, shift int) (low, high int64) {
	exp, m := int(r>>23&0xff), int64(r&0x7fffff|0x800000)
	switch n := exp - 150 + unit; {
	case exp == 0:
		low, high = 0, 0
	case n >= 0:
		low, high = m<<n, (m+1)<<n-1
	default:
		low, high = m>>-n, m>>-n
	}
	return low << shift, (high+1)<<shift - 1
}

// recoverRows fits one row for each part of the results. Those of an argument are at its
// place. Rows can be recovered at the same time.
func recoverRows(results []uint32, index int, cut func(results []uint32) (unit, shift int)) ([]sfu.Row, error) {
	rows, n := make([]sfu.Row, 1<<index), len(results)>>index
	wrong := make([]bool, len(rows))
	var group sync.WaitGroup
	for i := range rows {
		group.Go(func() {
			part := results[i*n : (i+1)*n]
			unit, shift := cut(part)
			list := points(part, unit, shift)
			if len(list) == 0 { // the source was not asked for this row
				return
			}
			row, ok := fit.Row(list)
			row.Unit = unit
			rows[i], wrong[i] = row, !ok
		})
	}
	group.Wait()
	failed := 0
	for _, w := range wrong {
		if w {
			failed++
		}
	}
	if failed > 0 {
		return rows, fmt.Errorf("no coefficients give the results of %d of %d intervals", failed, len(rows))
	}
	return rows, nil
}

// points returns the bounds of the sums of one row. Where several arguments have one x,
// all their results must be equal, or there is no point that a row can satisfy.
func points(results []uint32, unit, shift int) []fit.Point {
	rest := bits.Len(uint(len(results))) - 1
	down, up := max(rest-17, 0), max(17-rest, 0)
	list := make([]fit.Point, 0, len(results)>>down)
	for i, r := range results {
		if r == missing {
			continue
		}
		low, high := bounds(r&0x7fffffff, unit, shift)
		x := uint32(i) >> down << up
		if n := len(list); n > 0 && list[n-1].X == x {
			list[n-1].Low, list[n-1].High = max(list[n-1].Low, low), min(list[n-1].High, high)
			continue
		}
		list = append(list, fit.Point{X: x, Low: low, High: high})
	}
	return list
}

// recoverTables finds tables that give the results of a source. It returns those that it
// found, and an error for each other.
func recoverTables(from source) (sfu.Tables, map[string]error) {
	tables, errs := sfu.Tables{}, map[string]error{}
	keep := func(name string, rows []sfu.Row, err error) {
		if err != nil {
			errs[name] = err
			return
		}
		for i := range rows {
			if !strings.HasPrefix(name, "tanh") {
				rows[i].Unit = 0 // it is the same for all rows
			}
		}
		tables[name] = rows
	}
	for _, g := range targets {
		results, err := from(g.form, g.first, 1<<g.width)
		if err == nil {
			results = append([]uint32(nil), results...)
			if g.skip {
				results[0] = missing
			}
			var rows []sfu.Row
			rows, err = recoverRows(results, g.index, func([]uint32) (int, int) { return g.unit, g.shift })
			keep(g.table, rows, err)
			continue
		}
		keep(g.table, nil, err)
	}
	rows, err := recoverSine(from)
	keep("sin", rows, err)
	for exp := sfu.TanhLow; exp < sfu.TanhHigh; exp++ {
		rows, err := recoverTanh(from, exp)
		keep(sfu.TanhName(exp), rows, err)
	}
	return tables, errs
}

// recoverSine finds the rows of sin. The unit reads turns, so that the angles of the
// instruction are converted as it does.
func recoverSine(from source) ([]sfu.Row, error) {
	results := make([]uint32, 1<<23)
	for i := range results {
		results[i] = missing
	}
	for exp := -12; exp <= 0; exp++ {
		first := uint32(127+exp) << 23
		got, err := from("sin.approx.ftz.f32", first, 1<<23)
		if err != nil {
			return nil, err
		}
		for i, r := range got {
			if at := angle(softfloat.Turns(first+uint32(i), true)); r != missing && at < 1<<23 {
				results[at] = r
			}
		}
	}
	return recoverRows(results, 6, func([]uint32) (int, int) { return 37, 0 })
}

// angle returns the argument of the table of sin for a number of turns.
func angle(turns uint32) uint64 { return uint64(float64(math.Float32frombits(turns)) * (1 << 25)) }

// recoverTanh finds the rows of one binade of tanh: as few as have coefficients.
func recoverTanh(from source, exp int) ([]sfu.Row, error) {
	results, err := from("tanh.approx.f32", uint32(127+exp)<<23, 1<<23)
	if err != nil {
		return nil, err
	}
	results = append([]uint32(nil), results...)
	for index := 0; index <= 6; index++ {
		var rows []sfu.Row
		if rows, err = recoverRows(results, index, func(part []uint32) (int, int) { return unitOf(part), 16 }); err == nil {
			return rows, nil
		}
	}
	return nil, err
}

// unitOf returns the least unit of which all results are multiples.
func unitOf(results []uint32) int {
	unit := 0
	for _, r := range results {
		m := r&0x7fffff | 0x800000
		unit = max(unit, 150-int(r>>23&0xff)-bits.TrailingZeros32(m))
	}
	return unit
}

var allRows = flag.Bool("all", false, "TestRecover recovers all rows, not a fourth of them")

// A choice has a fourth of the arguments, which are whole rows.
type choice uint64

// has reports whether the choice has an argument of a table, or one of tanh, which is a f32.
func (c choice) has(op string, argument uint64) bool {
	group := argument >> 18 // two or four rows
	if op == "tanh" {
		group = argument >> 23 // a table
	}
	return *allRows || group%4 == uint64(c)
}

// softSource returns results of tables for the arguments of a choice, as the unit would
// give them.
func softSource(t sfu.Tables, c choice) source {
	return func(form string, first uint32, n int) ([]uint32, error) {
		op, _, _ := strings.Cut(form, ".")
		f := t.Function(op)
		if f == nil {
			return nil, fmt.Errorf("%s has no table", op)
		}
		list := make([]uint32, n)
		for i := range list {
			list[i] = missing
			x := first + uint32(i)
			at := uint64(x)
			if op == "sin" {
				// Between small angles there are more f32 than arguments of the table.
				if i%(1<<(127-first>>23)) != 0 {
					continue
				}
				x = softfloat.Turns(x, true)
				at = angle(x)
			}
			if c.has(op, at) {
				list[i] = f(x)
			}
		}
		return list, nil
	}
}

// TestRecover recovers tables from the results of tables that it does not see. Each
// function of the recovered ones gives the same results. It recovers a fourth of the rows,
// others each time; with -all it recovers all.
func TestRecover(t *testing.T) {
	hidden, c := sfu.Loaded(), choice(rand.Uint64N(4))
	from := softSource(hidden, c)
	if testing.Short() || !sample.Full() {
		results, _ := from("sqrt.approx.ftz.f32", 0x3f800000, 1<<24)
		if _, err := recoverRows(results[:1<<20], 3, func([]uint32) (int, int) { return 23, 17 }); err != nil {
			t.Error(err)
		}
		return
	}
	found, errs := recoverTables(from)
	for name, err := range errs {
		t.Errorf("choice %d: %s: %v", c, name, err)
	}
	if t.Failed() {
		return
	}
	for _, r := range []struct {
		op    string
		first uint32
		n     uint32
	}{{"rcp", 0x3f800000, 1 << 23}, {"sqrt", 0x3f800000, 1 << 24}, {"rsqrt", 0x3f800000, 1 << 24}, {"lg2", 0x3f800000, 1 << 23},
		{"ex2", 0x3f800000, 1 << 23}, {"sin", 0x3d000000, 1 << 24}, {"tanh", (127 + sfu.TanhLow) << 23, (sfu.TanhHigh - sfu.TanhLow) << 23}} {
		f, g := hidden.Function(r.op), found.Function(r.op)
		compared := 0
		for x := r.first; x < r.first+r.n; x++ {
			at := uint64(x)
			if r.op == "sin" {
				at = angle(x)
			}
			if !c.has(r.op, at) {
				continue
			}
			if compared++; f(x) != g(x) {
				t.Fatalf("choice %d: %s of %#x: %#x, recovered %#x", c, r.op, x, f(x), g(x))
			}
		}
		if compared < int(r.n)/8 {
			t.Errorf("choice %d: %d results of %s were compared", c, compared, r.op)
		}
	}
}
