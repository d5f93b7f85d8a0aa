package pin

import "math/bits"

// Blocks have one of some 290 sizes, the classes: multiples of 256 bytes up to 2 KiB, then
// eight sizes to each doubling. So a block is larger than asked for by less than an eighth,
// or by less than 256 bytes.
const (
	quantum    = 256
	linear     = 8 // classes that are multiples of the quantum
	linearBits = 11
	classes    = linear + (46-linearBits)*8
	maxBlock   = 1 << 46 // bytes
)

// classOf returns the smallest class of blocks with at least n bytes, 1 to maxBlock.
func classOf(n uintptr) int {
	if n <= linear*quantum {
		return int((n+quantum-1)/quantum) - 1
	}
	e := bits.Len64(uint64(n-1)) - 1
	return linear + (e-linearBits)*8 + int((n-1)>>(e-3)) - 8
}

// sizeOf returns the bytes of a block of class c.
func sizeOf(c int) uintptr {
	if c < linear {
		return uintptr(c+1) * quantum
	}
	e := (c-linear)/8 + linearBits
	return uintptr((c-linear)%8+9) << (e - 3)
}

// classWithin returns the largest class of blocks that fit into n bytes, a multiple of the
// quantum.
func classWithin(n uintptr) int {
	c := classOf(n)
	if sizeOf(c) > n {
		c--
	}
	return c
}
