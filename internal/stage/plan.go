package stage

import (
	"runtime"
	"sync/atomic"
	"time"
)

// chunk is a part of a transfer that one copy of the device moves.
type chunk struct {
	off, n int64
	first  int64 // number of its first block, counted over all chunks
	blocks int64

	state  atomic.Uint32 // closed, then open or failed
	opened chan struct{} // closed when it is not closed any more; nil if nobody waits for that
	left   atomic.Int64  // blocks to be copied
	slot   *slot         // what the leader sets before it is open
	over   bool          // its slot is not the transfer's any more; transfer.mu guards it

	// The leader's:
	queued   bool // the device has it
	finished bool // all blocks have been seen to
}

// become opens a chunk, or lets it fail. It is false if it has become something before.
func (c *chunk) become(state uint32) bool {
	changed := c.state.CompareAndSwap(closed, state)
	if changed && c.opened != nil {
		close(c.opened)
	}
	return changed
}

// opens waits until a chunk is open, and says whether it is. One who waits looks again
// and again at first, as to wake one who sleeps takes as long as a quarter of a chunk.
func (c *chunk) opens(crowded bool) bool {
	var begin time.Time
	for i := 0; ; i++ {
		if s := c.state.Load(); s != closed {
			return s == open
		}
		switch {
		case i == 0:
			begin = time.Now()
		case i%glances == 0 && time.Since(begin) > spinTime:
			<-c.opened
		default:
			pause(i, crowded)
		}
	}
}

// pause takes some 20 nanoseconds. Now and then it lets others have the processor:
// often where they have none, seldom elsewhere, as all who wait would queue for the
// scheduler.
func pause(i int, crowded bool) {
	if i%glances == glances-1 || crowded && i%16 == 15 {
		runtime.Gosched()
	}
	for range 50 {
		pauses.Load()
	}
}

var pauses atomic.Uint32

// glances is how many pauses there are until one who waits looks around.
const glances = 4096

// plan cuts n bytes into chunks of at most set.Chunk. Towards the device the first is
// an eighth of all, or half a chunk, and the next as long as what is before it: a device
// that begins sooner, with less, reads what is still in the cores' own caches, slowly, and
// hinders those who fill the ring. From the device the last ones are short, so that
// little is left to do when it ends. crewed says that others than the leader copy.
func plan(n int64, in bool, set Settings, crewed bool) []chunk {
	block, most := int64(set.Block), int64(set.Chunk)
	chunks := make([]chunk, 0, min(n/most+16, n/block+1))
	first := int64(0)
	for off := int64(0); off < n; {
		size := max(off, min(n/8, most/2))
		if !in {
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
		if crewed {
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
