package staging

import (
	"slices"
	"sync/atomic"
)

// chunk is the part of a transfer that one copy of the device moves.
//
// off, n, first and blocks do not change after plan. All goroutines use state and left. The
// coordinator owns slot, queued and finished. Other goroutines only read: a worker reads
// slot while the chunk is open, and the goroutine that ends the transfer reads slot and
// queued. The atomic fields state and transfer.unaccounted order these accesses.
type chunk struct {
	off, n int64
	first  int64 // number of its first block, counted over all chunks
	blocks int64

	state atomic.Uint32 // chunkClosed, then chunkOpen or chunkFailed: see transfer.become
	left  atomic.Int64  // blocks that are not accounted for
	slot  *slot

	queued   bool // the device has a copy of it
	finished bool // all blocks are copied or dropped, and the coordinator has handled that
	released bool // the transfer has released its slot; transfer.mu guards it
}

// States of a chunk.
const (
	chunkClosed uint32 = iota // blocks cannot be copied yet
	chunkOpen
	chunkFailed
)

// plan divides n bytes into chunks of at most size bytes, and those into blocks. It appends the chunks
// to an empty slice, as planCrowded does.
//
// To the device, the first chunk is an eighth of the transfer, and at most half a slot.
// Each later chunk is at most as long as all chunks before it. With a smaller first chunk
// the device would begin sooner. But it would read data that is still in the caches of the
// cores, which is slow and hinders the workers. From the device, the last chunks are short,
// so that little is left to copy when the device is done.
func plan(chunks []chunk, n int64, toDevice bool, size, blockSize int) []chunk {
	block, most := int64(blockSize), int64(size)
	chunks = slices.Grow(chunks, int(min(n/most+16, n/block+1)))
	first := int64(0)
	for off := int64(0); off < n; {
		size := max(off, min(n/8, most/2))
		if !toDevice {
			size = (n - off) / 3
		}
		size = (size + block - 1) / block * block
		size = min(max(size, block), most, n-off)
		chunks = append(chunks, chunk{off: off, n: size, first: first, blocks: (size + block - 1) / block})
		off += size
		first += (size + block - 1) / block
	}
	for i := range chunks {
		chunks[i].left.Store(chunks[i].blocks)
	}
	return chunks
}

// planCrowded divides n bytes into chunks of size bytes. One goroutine copies each, while
// the device works for other transfers.
func planCrowded(chunks []chunk, n, size, block int64) []chunk {
	for off := int64(0); off < n; off += size {
		chunks = append(chunks, chunk{off: off, n: min(size, n-off), first: off / block})
		c := &chunks[len(chunks)-1]
		c.blocks = (c.n + block - 1) / block
		c.left.Store(c.blocks)
	}
	return chunks
}
