package vclock

// Point is the place of an operation: its chain, and its number there from 1.
type Point struct {
	Chain int
	N     uint64
}

// Clock says which operations come before something: of chain i, the first Clock[i]. Chains without an entry
// have none. Methods never change a Clock, so that many can share one.
type Clock []uint64

// At returns how many operations of a chain come before.
func (c Clock) At(chain int) uint64 {
	if chain < len(c) {
		return c[chain]
	}
	return 0
}

// Has reports whether the operation at p comes before.
func (c Clock) Has(p Point) bool { return c.At(p.Chain) >= p.N }

// Contains reports whether c has all that d has.
func (c Clock) Contains(d Clock) bool {
	for i, n := range d {
		if n > c.At(i) {
			return false
		}
	}
	return true
}

// Join returns what c or d have.
func (c Clock) Join(d Clock) Clock {
	switch {
	case c.Contains(d):
		return c
	case d.Contains(c):
		return d
	}
	sum := make(Clock, max(len(c), len(d)))
	copy(sum, c)
	for i, n := range d {
		sum[i] = max(sum[i], n)
	}
	return sum
}

// Meet returns what both c and d have.
func (c Clock) Meet(d Clock) Clock {
	both := make(Clock, min(len(c), len(d)))
	for i := range both {
		both[i] = min(c[i], d[i])
	}
	return both
}

// With returns c and the operation at p, with all before it in its chain.
func (c Clock) With(p Point) Clock {
	if c.Has(p) {
		return c
	}
	sum := make(Clock, max(len(c), p.Chain+1))
	copy(sum, c)
	sum[p.Chain] = p.N
	return sum
}
