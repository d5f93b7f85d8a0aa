package pin

import (
	"context"
	"sync"
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
	// Waiter returns a function that waits until the device is done with the block, or ctx ends. It is
	// called while the block is in flight in the pool, and does not wait itself.
	Waiter() func(ctx context.Context) error
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

// blockQueue holds blocks in the order in which they were added.
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

// shard is a cache of blocks. mu guards all of it.
type shard struct {
	mu         sync.Mutex
	free       [classes]*Block
	closed     bool
	bytes      uintptr  // of the blocks in free
	got, given uint64   // bytes of the blocks that Get gave and Put took, since the start
	hits       uint64   // blocks that were found in a cache
	_          [64]byte // so that the next shard has other cache lines
}

// take removes a block of class c. It returns nil if there is none. s.mu is held.
func (s *shard) take(c int) *Block {
	b := s.free[c]
	if b != nil {
		s.free[c], b.next = b.next, nil
		s.bytes -= b.Bytes
	}
	return b
}

// add adds a block. s.mu is held.
func (s *shard) add(b *Block) {
	b.next, s.free[b.class] = s.free[b.class], b
	s.bytes += b.Bytes
}

// count counts a block that Get found elsewhere, or one in flight that was given back.
func (s *shard) count(b *Block, back bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if back {
		s.given += uint64(b.Bytes)
		s.hits++
	} else {
		s.got += uint64(b.Bytes)
	}
}

// move moves up to n blocks of a class to another shard. The locks of both are held.
func (s *shard) move(to *shard, c, n int) {
	for range n {
		b := s.take(c)
		if b == nil {
			break
		}
		to.add(b)
	}
}

// takeAll removes all blocks. With closing, the shard accepts no blocks any more.
func (s *shard) takeAll(closing bool) (list *Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = s.closed || closing
	for c := range s.free {
		for s.free[c] != nil {
			b := s.free[c]
			s.free[c] = b.next
			b.next, list = list, b
		}
	}
	s.bytes = 0
	return list
}
