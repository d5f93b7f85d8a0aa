package sfu

import (
	_ "embed"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"
)

// Row has the coefficients of one interval. Unit is of tanh only: its results are
// multiples of 2**-Unit.
type Row struct {
	C0     int64
	C1, C2 int32
	Unit   int
}

//go:embed tables.txt
var tablesText string

// Tables holds the rows by function: rcp, rsqrt, sqrt, lg2, ex2, sin, and those of
// tanh as [TanhName] says. Each number of rows is a power of two.
type Tables map[string][]Row

var loaded = sync.OnceValue(func() Tables {
	t, err := ParseTables(tablesText)
	if err != nil {
		panic("BUG: tables.txt: " + err.Error())
	}
	return t
})

// ParseTables reads tables in the form of tables.txt.
func ParseTables(text string) (Tables, error) {
	t, name := Tables{}, ""
	for n, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case len(words) == 1:
			name = words[0]
		default:
			r, err := parseRow(words)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			t[name] = append(t[name], r)
		}
	}
	for name, rows := range t {
		if n := len(rows); n&(n-1) != 0 {
			return nil, fmt.Errorf("%s has %d rows, not a power of two", name, n)
		}
	}
	return t, nil
}

func parseRow(words []string) (Row, error) {
	var v [4]int64
	if len(words) > len(v) {
		return Row{}, fmt.Errorf("%d numbers", len(words))
	}
	for i, w := range words {
		bits := 32
		if i == 0 {
			bits = 64
		}
		var err error
		if v[i], err = strconv.ParseInt(w, 10, bits); err != nil {
			return Row{}, err
		}
	}
	return Row{v[0], int32(v[1]), int32(v[2]), int(v[3])}, nil
}

// Append writes the rows of a function in the form of tables.txt.
func Append(text []byte, name string, rows []Row) []byte {
	text = append(append(text, name...), '\n')
	for _, r := range rows {
		text = fmt.Appendf(text, "%d %d %d", r.C0, r.C1, r.C2)
		if r.Unit != 0 {
			text = fmt.Appendf(text, " %d", r.Unit)
		}
		text = append(text, '\n')
	}
	return text
}

// At returns the sum of the row at x, a number of 17 bits.
func (r *Row) At(x uint32) int64 {
	return r.C0 + int64(r.C1)*int64(x) + int64(r.C2)*int64(Square(x))
}

// table finds the row of an argument: a fraction whose uppermost bits choose the row.
type table struct {
	rows     []Row
	rest     uint   // bits of the argument below those that choose the row
	mask     uint32 // of these bits
	down, up uint   // shifts that make them 17
}

// newTable returns the table for arguments of the given number of bits.
func newTable(rows []Row, width int) *table {
	rest := width - bits.TrailingZeros(uint(len(rows)))
	return &table{rows: rows, rest: uint(rest), mask: 1<<rest - 1, down: uint(max(rest-17, 0)), up: uint(max(17-rest, 0))}
}

// locate returns the row of an argument, and x. The shifts are below 32, which the
// compiler knows by the masks.
func (t *table) locate(argument uint32) (*Row, uint32) {
	return &t.rows[argument>>(t.rest&31)], argument & t.mask >> (t.down & 31) << (t.up & 31)
}

// at returns the sum at an argument. The sum of sqrt has 40 bits after the point, that of
// rcp and rsqrt 39, that of ex2 and lg2 38, that of sin 37.
func (t *table) at(argument uint32) int64 {
	r, x := t.locate(argument)
	return r.At(x)
}

// Square returns x*x/2**19 of 17 bits as the unit computes it. The unit cuts each partial
// product of x and a bit of x before it adds them: the result is the sum of
// x(i)*x(j)*2**(i+j-19) over all i and j with i+j of at least 18, cut. x(i) is bit i of x.
func Square(x uint32) uint32 {
	low, high := x&0xff, x>>8
	upper := (high*high - high&1 - high&1*(high>>1&1)*4) >> 2
	return (upper + 2*uint32(cross[low>>2&63][high>>3&63])) >> 1
}

// cross[u][v] is the sum of the products of a bit of u and a bit of v that Square keeps:
// u has bits 2 to 7 of x, and v has bits 11 to 16.
var cross = func() (t [64][64]uint16) {
	for u := range t {
		for v := range t[u] {
			for i := range 6 {
				t[u][v] += uint16(u>>i&1) * uint16(v>>(5-i))
			}
		}
	}
	return t
}()
