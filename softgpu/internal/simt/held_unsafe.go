package simt

import "unsafe"

// Unsafe: The places are words of the interpreter, or were checked against their segment
// by the caller. They are aligned.

// placeOfWord returns the place of v. The caller must keep v alive.
func placeOfWord(v *uint64) uintptr { return uintptr(unsafe.Pointer(v)) }

// readWord reads an aligned word of 4 or 8 bytes.
//
//go:norace
//go:nocheckptr
func readWord(p uintptr, size uint64) uint64 {
	if size == 8 {
		return load64(word64(p))
	}
	return uint64(load32(word32(p)))
}

// writeBytes writes the bytes in mask to the aligned word of 8 bytes at p, in as few writes
// as possible.
//
//go:norace
//go:nocheckptr
func writeBytes(p uintptr, mask uint8, v uint64) {
	if mask == 0xff {
		*(*uint64)(unsafe.Add(nil, p)) = v
		return
	}
	for i := uintptr(0); i < 8; {
		switch m := mask >> i; {
		case i%4 == 0 && m&0xf == 0xf:
			*(*uint32)(unsafe.Add(nil, p+i)) = uint32(v >> (8 * i))
			i += 4
		case i%2 == 0 && m&3 == 3:
			*(*uint16)(unsafe.Add(nil, p+i)) = uint16(v >> (8 * i))
			i += 2
		default:
			if m&1 != 0 {
				*(*uint8)(unsafe.Add(nil, p+i)) = uint8(v >> (8 * i))
			}
			i++
		}
	}
}
