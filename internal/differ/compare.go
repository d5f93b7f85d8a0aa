package differ

import (
	"bytes"
	"fmt"
	"math"
)

// Difference is the result of a comparison.
type Difference struct {
	Compared int     // number of elements
	ULP      float64 // the largest difference that was allowed, 0 if all are equal
}

// Compare compares buffers after a launch with the expected ones. It includes inputs,
// because a kernel must not change them. The error names the first wrong element.
func Compare(c *Case, target string, got, want [][]byte) (Difference, error) {
	var d Difference
	for i, a := range c.Args {
		if a.Value != nil {
			continue
		}
		d.Compared += a.N
		if bytes.Equal(got[i], want[i]) {
			continue
		}
		bound := c.BoundOn(target)
		if bound.Exact() || a.Type < F16 || a.Input {
			return d, unequal(c, i, got[i], want[i])
		}
		ulp, err := within(a.Type, bound, got[i], want[i])
		if err != nil {
			return d, fmt.Errorf("%s, argument %d, %w", c.Kernel, i, err)
		}
		d.ULP = max(d.ULP, ulp)
	}
	return d, nil
}

// unequal returns an error with the number of different elements and the first of them.
func unequal(c *Case, arg int, got, want []byte) error {
	t := c.Args[arg].Type
	wrong, first := 0, -1
	for i := 0; i < len(want); i += t.Size() {
		if !bytes.Equal(got[i:i+t.Size()], want[i:i+t.Size()]) {
			if wrong++; first < 0 {
				first = i
			}
		}
	}
	g, w := got[first:first+t.Size()], want[first:first+t.Size()]
	text := fmt.Sprintf("%x, want %x (little endian)", g, w)
	if t >= F16 {
		text = fmt.Sprintf("%v, want %v (%s)", t.float(g), t.float(w), text)
	}
	return fmt.Errorf("%s, argument %d: %d of %d elements differ, the first, %d, is %s", c.Kernel, arg, wrong, len(want)/t.Size(), first/t.Size(), text)
}

// within returns the largest difference of floats in units in the last place. It fails if
// one is outside of the bound. All NaN are equal.
func within(t Type, b Bound, got, want []byte) (float64, error) {
	var most float64
	for i := 0; i < len(want); i += t.Size() {
		g, w := t.float(got[i:]), t.float(want[i:])
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		ulp := math.Abs(float64(t.order(got[i:])) - float64(t.order(want[i:])))
		if math.Abs(g-w) <= b.Abs {
			continue
		}
		if ulp > b.ULP || math.IsNaN(g) || math.IsNaN(w) {
			return 0, fmt.Errorf("element %d: %v, want %v: %v units in the last place apart, %v allowed", i/t.Size(), g, w, ulp, b.ULP)
		}
		most = max(most, ulp)
	}
	return most, nil
}
