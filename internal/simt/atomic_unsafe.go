package simt

import "unsafe"

// atomicFunc changes the memory at p and gives what was there before.
type atomicFunc func(p uintptr, b, c uint64) uint64

// updateFunc is the new value of memory that holds old.
type updateFunc func(old, b, c uint64) uint64

// word32 and word64 are what an atomic instruction works on, and for no longer than
// that.
//
//go:nocheckptr
func word32(p uintptr) *uint32 { return (*uint32)(unsafe.Add(nil, p)) }

//go:nocheckptr
func word64(p uintptr) *uint64 { return (*uint64)(unsafe.Add(nil, p)) }

func atomicAdd32(p uintptr, b, _ uint64) uint64 {
	return uint64(add32(word32(p), uint32(b)) - uint32(b))
}

func atomicAdd64(p uintptr, b, _ uint64) uint64 {
	return add64(word64(p), b) - b
}

func atomicExchange32(p uintptr, b, _ uint64) uint64 {
	return uint64(swap32(word32(p), uint32(b)))
}

func atomicExchange64(p uintptr, b, _ uint64) uint64 {
	return swap64(word64(p), b)
}

func atomicCAS32(p uintptr, b, c uint64) uint64 {
	for {
		old := load32(word32(p))
		if old != uint32(b) || cas32(word32(p), old, uint32(c)) {
			return uint64(old)
		}
	}
}

func atomicCAS64(p uintptr, b, c uint64) uint64 {
	for {
		old := load64(word64(p))
		if old != b || cas64(word64(p), old, c) {
			return old
		}
	}
}

// atomicUpdate makes any update of a word of 2, 4 or 8 bytes atomic.
func atomicUpdate(size int, f updateFunc) atomicFunc {
	switch size {
	case 2:
		return func(p uintptr, b, c uint64) uint64 {
			off := p & 2
			word := p - off
			for {
				all := load32(word32(word))
				old := uint64(all >> (8 * off) & 0xffff)
				v := uint32(f(old, b&0xffff, c&0xffff)) & 0xffff
				if cas32(word32(word), all, all&^(0xffff<<(8*off))|v<<(8*off)) {
					return old
				}
			}
		}
	case 4:
		return func(p uintptr, b, c uint64) uint64 {
			for {
				old := load32(word32(p))
				v := uint32(f(uint64(old), b, c))
				if v == old || cas32(word32(p), old, v) {
					return uint64(old)
				}
			}
		}
	}
	return func(p uintptr, b, c uint64) uint64 {
		for {
			old := load64(word64(p))
			v := f(old, b, c)
			if v == old || cas64(word64(p), old, v) {
				return old
			}
		}
	}
}

// atomics runs f on the memory of each active lane, found by scattered, lowest
// lane first.
func (k *memScratch) atomics(f atomicFunc, d, b, c *lanes, active uint32) {
	for i := range d {
		if active&(1<<i) != 0 {
			d[i] = f(k.places[i], b[i], c[i])
		}
	}
}
