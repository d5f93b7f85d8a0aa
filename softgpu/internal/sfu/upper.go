package sfu

const (
	fraction64 = 1<<20 - 1 // of the upper word of an f64
	bias64     = 1023
)

// Upper returns what the unit does for the upper word of an f64: rcp or rsqrt, as op says,
// of a positive normal number. The result is another upper word, 0 for a denormal.
func Upper(op string) func(x uint32) uint32 {
	rows := loaded()[op]
	if op == "rcp" {
		at := newTable(rows, 23)
		return func(x uint32) uint32 { return rcpUpper(at, x) }
	}
	at := newTable(rows, 24)
	return func(x uint32) uint32 { return rsqrtUpper(at, x) }
}

func rcpUpper(t *table, x uint32) uint32 {
	m := t.at(x&fraction64<<3) >> 19
	return assemble64(2*bias64-1-int(x>>20), uint32(m))
}

func rsqrtUpper(t *table, x uint32) uint32 {
	half, argument := halve(int(x>>20)-bias64, x&fraction64, 20)
	if argument == 0 {
		return assemble64(bias64-half, 1<<20)
	}
	return assemble64(bias64-1-half, uint32(t.at(argument<<3)>>19))
}

// assemble64 returns the upper word of a biased exponent and a significand in [1<<20, 1<<21].
func assemble64(exp int, m uint32) uint32 {
	if m >= 1<<21 {
		exp, m = exp+1, 1<<20
	}
	if exp <= 0 {
		return 0
	}
	return uint32(exp)<<20 | m&fraction64
}
