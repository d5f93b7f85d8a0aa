package pin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Block is memory of a pool that somebody has, or that lies in a cache.
type Block struct {
	Start cu.HostPtr
	Bytes uintptr
	// Owner is what the user of the pool keeps with the block for as long as it is
	// one, cached or not.
	Owner Owner

	class  int
	extent *extent
	next   *Block // in a list
	home   atomic.Pointer[shard]
}

// Owner is whoever uses a block.
type Owner interface {
	// Passed says whether the hardware is done with the block. It does not wait.
	Passed() bool
	// Retire tells that the block is none any more.
	Retire()
}

// retire tells the owner, if the block has got one.
func (b *Block) retire() {
	if b.Owner != nil {
		b.Owner.Retire()
	}
}

// Cuts is where in the block one registration ends and the next begins.
func (b *Block) Cuts() []uintptr {
	var cuts []uintptr
	for _, c := range b.extent.chunk.Cuts() {
		if c > b.extent.off && c < b.extent.off+b.Bytes {
			cuts = append(cuts, c-b.extent.off)
		}
	}
	return cuts
}

// Source is where a pool has its memory from. Its functions are called without
// locks, Take one at a time.
type Source struct {
	Take func(ctx context.Context, bytes uintptr) (Chunk, error)
	Site func() string // who is asking
	Now  func() time.Duration
	Max  uintptr // bytes at most; 0 for no limit
}

// chunkBytes is what a pool takes at least.
const chunkBytes = 32 << 20

// cachedClasses have blocks of up to 32 MiB in the caches. Larger ones are joined
// at once with what is free beside them.
var cachedClasses = classOf(chunkBytes) + 1

// Pool keeps page-locked memory. It is safe for concurrent use.
type Pool struct {
	source Source
	turn   chan struct{} // of room 1: whoever asks the source has it

	// Whoever had a block before goes to the shard where that came from. Others go to
	// the one of their processor: sync.Pool knows which, as it keeps what a processor
	// put, mostly.
	shards []shard
	mine   sync.Pool
	fresh  atomic.Uint32 // shards given out

	mu     sync.Mutex
	bins   bins
	chunks map[*chunk]struct{}
	late   queue // put, but in flight
	closed bool
	stats  Stats // of what is under mu
}

// shard is a cache of blocks.
type shard struct {
	mu           sync.Mutex
	free         [classes]*Block
	closed       bool
	bytes        uintptr // in free
	taken, given uint64  // bytes of blocks, all so far
	hits         uint64
	_            [64]byte // the next one is on another cache line
}

// NewPool makes a pool. It has no memory yet.
func NewPool(s Source) *Pool {
	const spare = 4 // so that two seldom have the same
	p := &Pool{source: s, turn: make(chan struct{}, 1), shards: make([]shard, spare*runtime.GOMAXPROCS(0)), chunks: map[*chunk]struct{}{}}
	p.mine.New = func() any { return &p.shards[int(p.fresh.Add(1))%len(p.shards)] }
	return p
}

// shard is the one of this processor.
func (p *Pool) shard() *shard {
	s := p.mine.Get().(*shard)
	p.mine.Put(s)
	return s
}

// lock locks a shard: that where a block came from, if nobody is there, or else that
// of this processor.
func (p *Pool) lock(before *Block) *shard {
	if before != nil {
		if s := before.home.Load(); s != nil && s.mu.TryLock() {
			return s
		}
	}
	s := p.shard()
	s.mu.Lock()
	return s
}

// Get gives a block of at least n bytes, 1 to 2^46, whose contents are anybody's.
// Where the pool has none, it asks the source. A block that the caller had before,
// if there is one, helps to find the next faster; it may be anybody's now.
func (p *Pool) Get(ctx context.Context, n uintptr, before *Block) (*Block, error) {
	if n == 0 || n > largest {
		return nil, &Error{n, AnyNode, fmt.Sprintf("%d bytes are no size of a block", n), "ask for 1 byte to 64 TiB", cu.ErrorInvalidValue}
	}
	c := classOf(n)
	s := p.lock(before)
	b := s.free[c]
	if b != nil {
		s.take(b)
		s.taken += uint64(b.Bytes)
		s.hits++
	}
	s.mu.Unlock()
	if b == nil {
		var err error
		if b, err = p.miss(ctx, c); err != nil {
			return nil, err
		}
		s.count(b)
	}
	if b.home.Load() != s {
		b.home.Store(s)
	}
	return b, nil
}

