//go:build !noasm

package simt

// The loops of operations for CPUs with AVX2 and FMA. The build tag noasm leaves them
// out. Loops with n handle at least four lanes and at most all.

//go:noescape
func add(d, a, b, c *lanes, n int)

//go:noescape
func sub(d, a, b, c *lanes, n int)

//go:noescape
func and(d, a, b, c *lanes, n int)

//go:noescape
func or(d, a, b, c *lanes, n int)

//go:noescape
func xor(d, a, b, c *lanes, n int)

//go:noescape
func mulU32(d, a, b, c *lanes, n int)

//go:noescape
func mulS32(d, a, b, c *lanes, n int)

//go:noescape
func madU32(d, a, b, c *lanes, n int)

//go:noescape
func madS32(d, a, b, c *lanes, n int)

//go:noescape
func shl32(d, a, b, c *lanes, n int)

//go:noescape
func shrU32(d, a, b, c *lanes, n int)

//go:noescape
func shrS32(d, a, b, c *lanes, n int)

//go:noescape
func minS32(d, a, b, c *lanes, n int)

//go:noescape
func maxS32(d, a, b, c *lanes, n int)

//go:noescape
func minU32(d, a, b, c *lanes, n int)

//go:noescape
func maxU32(d, a, b, c *lanes, n int)

//go:noescape
func signExtend32(d, a, b, c *lanes, n int)

//go:noescape
func zeroExtend32(d, a, b, c *lanes, n int)

//go:noescape
func addF32(d, a, b, c *lanes, n int)

//go:noescape
func subF32(d, a, b, c *lanes, n int)

//go:noescape
func mulF32(d, a, b, c *lanes, n int)

//go:noescape
func fmaF32(d, a, b, c *lanes, n int)

//go:noescape
func addF64(d, a, b, c *lanes, n int)

//go:noescape
func mulF64(d, a, b, c *lanes, n int)

//go:noescape
func fmaF64(d, a, b, c *lanes, n int)

//go:noescape
func eq32(a, b *lanes) uint32

//go:noescape
func ltS32(a, b *lanes) uint32

//go:noescape
func ltU32(a, b *lanes) uint32

//go:noescape
func eqF32(a, b *lanes) uint32

//go:noescape
func ltF32(a, b *lanes) uint32

//go:noescape
func leF32(a, b *lanes) uint32

//go:noescape
func keep(d, a *lanes, mask uint32)

//go:noescape
func choose(d, a, b *lanes, mask uint32)

//go:noescape
func loadWordsSIMD(d *lanes, p uintptr)

//go:noescape
func storeWordsSIMD(p uintptr, a *lanes)

//go:noescape
func offsetsSIMD(d, a *lanes, cut, delta, most uint64) (low, high uint64)

//go:noescape
func spreadSIMD(d *lanes, v, step uint64)

func cpuHasAVX2() bool

var avx2 = operations{
	add: add, sub: sub, and: and, or: or, xor: xor,
	mulU32: mulU32, mulS32: mulS32, madU32: madU32, madS32: madS32,
	shl32: shl32, shrU32: shrU32, shrS32: shrS32,
	minS32: minS32, maxS32: maxS32, minU32: minU32, maxU32: maxU32,
	signExtend32: signExtend32, zeroExtend32: zeroExtend32,
	addF32: addF32, subF32: subF32, mulF32: mulF32, fmaF32: fmaF32,
	addF64: addF64, mulF64: mulF64, fmaF64: fmaF64,
	eq32: eq32, ltS32: ltS32, ltU32: ltU32, eqF32: eqF32, ltF32: ltF32, leF32: leF32,
	keep: keep, choose: choose, loadWords: loadWordsSIMD, storeWords: storeWordsSIMD,
	offsets: offsetsSIMD, spread: spreadSIMD,
}

func init() {
	if cpuHasAVX2() {
		simd = avx2
	}
}
