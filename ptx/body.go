package ptx

import "slices"

// blockSize is how many instructions a block of a body has.
const blockSize = 1024

// body collects the instructions of a function. A slice that grows would be copied several
// times: a kernel of a million instructions is. The next function uses the memory again.
type body struct {
	full [][]Instr // of blockSize each
	last []Instr
}

// add appends an instruction.
func (b *body) add(in *Instr) {
	if len(b.last) == blockSize {
		b.full, b.last = append(b.full, b.last), make([]Instr, 0, blockSize)
	}
	b.last = append(b.last, *in)
}

// len returns how many instructions there are.
func (b *body) len() int { return len(b.full)*blockSize + len(b.last) }

// take returns the instructions and forgets them.
func (b *body) take() []Instr {
	list := slices.Concat(append(b.full, b.last)...)
	clear(b.last)
	b.full, b.last = nil, b.last[:0]
	return list
}
