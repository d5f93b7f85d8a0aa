package runner

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// limits are the smallest and the largest number of a random buffer.
type limits struct{ low, high uint64 } // as bits of the buffer's type

// parseLimits parses LOW..HIGH.
func (a *Arg) parseLimits(text string) error {
	if a.from != fromRandom && a.from != fromWhole {
		return errors.New("only random[N] and whole[N] have limits, as in random[N]:LOW..HIGH")
	}
	words := [2]string{}
	var ok bool
	if words[0], words[1], ok = strings.Cut(text, ".."); !ok {
		return fmt.Errorf("%q are not limits of random numbers: write random[N]:LOW..HIGH or whole[N]:LOW..HIGH", text)
	}
	var ends [2]uint64
	for i, word := range words {
		end, err := parseValue(a.Type, strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("limit %w", err)
		}
		if nonFinite(a.Type, end) != "" {
			return fmt.Errorf("limit %q is not finite", word)
		}
		ends[i] = end
	}
	a.limits = &limits{ends[0], ends[1]}
	if err := a.limits.check(a.Type, text); err != nil || a.from != fromWhole {
		return err
	}
	return a.limits.checkWhole(a.Type, text)
}

// check refuses limits in the wrong order, and limits whose difference is no float64.
func (l *limits) check(t Type, text string) error {
	wrong := l.low > l.high
	switch t.class() {
	case signed:
		wrong = signExtend(t, l.low) > signExtend(t, l.high)
	case float:
		low, high := t.Float(l.low), t.Float(l.high)
		if wrong = low > high; math.IsInf(high-low, 0) {
			return fmt.Errorf("the limits %s are too far apart", text)
		}
	}
	if wrong {
		return fmt.Errorf("the limits %s are in the wrong order: write LOW..HIGH", text)
	}
	return nil
}

// checkWhole refuses limits of a float type between which there are integers that the type
// does not have.
func (l *limits) checkWhole(t Type, text string) error {
	if t.class() != float {
		return nil
	}
	most := math.Ldexp(1, int(t.precision()))
	for _, end := range []float64{t.Float(l.low), t.Float(l.high)} {
		if end != math.Trunc(end) || math.Abs(end) > most {
			return fmt.Errorf("the limits %s of whole numbers: want integers from -%.0f to %.0f, which a %s holds exactly", text, most, most, t)
		}
	}
	return nil
}

// fill writes random numbers, or random whole numbers, within the limits, both of which
// can occur. It uses the same numbers of the generator as [fillRandom].
func (l *limits) fill(data []byte, t Type, whole bool, state uint64, first, end int) {
	z := state + gamma*uint64(first)
	if t.class() == float && whole {
		low := t.Float(l.low)
		width := uint64(t.Float(l.high)-low) + 1
		for i := first; i < end; i++ {
			z += gamma
			offset, _ := bits.Mul64(mix(z), width)
			PutElement(data, t, i, t.FromFloat(low+float64(offset)))
		}
		return
	}
	if t.class() == float {
		low, high := t.Float(l.low), t.Float(l.high)
		width, drop := high-low, 64-t.precision()
		scale := math.Ldexp(1, -int(t.precision()))
		for i := first; i < end; i++ {
			z += gamma
			// The conversion keeps the compiler from fusing the product and the sum.
			v := low + float64(width*(float64(mix(z)>>drop)*scale))
			PutElement(data, t, i, t.FromFloat(min(v, high)))
		}
		return
	}
	low := l.low
	width := l.high - low + 1
	if t.class() == signed {
		low = uint64(signExtend(t, low))
		width = uint64(signExtend(t, l.high)) - low + 1
	}
	for i := first; i < end; i++ {
		z += gamma
		offset := mix(z)
		if width != 0 { // 0 stands for 2^64
			offset, _ = bits.Mul64(offset, width)
		}
		PutElement(data, t, i, low+offset)
	}
}

// signExtend returns the value of the bits of a signed integer.
func signExtend(t Type, value uint64) int64 {
	unused := 64 - 8*t.Size()
	return int64(value<<unused) >> unused
}