// take takes the first block of its class out of the cache. s.mu is held.
func (s *shard) take(b *Block) {
	s.free[b.class], b.next = b.next, nil
	s.bytes -= b.Bytes
}

// count notes a block that did not come from the cache.
func (s *shard) count(b *Block) {
	s.mu.Lock()
	s.taken += uint64(b.Bytes)
	s.mu.Unlock()
}

// push puts a block into a cache. It is false when the cache takes no more.
func (p *Pool) push(b *Block) bool {
	s := p.lock(b)
	s.given += uint64(b.Bytes)
	ok := !s.closed && b.class < cachedClasses
	if ok {
		b.next, s.free[b.class] = s.free[b.class], b
		s.bytes += b.Bytes
	}
	s.mu.Unlock()
	return ok
}

// Put takes a block back that nobody uses any more. The error is that of giving
// memory back, if the pool is closed.
func (p *Pool) Put(b *Block) error {
	if p.push(b) {
		return nil
	}
	b.retire()
	p.mu.Lock()
	p.bins.give(b.extent)
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return p.release(0)
	}
	return nil
}

// PutLater takes a block back that is good for others once its owner says that it
// has passed, which the pool asks when it runs short.
func (p *Pool) PutLater(b *Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late.add(b)
	p.stats.Late += b.Bytes
}

// queue is blocks in the order in which they came.
type queue struct {
	first, last *Block
	n           int
}

func (q *queue) add(b *Block) {
	b.next = nil
	if q.last == nil {
		q.first = b
	} else {
		q.last.next = b
	}
	q.last = b
	q.n++
}

// next takes the first block out; nil if there is none.
func (q *queue) next() *Block {
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

// nextLate takes the first of those that were put late.
func (p *Pool) nextLate() *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.late.next()
	if b != nil {
		p.stats.Late -= b.Bytes
	}
	return b
}

// Poll takes back what has passed by now. It does not wait.
func (p *Pool) Poll() error {
	p.mu.Lock()
	n := p.late.n
	p.mu.Unlock()
	_, err := p.poll(n)
	return err
}

// poll asks up to n of those that were put late, the longest ago first, and says how
// many it took back.
func (p *Pool) poll(n int) (took int, failed error) {
	for ; n > 0; n-- {
		b := p.nextLate()
		if b == nil {
			break
		}
		if !b.Owner.Passed() {
			p.PutLater(b)
			continue
		}
		took++
		if err := p.Put(b); err != nil {
			failed = err
		}
	}
	return took, failed
}

