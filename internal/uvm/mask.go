package uvm

import "math/bits"

// Sizes of the policy.
const (
	PageShift  = 12 // the CPU's page
	BigShift   = 16 // what a fault is grown to
	BlockShift = 21 // what is served together

	PageSize  = 1 << PageShift
	BlockSize = 1 << BlockShift

	blockPages = 1 << (BlockShift - PageShift)
	bigPages   = 1 << (BigShift - PageShift)
)

// mask is a set of a block's pages.
type mask [blockPages / 64]uint64

func (m *mask) has(i int) bool { return m[i>>6]>>(i&63)&1 != 0 }
func (m *mask) set(i int)      { m[i>>6] |= 1 << (i & 63) }
func (m *mask) clear(i int)    { m[i>>6] &^= 1 << (i & 63) }

// fill sets pages first to past-1.
func (m *mask) fill(first, past int) {
	for i := first; i < past; {
		n := min(64-i&63, past-i)
		m[i>>6] |= (1<<n - 1) << (i & 63)
		i += n
	}
}

// count is the number of pages from first to past-1.
func (m *mask) count(first, past int) (n int) {
	for i := first; i < past; {
		w := min(64-i&63, past-i)
		n += bits.OnesCount64(m[i>>6] >> (i & 63) & (1<<w - 1))
		i += w
	}
	return n
}

func (m *mask) empty() bool { return *m == mask{} }

func (m *mask) or(o *mask) {
	for i := range m {
		m[i] |= o[i]
	}
}

func (m *mask) and(o *mask) {
	for i := range m {
		m[i] &= o[i]
	}
}

func (m *mask) andNot(o *mask) {
	for i := range m {
		m[i] &^= o[i]
	}
}

// next is the first page of m from i on, blockPages if there is none.
func (m *mask) next(i int) int {
	for ; i < blockPages; i = i&^63 + 64 {
		if w := m[i>>6] >> (i & 63); w != 0 {
			return i + bits.TrailingZeros64(w)
		}
	}
	return blockPages
}

// runs is the number of runs of neighbouring pages.
func (m *mask) runs() (n int) {
	last := uint64(0)
	for _, w := range m {
		n += bits.OnesCount64(w &^ (w<<1 | last))
		last = w >> 63
	}
	return n
}
