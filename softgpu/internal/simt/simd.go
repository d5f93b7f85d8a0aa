package simt

import (
	"github.com/ferrygpu/ferry/ptx"
)

// operations are the loops over the lanes of a warp that have a version in AVX2, in
// which a CPU register holds several lanes.
type operations struct {
	add, sub, and, or, xor         vec
	mulU32, mulS32, madU32, madS32 vec // with products of 64 bits
	shl32, shrU32, shrS32          vec
	minS32, maxS32, minU32, maxU32 vec
	signExtend32, zeroExtend32     vec
	addF32, subF32, mulF32, fmaF32 vec
	addF64, mulF64, fmaF64         vec

	// comparisons of all lanes; nil if there is only the portable loop
	eq32, ltS32, ltU32, eqF32, ltF32, leF32 func(a, b *lanes) uint32

	keep       func(d, a *lanes, mask uint32)    // d = a in the lanes of mask
	choose     func(d, a, b *lanes, mask uint32) // d = a in the lanes of mask, else b
	loadWords  func(d *lanes, p uintptr)
	storeWords func(p uintptr, a *lanes)

	// offsets sets d to a&cut + delta. low is the OR of all of d, and high that of most - d.
	offsets func(d, a *lanes, cut, delta, most uint64) (low, high uint64)
	spread  func(d *lanes, v, step uint64) // lane i of d = v + i*step
}

// portable has the loops in Go. All other versions must agree with them.
var portable = operations{
	add: vecAdd, sub: vecSub, and: vecAnd, or: vecOr, xor: vecXor,
	mulU32: vecMulWide[uint32], mulS32: vecMulWide[int32], madU32: vecMadWide[uint32], madS32: vecMadWide[int32],
	shl32: vecShl32, shrU32: vecShr[uint32], shrS32: vecShr[int32],
	minS32: vecMin[int32], maxS32: vecMax[int32], minU32: vecMin[uint32], maxU32: vecMax[uint32],
	signExtend32: vecExtend[int32], zeroExtend32: vecExtend[uint32],
	addF32: vecAddF32, subF32: vecSubF32, mulF32: vecMulF32, fmaF32: vecFmaF32,
	addF64: vecAddF64, mulF64: vecMulF64, fmaF64: vecFmaF64,
	keep: keepLanes, choose: chooseLanes, loadWords: loadWords, storeWords: storeWords,
	offsets: offsetLanes, spread: spreadLanes,
}

// simd has the loops in use. They are chosen when the process starts.
var simd = portable

// comparison returns a comparison that uses the loops of o, or f if they do not have
// it.
func (o *operations) comparison(t ptx.Type, op string, f compareFunc) compareFunc {
	eq, lt, le := o.eq32, o.ltU32, (func(a, b *lanes) uint32)(nil)
	switch t {
	case ptx.S32:
		lt = o.ltS32
	case ptx.F32:
		eq, lt, le = o.eqF32, o.ltF32, o.leF32
	case ptx.U32, ptx.B32:
	default:
		return f
	}
	if eq == nil {
		return f
	}
	is, swapped, not := lt, false, false
	switch op {
	case "eq":
		is = eq
	case "ne", "neu": // ne of floats is false for NaN, which no negation of eq gives
		is, not = eq, true
		if t == ptx.F32 && op == "ne" {
			return f
		}
	case "lt", "lo":
	case "gt", "hi":
		swapped = true
	case "le", "ls", "leu":
		if is, swapped, not = lt, true, true; op == "le" && le != nil {
			is, swapped, not = le, false, false
		}
	case "ge", "hs", "geu":
		if is, not = lt, true; op == "ge" && le != nil {
			is, swapped, not = le, true, false
		}
	case "ltu":
		is, swapped, not = le, true, true
	case "gtu":
		is, not = le, true
	default:
		return f
	}
	return simdCompare(f, is, swapped, mask(not))
}

// simdCompare returns a comparison that compares all lanes with is, and a single lane
// with f.
func simdCompare(f compareFunc, is func(a, b *lanes) uint32, swapped bool, not uint32) compareFunc {
	return func(a, b *lanes, n int) uint32 {
		switch {
		case n == 1:
			return f(a, b, 1)
		case swapped:
			return is(b, a) ^ not
		}
		return is(a, b) ^ not
	}
}

func keepLanes(d, a *lanes, mask uint32) {
	for i := range d {
		if mask&(1<<i) != 0 {
			d[i] = a[i]
		}
	}
}

func chooseLanes(d, a, b *lanes, mask uint32) {
	for i := range d {
		v := b[i]
		if mask&(1<<i) != 0 {
			v = a[i]
		}
		d[i] = v
	}
}

func offsetLanes(d, a *lanes, cut, delta, most uint64) (low, high uint64) {
	for i, v := range a {
		off := v&cut + delta
		low |= off
		high |= most - off
		d[i] = off
	}
	return low, high
}

func spreadLanes(d *lanes, v, step uint64) {
	for i := range d {
		d[i] = v
		v += step
	}
}