// Drain takes back all that was put late, when wait has waited for it. What wait
// could not wait for stays.
func (p *Pool) Drain(wait func(Owner) error) error {
	p.mu.Lock()
	n := p.late.n
	p.mu.Unlock()
	var failed error
	for ; n > 0; n-- {
		b := p.nextLate()
		if b == nil {
			break
		}
		err := wait(b.Owner)
		if err == nil {
			err = p.Put(b)
		} else {
			p.PutLater(b)
		}
		if err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// fewLate is how many of those put late are asked for a block that may be had
// elsewhere.
const fewLate = 4

// miss finds a block that this processor's cache lacks: among what has passed, among
// free extents, in other caches, and from the source.
func (p *Pool) miss(ctx context.Context, c int) (*Block, error) {
	if b := p.search(c); b != nil {
		return b, nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.turn }()
	if b := p.search(c); b != nil { // somebody else had the turn
		return b, nil
	}
	if p.gather(sizeOf(c)) {
		if b := p.cut(c); b != nil {
			return b, nil
		}
	}
	return p.grow(ctx, c)
}

// ownClasses have blocks of up to 1 MiB, of which each cache gets its own while there
// are free extents. Caches that share what all users together have at most would be
// short of blocks by turns, and everybody would look through everybody's for ever.
var ownClasses = classOf(chunkBytes/32) + 1

// search looks everywhere but in the source. Errors of polling are those of closed
// pools, which find nothing.
func (p *Pool) search(c int) *Block {
	if c >= ownClasses {
		if b := p.steal(c); b != nil {
			return b
		}
	}
	if took, _ := p.poll(fewLate); took == 0 && c < ownClasses {
		if b := p.cut(c); b != nil {
			return b
		}
	}
	if b := p.find(c); b != nil {
		return b
	}
	_ = p.Poll()
	return p.find(c)
}

// find is a block of class c from any cache or free extent.
func (p *Pool) find(c int) *Block {
	if b := p.steal(c); b != nil {
		return b
	}
	return p.cut(c)
}

// stolenAtOnce is how many blocks more are moved to one's own cache when another has
// them: looking through the caches costs as much for one as for several.
const stolenAtOnce = 16

// steal takes a block out of any cache, and some more for the next time. Thieves
// begin at different caches, and pass by those where somebody is.
func (p *Pool) steal(c int) *Block {
	if c >= cachedClasses {
		return nil
	}
	n := len(p.shards)
	first := int(rand.Uint32()) % n
	for i := range n {
		s := &p.shards[(first+i)%n]
		if !s.mu.TryLock() {
			continue
		}
		list := s.several(c)
		if list != nil {
			s.hits++
		}
		s.mu.Unlock()
		if list != nil {
			rest := list.next
			list.next = nil
			p.keep(rest)
			return list
		}
	}
	return nil
}

// several takes a few blocks of a class out of the cache. s.mu is held.
func (s *shard) several(c int) (list *Block) {
	for range 1 + stolenAtOnce {
		b := s.free[c]
		if b == nil {
			break
		}
		s.take(b)
		b.next, list = list, b
	}
	return list
}

// keep puts blocks that another cache had into this processor's.
func (p *Pool) keep(list *Block) {
	if list == nil {
		return
	}
	s := p.lock(nil)
	closed := s.closed
	for !closed && list != nil {
		b := list
		list, b.next = b.next, s.free[b.class]
		s.free[b.class] = b
		s.bytes += b.Bytes
	}
	s.mu.Unlock()
	for list != nil { // the pool was closed meanwhile
		b := list
		list, b.next = b.next, nil
		p.dissolve(b)
	}
}

// dissolve makes a block a free extent.
func (p *Pool) dissolve(b *Block) {
	b.retire()
	p.mu.Lock()
	p.bins.give(b.extent)
	p.mu.Unlock()
}

// cut makes a block of a free extent; a closed pool makes none.
func (p *Pool) cut(c int) *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	e := p.bins.take(c)
	if e == nil {
		return nil
	}
	return &Block{Start: at(e.chunk.Start(), e.off), Bytes: e.bytes, class: c, extent: e}
}

// gather empties the caches into the free extents, if all that is free together
// could make up so many bytes.
func (p *Pool) gather(bytes uintptr) bool {
	cached := uintptr(0)
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		cached += s.bytes
		s.mu.Unlock()
	}
	p.mu.Lock()
	enough := cached > 0 && cached+p.bins.bytes >= bytes
	p.mu.Unlock()
	if enough {
		p.empty(false)
	}
	return enough
}

// empty moves what is cached to the free extents. The caches may be closed for good.
func (p *Pool) empty(closing bool) {
	for i := range p.shards {
		for b := p.shards[i].drain(closing); b != nil; {
			next := b.next
			b.next = nil
			p.dissolve(b)
			b = next
		}
	}
}

// drain takes all blocks out of the cache.
func (s *shard) drain(closing bool) (list *Block) {
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
