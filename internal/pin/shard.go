package pin

import "sync"

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

// count counts a block that Get found elsewhere.
func (s *shard) count(b *Block) {
	s.mu.Lock()
	s.got += uint64(b.Bytes)
	s.mu.Unlock()
}

// takeSeveral removes up to n blocks of a class. s.mu is held.
func (s *shard) takeSeveral(c, n int) (list *Block) {
	for range n {
		b := s.take(c)
		if b == nil {
			break
		}
		b.next, list = list, b
	}
	return list
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
