package sfu

import "fmt"

// The unit interpolates tanh from 2**TanhLow to 2**TanhHigh. Below tanh(x) is x, and above
// it is 1.
const (
	TanhLow  = -8
	TanhHigh = 3
)

// TanhName returns the name of the rows of tanh from 2**exp to 2**(exp+1). Their results
// are multiples of 2**-Unit.
func TanhName(exp int) string { return fmt.Sprintf("tanh%d", exp) }

// tanhFunction returns tanh, or nil if a table has not all its rows.
func (t Tables) tanhFunction() func(x uint32) uint32 {
	var binades [TanhHigh - TanhLow]*table
	for i := range binades {
		rows := t[TanhName(TanhLow+i)]
		if rows == nil {
			return nil
		}
		binades[i] = newTable(rows, 23)
	}
	return func(x uint32) uint32 {
		exp := exponent(x) - bias
		switch {
		case x&^sign > infinity:
			return nan
		case exp < TanhLow:
			return x
		case exp >= TanhHigh:
			return x&sign | bias<<23
		}
		r, offset := binades[exp-TanhLow].locate(x & fraction)
		return x&sign | normalize(r.At(offset)>>16, r.Unit)
	}
}
