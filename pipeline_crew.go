package ferry

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/internal/stage"
)

// crewBlock is what one goroutine of a crew copies at a time.
const crewBlock = 256 << 10

// crew is goroutines that copy between plain memory and page-locked chunks, block by block
// in the order in which that is asked for: all work on the chunk that was first.
type crew struct {
	blocks chan haulBlock
	all    sync.WaitGroup
}

// haul is a copy of one chunk, from or to memory at an offset.
type haul struct {
	memory stage.Memory
	chunk  []byte
	off    int
	in     bool
	left   atomic.Int64 // blocks
	err    atomic.Pointer[error]
	done   chan struct{}
}

// haulBlock is a block of a haul, which begins at a byte of the chunk.
type haulBlock struct {
	of   *haul
	from int
}

func newCrew(depth int) *crew {
	c := &crew{blocks: make(chan haulBlock, 64*depth)}
	for range max(2, runtime.GOMAXPROCS(0)-1) { // one processor for who queues and waits
		c.all.Go(func() {
			for b := range c.blocks {
				b.copy()
				runtime.Gosched()
			}
		})
	}
	return c
}

// close ends the goroutines. Nobody may be copying.
func (c *crew) close() {
	close(c.blocks)
	c.all.Wait()
}

// copy copies the chunk and returns when that is done. Memory that cannot be accessed is
// an error.
func (h *haul) copy(c *crew) error {
	h.err.Store(nil)
	if h.done == nil {
		h.done = make(chan struct{}, 1)
	}
	h.left.Store(int64((len(h.chunk) + crewBlock - 1) / crewBlock))
	for from := 0; from < len(h.chunk); from += crewBlock {
		c.blocks <- haulBlock{h, from}
	}
	<-h.done
	if err := h.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (b haulBlock) copy() {
	h := b.of
	part, off := h.chunk[b.from:min(b.from+crewBlock, len(h.chunk))], int64(h.off+b.from)
	var err error
	if h.in {
		_, err = h.memory.ReadAt(part, off)
	} else {
		_, err = h.memory.WriteAt(part, off)
	}
	if err != nil {
		h.err.Store(&err)
	}
	if h.left.Add(-1) == 0 {
		h.done <- struct{}{}
	}
}
