package stage

import "sync/atomic"

// chunk is a part of a transfer that one copy of the device moves.
type chunk struct {
	off, n int64
	first  int64 // number of its first block, counted over all chunks
	blocks int64

	state  atomic.Uint32 // closed, then open or failed
	opened chan struct{} // closed when it is not closed any more; nil if one goroutine works
	left   atomic.Int64  // blocks to be copied
	queued atomic.Bool   // the device has it
	slot   *slot         // what the pump sets before it is open, or queued
	over   bool          // its slot is not the transfer's any more; transfer.mu guards it

	finished bool // the pump's: all blocks have been seen to
}

// become opens a chunk, or lets it fail. It is false if it has become something before.
func (c *chunk) become(state uint32) bool {
	changed := c.state.CompareAndSwap(closed, state)
	if changed && c.opened != nil {
		close(c.opened)
	}
	return changed
}

// spin waits a microsecond, at most.
func (c *chunk) spin() {
	for range 500 {
		if c.state.Load() != closed {
			return
		}
	}
}

// plan cuts n bytes into chunks of at most set.Chunk. Towards the device the first
// ones are short, so that it begins soon: each three times as long as all before it,
// so that they are few, and have slots before the first is free again. From the
// device the last ones are, so that little is left to do when it ends. several says
// that more than one goroutine will copy.
func plan(n int64, in bool, set Settings, several bool) []chunk {
	block := int64(set.Block)
	chunks := make([]chunk, 0, n/int64(set.Chunk)+16)
	first := int64(0)
	for off := int64(0); off < n; {
		size := 3 * off
		if !in {
			size = (n - off) / 3
		}
		size = (size + block - 1) / block * block
		size = min(max(size, block), int64(set.Chunk), n-off)
		chunks = append(chunks, chunk{off: off, n: size, first: first, blocks: (size + block - 1) / block})
		off += size
		first += (size + block - 1) / block
	}
	for i := range chunks {
		chunks[i].left.Store(chunks[i].blocks)
		if several {
			chunks[i].opened = make(chan struct{})
		}
	}
	return chunks
}

// States of a chunk.
const (
	closed uint32 = iota
	open
	failed
)
