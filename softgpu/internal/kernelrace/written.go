package kernelrace

import "sync/atomic"

// WrittenShift is the binary logarithm of the bytes whose marks a Written holds, 4 KiB.
const WrittenShift = pageShift

// Written marks which bytes of a page of memory have been written, with a bit for each. A
// kernel's read of a byte without a mark is a finding. An offset and n bytes from there on lie
// in the page. Unlike the rest of the package it is safe for concurrent use.
type Written [1 << pageShift / 64]uint64

// Set marks n bytes from an offset on.
func (w *Written) Set(off, n uint64) {
	for ; n > 0; off, n = off+inWord(off, n), n-inWord(off, n) {
		atomic.OrUint64(&w[off/64], mask(off, inWord(off, n)))
	}
}

// Clear removes the marks of n bytes from an offset on.
func (w *Written) Clear(off, n uint64) {
	for ; n > 0; off, n = off+inWord(off, n), n-inWord(off, n) {
		atomic.AndUint64(&w[off/64], ^mask(off, inWord(off, n)))
	}
}

// Has reports whether n bytes from an offset on are marked.
func (w *Written) Has(off, n uint64) bool {
	for ; n > 0; off, n = off+inWord(off, n), n-inWord(off, n) {
		if m := mask(off, inWord(off, n)); atomic.LoadUint64(&w[off/64])&m != m {
			return false
		}
	}
	return true
}

// line reports whether no byte of a mask of the line at an address is read that nobody has written. It
// marks them if they are written.
func (w *Written) line(addr uint64, m lineMask, k Kind) bool {
	at := addr % (1 << pageShift) / lineBytes * lineBytes
	for i, some := range m {
		off := at + uint64(i)*64
		word := &w[off/64]
		if some&^atomic.LoadUint64(word) == 0 {
			continue
		}
		if k&Write == 0 {
			return false
		}
		atomic.OrUint64(word, some)
	}
	return true
}

// inWord returns how many of n bytes from an offset on have their marks in one uint64.
func inWord(off, n uint64) uint64 { return min(n, 64-off%64) }

// mask returns the marks of n bytes, 1 to 64, that have them in one uint64.
func mask(off, n uint64) uint64 { return ^uint64(0) >> (64 - n) << (off % 64) }
