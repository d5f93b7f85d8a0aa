package pin

import (
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// Block is memory of a pool, from Get until it becomes free extents again. In between it
// may be put and got many times.
//
// The goroutine that has got the block owns Owner. next belongs to the list that the block
// is in, and so to the lock of that list. The other fields do not change, and home is
// atomic.
type Block struct {
	Start cu.HostPtr
	Bytes uintptr
	// Owner is what the user of the pool keeps with the block, also while the block is
	// cached.
	Owner Owner

	class  int
	extent *extent
	next   *Block
	home   atomic.Pointer[shard] // that it was got from last
}

// Owner is what uses a block.
type Owner interface {
	// Idle reports whether the device is done with the block. It does not wait.
	Idle() bool
	// Retire is called when the block ends: its memory becomes free extents.
	Retire()
}

// retire calls Retire if the block has an owner.
func (b *Block) retire() {
	if b.Owner != nil {
		b.Owner.Retire()
	}
}

// Boundaries returns where in the block one registration ends and the next begins, in
// bytes from the start.
func (b *Block) Boundaries() []uintptr {
	var all []uintptr
	for _, off := range b.extent.segment.Boundaries() {
		if off > b.extent.off && off < b.extent.off+b.Bytes {
			all = append(all, off-b.extent.off)
		}
	}
	return all
}

// blockQueue is blocks in the order in which they were added.
type blockQueue struct {
	first, last *Block
	n           int
}

func (q *blockQueue) add(b *Block) {
	b.next = nil
	if q.last == nil {
		q.first = b
	} else {
		q.last.next = b
	}
	q.last = b
	q.n++
}

// take removes the first block. It returns nil if there is none.
func (q *blockQueue) take() *Block {
	b := q.first
	if b == nil {
		return nil
	}
	if q.first, b.next = b.next, nil; q.first == nil {
		q.last = nil
	}
	q.n--
	return b
}
