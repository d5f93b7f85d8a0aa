package pin

import "math/bits"

// Sizes of blocks: multiples of 256 bytes to 2 KiB, then eight to each doubling.
// So a block is larger than asked for by less than an eighth, or by less than 256
// bytes.
const (
	quantum    = 256
	linear     = 8 // classes that are multiples of the quantum
	linearBits = 11
	classes    = linear + (46-linearBits)*8
	largest    = 1 << 46
)

// classOf is the smallest class of blocks with n bytes, 1 to largest.
func classOf(n uintptr) int {
	if n <= linear*quantum {
		return int((n+quantum-1)/quantum) - 1
	}
	e := bits.Len64(uint64(n-1)) - 1
	return linear + (e-linearBits)*8 + int((n-1)>>(e-3)) - 8
}

// sizeOf is the bytes of a block of class c.
func sizeOf(c int) uintptr {
	if c < linear {
		return uintptr(c+1) * quantum
	}
	e := (c-linear)/8 + linearBits
	return uintptr((c-linear)%8+9) << (e - 3)
}

// within is the largest class of blocks that n bytes, a multiple of the quantum,
// can hold.
func within(n uintptr) int {
	c := classOf(n)
	if sizeOf(c) > n {
		c--
	}
	return c
}
