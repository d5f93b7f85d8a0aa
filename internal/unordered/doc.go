// Package unordered finds copies of one list that conflict although the list gives them
// no order: two write one byte, or one reads what another writes. In race builds it shows
// the first conflict to the race detector, as a race between two goroutines that the call
// has started. In other builds it does nothing. The addresses are only compared, so the
// memory may be anywhere.
package unordered

// Copy is one copy of a list.
type Copy struct{ Dst, Src Range }

// Range is a range of bytes of one address space.
type Range struct {
	Space int // of the address; ranges of different spaces share nothing
	From  uintptr
	Bytes uintptr
}
