package differ

import (
	"bytes"
	"fmt"
	"math"
)

// Compare compares buffers after a launch with the expected ones, and returns how many
// elements it compared. It includes inputs, because a kernel must not change them. The
// error names the first wrong element.
func Compare(c *Case, got, want [][]byte) (compared int, err error) {
	for i, a := range c.Args {
		if a.Value != nil {
			continue
		}
		compared += a.N
		switch {
		case bytes.Equal(got[i], want[i]):
		case c.Bound.Exact() || a.Type < F16 || a.Input:
			return compared, unequal(c, i, got[i], want[i])
		default:
			if err := within(a.Type, c.Bound, got[i], want[i]); err != nil {
				return compared, fmt.Errorf("%s, argument %d, %w", c.Kernel, i, err)
			}
		}
	}
	return compared, nil
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

// within returns an error if a float is outside of the bound. All NaN are equal.
func within(t Type, b Bound, got, want []byte) error {
	for i := 0; i < len(want); i += t.Size() {
		g, w := t.float(got[i:]), t.float(want[i:])
		if g == w || math.IsNaN(g) && math.IsNaN(w) || math.Abs(g-w) <= b.Abs {
			continue
		}
		return fmt.Errorf("element %d: %v, want %v: %v allowed", i/t.Size(), g, w, b.Abs)
	}
	return nil
}
