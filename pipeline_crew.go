package ferry

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/internal/stage"
)

// crewBlock is what one goroutine of a crew copies at a time.
const crewBlock = 256 << 10

// crew is goroutines that copy between plain memory and page-locked chunks, block by block
// in the order in which that is asked for: all work on the chunk that was first.
type crew struct {
	blocks chan haulBlock
	awake  bool // they look for work for a while before they sleep: nobody else needs the processors
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

func newCrew(depth int, awake bool) *crew {
	c := &crew{blocks: make(chan haulBlock, 64*depth), awake: awake}
	for range max(2, runtime.GOMAXPROCS(0)-1) { // one processor for who queues and asks
		c.all.Go(func() {
			for {
				b, ok := c.next()
				if !ok {
					return
				}
				if b.copy() {
					runtime.Gosched() // for who waits for the chunk
				}
			}
		})
	}
	return c
}

// awakeTime is for how long they look: a chunk is copied in 100 us, and to wake one who
// sleeps takes half of that.
const awakeTime = 200 * time.Microsecond

// next is the next block; it is false when no more will come. Who looks does so past the
// scheduler, which has one lock.
func (c *crew) next() (b haulBlock, ok bool) {
	const looks = 4 << 10 // some 20 us
	for begin := time.Now(); c.awake && time.Since(begin) < awakeTime; runtime.Gosched() {
		for range looks {
			select {
			case b, ok = <-c.blocks:
				return b, ok
			default:
			}
		}
	}
	b, ok = <-c.blocks
	return b, ok
}

// close ends the goroutines. Nobody may be copying.
func (c *crew) close() {
	close(c.blocks)
	c.all.Wait()
}

// start has a crew copy the chunk.
func (h *haul) start(c *crew) {
	h.err.Store(nil)
	if h.done == nil {
		h.done = make(chan struct{}, 1)
	}
	h.left.Store(int64((len(h.chunk) + crewBlock - 1) / crewBlock))
	for from := 0; from < len(h.chunk); from += crewBlock {
		c.blocks <- haulBlock{h, from}
	}
}

// wait waits until the chunk is copied. Memory that cannot be accessed is an error.
func (h *haul) wait() error {
	<-h.done
	if err := h.err.Load(); err != nil {
		return *err
	}
	return nil
}

// copy copies the block and says whether it was the last of its chunk.
func (b haulBlock) copy() (last bool) {
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
	if last = h.left.Add(-1) == 0; last {
		h.done <- struct{}{}
	}
	return last
}
