package check

import "slices"

// clock says, for each lane, up to which of its operations all are ordered before a point.
// Lanes have no entry if it is 0.
type clock []uint64

func (c clock) at(slot int) uint64 {
	if slot < len(c) {
		return c[slot]
	}
	return 0
}

// set raises one entry.
func (c *clock) set(slot int, n uint64) {
	for len(*c) <= slot {
		*c = append(*c, 0)
	}
	(*c)[slot] = max((*c)[slot], n)
}

// join raises each entry to that of other.
func (c *clock) join(other clock) {
	for len(*c) < len(other) {
		*c = append(*c, 0)
	}
	for i, n := range other {
		if n > (*c)[i] {
			(*c)[i] = n
		}
	}
}

func (c clock) clone() clock { return slices.Clone(c) }
