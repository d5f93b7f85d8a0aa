package staging

import "sync/atomic"

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

	state  atomic.Uint32 // chunkClosed, then chunkOpen or chunkFailed
	opened chan struct{} // closed when state changes; nil if no worker waits for that
	left   atomic.Int64  // blocks that are not accounted for
	slot   *slot

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

// become opens a chunk or lets it fail. It does nothing to a chunk that is not closed.
func (c *chunk) become(state uint32) {
	if c.state.CompareAndSwap(chunkClosed, state) && c.opened != nil {
		close(c.opened)
	}
}

// plan divides n bytes into chunks of at most size bytes, and those into blocks.
//
// To the device, the first chunk is an eighth of the transfer, and at most half a slot.
// Each later chunk is at most as long as all chunks before it. With a smaller first chunk
// the device would begin sooner. But it would read data that is still in the caches of the
// cores, which is slow and hinders the workers. From the device, the last chunks are short,
// so that little is left to copy when the device is done. shared is true if workers copy,
// which may wait for a chunk to open.
func plan(n int64, toDevice bool, size, blockSize int, shared bool) []chunk {
	block, most := int64(blockSize), int64(size)
	chunks := make([]chunk, 0, min(n/most+16, n/block+1))
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
		if shared {
			chunks[i].opened = make(chan struct{})
		}
	}
	return chunks
}

// planCrowded divides n bytes into chunks of size bytes. One goroutine copies each, while
// the device works for other transfers.
func planCrowded(n, size, block int64) []chunk {
	chunks := make([]chunk, (n+size-1)/size)
	for i := range chunks {
		c := &chunks[i]
		c.off = int64(i) * size
		c.n = min(size, n-c.off)
		c.first, c.blocks = c.off/block, (c.n+block-1)/block
		c.left.Store(c.blocks)
	}
	return chunks
}
