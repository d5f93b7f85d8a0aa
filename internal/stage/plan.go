package stage

import "sync/atomic"

// chunk is a part of a transfer that one copy of the device moves.
type chunk struct {
	off, n int64
	first  int64 // number of its first block, counted over all chunks
	blocks int64

	state  atomic.Uint32 // closed, then opening, then open or failed
	opened chan struct{} // closed when it is open or failed
	left   atomic.Int64  // blocks to be copied
	slot   *slot
	queued atomic.Bool // the device has it
	over   bool        // its slot is not the transfer's any more; transfer.mu guards it

	// From the device:
	claimed atomic.Bool   // somebody queues its copy, or has
	ready   chan struct{} // closed when that is done, or err says why not
	err     error
}

// plan cuts n bytes into chunks of at most set.Chunk. Towards the device the first
// ones are short, so that it begins soon: each half of what is before it, which the
// CPU has ready by the time the device is done with that. From the device the last
// ones are, so that little is left to do when it ends.
func plan(n int64, in bool, set Settings) []chunk {
	block := int64(set.Block)
	chunks := make([]chunk, 0, n/int64(set.Chunk)+16)
	first := int64(0)
	for off := int64(0); off < n; {
		size := off / 2
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
		chunks[i].opened = make(chan struct{})
		if !in {
			chunks[i].ready = make(chan struct{})
		}
	}
	return chunks
}

// States of a chunk.
const (
	closed uint32 = iota
	opening
	open
	failed
)
