package pin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Source is where a pool takes its memory from. Its functions are called without locks
// besides Pool.sourceLock, which allows one Take at a time.
type Source struct {
	Take func(ctx context.Context, bytes uintptr) (Segment, error)
	Site func() string // the place in the program that asks
	Now  func() time.Duration
	Max  uintptr // bytes at most; 0 is no limit
	// Left, if not nil, returns how many bytes a limit outside of the pool has left. limited is false
	// without such a limit.
	Left func() (bytes int, limited bool)
	// Room, if not nil, returns a channel that is closed when a limit outside of the pool may have room
	// for a Take that has returned a *Limited.
	Room func() <-chan struct{}
	// Stayed is called when segments whose Close returned a *Stays are free in the pool again,
	// so that another Release finds them.
	Stayed func()
}

// Pool keeps page-locked memory. It is safe for concurrent use.
//
// A goroutine that had a block before uses the shard that the block came from. Others use
// the shard of their processor. sync.Pool knows that one: it mostly returns what was put
// on the same processor.
type Pool struct {
	source     Source
	sourceLock chan struct{} // capacity 1; full while a goroutine asks the source
	queue      queue
	set        Settings
	cached     int // classes below this one are cached
	own        int // classes below this one are cut for each cache: see Settings.OwnBytes

	shards    []shard
	mine      sync.Pool
	nextShard atomic.Uint32

	mu       sync.Mutex // guards what follows
	bins     bins
	segments map[*segment]struct{}
	inFlight blockQueue
	closed   bool
	stats    Stats // but for what the shards count
}

// NewPool makes a pool. It has no memory yet.
func NewPool(s Source, set Settings) *Pool {
	p := &Pool{source: s, sourceLock: make(chan struct{}, 1), queue: newQueue(), set: set,
		cached: classOf(set.SegmentBytes) + 1, own: classOf(set.OwnBytes) + 1,
		shards: make([]shard, set.ShardsPerProcessor*runtime.GOMAXPROCS(0)), segments: map[*segment]struct{}{}}
	p.mine.New = func() any { return &p.shards[int(p.nextShard.Add(1))%len(p.shards)] }
	return p
}

// shard returns the shard of this processor.
func (p *Pool) shard() *shard {
	s := p.mine.Get().(*shard)
	p.mine.Put(s)
	return s
}

// lock locks a shard: the one that a block came from if it is not locked, and otherwise
// the one of this processor.
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

// Get returns a block of at least n bytes, 1 to 2^46. Its memory has any contents. If the
// pool has none, it asks the source. The block before is one that the caller has had, or
// nil. It helps to find the next one faster, though another goroutine may have it now.
func (p *Pool) Get(ctx context.Context, n uintptr, before *Block) (*Block, error) {
	if n == 0 || n > maxBlock {
		return nil, &Error{n, AnyNode, fmt.Sprintf("a block cannot have %d bytes", n), "ask for 1 byte to 64 TiB", cu.ErrorInvalidValue}
	}
	c := classOf(n)
	s := p.lock(before)
	b := s.take(c)
	if b != nil {
		s.got += uint64(b.Bytes)
		s.hits++
	}
	s.mu.Unlock()
	if b == nil {
		var err error
		if b, err = p.miss(ctx, c); err != nil {
			return nil, err
		}
		s.count(b, false)
	}
	if b.home.Load() != s {
		b.home.Store(s)
	}
	return b, nil
}

// Put takes back a block that is no longer in use. It returns an error if the pool is
// closed and the source does not take the memory back.
func (p *Pool) Put(b *Block) error {
	if p.cache(b) {
		return nil
	}
	closed := p.end(b)
	p.queue.returned()
	if closed {
		return p.release(0)
	}
	return nil
}

// cache puts a block into a cache. It is false when the block is too large or the cache
// is closed.
func (p *Pool) cache(b *Block) bool {
	s := p.lock(b)
	s.given += uint64(b.Bytes)
	ok := !s.closed && b.class < p.cached
	if ok {
		s.add(b)
	}
	s.mu.Unlock()
	if ok {
		p.queue.returned()
	}
	return ok
}

// end makes a block a free extent. It reports whether the pool is closed.
func (p *Pool) end(b *Block) (closed bool) {
	b.retire()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bins.put(b.extent)
	return p.closed
}

// PutInFlight takes back a block that the device may still use. Others get it once its
// owner is idle. The pool asks the owner when it runs short.
func (p *Pool) PutInFlight(b *Block) {
	p.putInFlight(b)
	p.queue.returned()
}

// putInFlight implements PutInFlight, without telling those who wait.
func (p *Pool) putInFlight(b *Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight.add(b)
	p.stats.InFlight += b.Bytes
}

// takeInFlight removes the block that has been in flight for longest.
func (p *Pool) takeInFlight() *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.inFlight.take()
	if b != nil {
		p.stats.InFlight -= b.Bytes
	}
	return b
}

// inFlightBlocks returns how many blocks are in flight.
func (p *Pool) inFlightBlocks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight.n
}

// Poll takes back the blocks that are in flight no longer. It does not wait.
func (p *Pool) Poll() error {
	_, err := p.poll(context.Background(), p.inFlightBlocks(), -1)
	p.queue.returned()
	return err
}

// poll asks the owners of up to n blocks in flight, the oldest first, and takes back those
// that are idle. The first of class c ends the search, and the caller gets it. The end of ctx
// ends it, too: with many blocks it takes long.
func (p *Pool) poll(ctx context.Context, n, c int) (found *Block, failed error) {
	for ; n > 0 && ctx.Err() == nil; n-- {
		b := p.takeInFlight()
		switch {
		case b == nil:
			return nil, failed
		case !b.Owner.Idle():
			p.putInFlight(b)
		case b.class == c:
			p.shard().count(b, true)
			return b, failed
		default:
			if err := p.Put(b); err != nil {
				failed = err
			}
		}
	}
	return nil, failed
}

// Drain takes back all blocks in flight. It calls wait for the owner of each. A block for
// which wait fails stays in flight.
func (p *Pool) Drain(wait func(Owner) error) error {
	var failed error
	for n := p.inFlightBlocks(); n > 0; n-- {
		b := p.takeInFlight()
		if b == nil {
			break
		}
		err := wait(b.Owner)
		if err == nil {
			err = p.Put(b)
		} else {
			p.PutInFlight(b)
		}
		if err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// lockSource waits until no other goroutine asks the source, or ctx ends. After nil the
// caller must unlockSource.
func (p *Pool) lockSource(ctx context.Context) error {
	select {
	case p.sourceLock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Pool) unlockSource() { <-p.sourceLock }

// miss finds a block that the cache of this processor lacks: among blocks in flight, free
// extents and other caches, and from the source.
func (p *Pool) miss(ctx context.Context, c int) (*Block, error) {
	if b := p.search(ctx, c, p.set.PollBlocks); b != nil {
		return b, nil
	}
	if err := p.lockSource(ctx); err != nil {
		return nil, err
	}
	defer p.unlockSource()
	return p.missLocked(ctx, c)
}

// missLocked is miss for a caller that holds p.sourceLock.
func (p *Pool) missLocked(ctx context.Context, c int) (*Block, error) {
	if b := p.search(ctx, c, 0); b != nil { // another goroutine has asked the source meanwhile
		return b, nil
	}
	if b, _ := p.poll(ctx, p.inFlightBlocks(), c); b != nil {
		return b, nil
	}
	if b := p.searchAll(c); b != nil {
		return b, nil
	}
	if err := ctx.Err(); err != nil { // blocks may be idle that were not polled
		return nil, err
	}
	return p.grow(ctx, c)
}

// search looks for a block everywhere but in the source. It polls up to n blocks in flight,
// and skips caches that are locked.
func (p *Pool) search(ctx context.Context, c, n int) *Block {
	if c >= p.own {
		if b := p.steal(c); b != nil {
			return b
		}
	}
	// Errors of polling are those of closed pools, where the search finds nothing.
	if b, _ := p.poll(ctx, n, c); b != nil {
		return b
	}
	if n > 0 {
		p.queue.returned() // a request that waits may not have seen the blocks that were polled
	}
	if b := p.cut(c); b != nil || c >= p.own {
		return b
	}
	return p.steal(c)
}

// steal takes a block out of another cache, and moves some more to the cache of this
// processor for the next call. It begins at a random cache, and skips those that are
// locked. It holds both locks, so that no block is ever outside of all caches.
func (p *Pool) steal(c int) *Block {
	if c >= p.cached {
		return nil
	}
	to := p.lock(nil)
	defer to.mu.Unlock()
	n := len(p.shards)
	first := int(rand.Uint32()) % n
	for i := range n {
		from := &p.shards[(first+i)%n]
		if from == to || !from.mu.TryLock() {
			continue
		}
		b := from.take(c)
		if b != nil && !to.closed {
			from.move(to, c, p.set.StealBlocks)
		}
		from.mu.Unlock()
		if b != nil {
			to.hits++
			return b
		}
	}
	return nil
}

// searchAll looks for a block while it holds all locks, so that no block moves meanwhile.
// If there is none, but all free memory together might hold one, searchAll empties the
// caches into the free extents.
func (p *Pool) searchAll(c int) *Block {
	b, cached := p.look(c)
	if b != nil || cached == 0 {
		return b
	}
	p.mu.Lock()
	enough := cached+p.bins.bytes >= sizeOf(c)
	p.mu.Unlock()
	if !enough {
		return nil
	}
	p.emptyCaches(false)
	return p.cut(c)
}

// look takes a block of class c out of any cache or free extent. It holds the locks of all
// caches. It returns how many bytes are cached.
func (p *Pool) look(c int) (found *Block, cached uintptr) {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		defer s.mu.Unlock()
		cached += s.bytes
		if found == nil && c < p.cached {
			if found = s.take(c); found != nil {
				s.hits++
			}
		}
	}
	if found == nil {
		found = p.cut(c)
	}
	return found, cached
}

// cut makes a block from a free extent. In a closed pool it makes none.
func (p *Pool) cut(c int) *Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutFree(c)
}

// cutFree implements cut. p.mu is held.
func (p *Pool) cutFree(c int) *Block {
	if p.closed {
		return nil
	}
	e := p.bins.take(c)
	if e == nil {
		return nil
	}
	return &Block{Start: at(e.segment.Start(), e.off), Bytes: e.bytes, class: c, extent: e}
}

// emptyCaches moves all cached blocks to the free extents. With closing, the caches accept
// no blocks any more.
func (p *Pool) emptyCaches(closing bool) {
	for i := range p.shards {
		for b := p.shards[i].takeAll(closing); b != nil; {
			next := b.next
			b.next = nil
			p.end(b)
			b = next
		}
	}
}

// grow takes memory from the source for a block of class c. If there is not enough, it
// gives back what is free and tries again with what the block needs. p.sourceLock is held.
func (p *Pool) grow(ctx context.Context, c int) (*Block, error) {
	need := roundUp(sizeOf(c), pageBytes)
	b, err := p.takeSegment(ctx, p.segmentBytes(need), c)
	if errors.Is(err, cu.ErrorOutOfMemory) {
		p.emptyCaches(false)
		if failed := await.Within(ctx, p.Release); failed != nil { // the driver may wait for the device
			if limited, ok := errors.AsType[*Limited](err); ok {
				err = limited.Err // no reason to wait
			}
			return nil, errors.Join(err, failed)
		}
		b, err = p.takeSegment(ctx, need, c)
	}
	if oplog.On() && waits(err) && waits(p.mayTake(need)) { // no limit outside of the pool
		oplog.Say(slog.LevelWarn, oplog.Limit, "limit of a pool", slog.Uint64("bytes", uint64(need)))
	}
	return b, err
}

// segmentBytes returns how much to take for a block of need bytes: a whole segment, if the limits
// allow it. Of what a limit outside of the pool has left it takes a quarter at most, because others
// need some, too.
func (p *Pool) segmentBytes(need uintptr) uintptr {
	segment := p.set.SegmentBytes
	if need >= segment {
		return need
	}
	if p.source.Left != nil {
		if left, limited := p.source.Left(); limited {
			segment = min(segment, max(need, uintptr(left)/4&^(pageBytes-1)))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.source.Max > 0 && p.stats.Pinned+segment > p.source.Max && p.stats.Pinned+need <= p.source.Max {
		return (p.source.Max - p.stats.Pinned) &^ (pageBytes - 1)
	}
	return segment
}

// Warm takes bytes from the source now, for blocks that are needed later.
func (p *Pool) Warm(ctx context.Context, bytes uintptr) error {
	if bytes == 0 {
		return nil
	}
	if bytes > maxBlock {
		return &Error{bytes, AnyNode, "more than memory can be", "ask for less", cu.ErrorOutOfMemory}
	}
	if err := p.lockSource(ctx); err != nil {
		return err
	}
	defer p.unlockSource()
	_, err := p.takeSegment(ctx, roundUp(bytes, pageBytes), -1)
	return err
}

// takeSegment takes a segment from the source, and cuts a block of class c before others
// can. With c below 0 it cuts none. p.sourceLock is held.
func (p *Pool) takeSegment(ctx context.Context, bytes uintptr, c int) (*Block, error) {
	if err := p.mayTake(bytes); err != nil {
		return nil, err
	}
	begin := p.source.Now()
	got, err := p.source.Take(ctx, bytes)
	took := p.source.Now() - begin
	site := ""
	if err == nil {
		site = p.source.Site()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, limited := errors.AsType[*Limited](err); limited {
		return nil, err // the driver was not called
	}
	p.stats.Calls++
	p.stats.Driver += took
	if err != nil {
		return nil, err
	}
	s := &segment{Segment: got, site: site}
	s.first = &extent{segment: s, bytes: got.Bytes()}
	p.segments[s] = struct{}{}
	p.bins.add(s.first)
	p.stats.Pinned += got.Bytes()
	p.stats.MostPinned = max(p.stats.MostPinned, p.stats.Pinned)
	if c < 0 {
		return nil, nil
	}
	b := p.cutFree(c)
	if b == nil {
		return nil, errClosed // meanwhile
	}
	return b, nil
}

// mayTake returns an error if the pool may not take this many more bytes.
func (p *Pool) mayTake(bytes uintptr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch left := p.source.Max - min(p.source.Max, p.stats.Pinned); {
	case p.closed:
		return errClosed
	case p.source.Max > 0 && bytes > left:
		do := "close buffers, or raise the pool's limit"
		if bytes > p.source.Max {
			do = "take less, or raise the pool's limit"
		}
		return &Limited{&Error{bytes, AnyNode, fmt.Sprintf("the pool may have %s, %s are pinned already, and %s more are needed, in whole pages",
			refusal.Size(p.source.Max), refusal.Size(p.stats.Pinned), refusal.Size(bytes)), do, cu.ErrorOutOfMemory}, bytes <= p.source.Max}
	}
	return nil
}

// Release gives back what is free, as Put does in a closed pool. It is for memory that Put
// could not give back in a host function, and for what the driver did not free.
func (p *Pool) Release() error { return p.release(0) }

// Trim gives segments that are free as a whole back to the source, until no more than keep
// bytes are pinned.
func (p *Pool) Trim(keep uintptr) error {
	err := p.Poll()
	p.emptyCaches(false)
	p.queue.returned()
	return errors.Join(err, p.release(keep))
}

// release gives free segments back until keep bytes are pinned, or none is free. One that the
// source does not take back delays no other. In a host function it takes none.
func (p *Pool) release(keep uintptr) error {
	var failed error
	var stay []*segment // free again at the end, so that detach finds each of them once
	for {
		s := p.detach(keep)
		if s == nil {
			break
		}
		err := p.closeSegment(s)
		if errors.Is(err, cu.ErrorNotPermitted) {
			p.keep(s)
			failed = err
			break
		}
		if _, stays := errors.AsType[*Stays](err); stays {
			stay = append(stay, s)
		}
		if failed == nil {
			failed = err
		}
	}
	if len(stay) > 0 {
		p.keep(stay...)
		p.source.Stayed()
	}
	return failed
}

// closeSegment gives a segment back to the source, and counts it as gone unless it stays.
func (p *Pool) closeSegment(s *segment) error {
	begin := p.source.Now()
	err := s.Close()
	took := p.source.Now() - begin
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Calls++
	p.stats.Driver += took
	if _, stays := errors.AsType[*Stays](err); !stays && !errors.Is(err, cu.ErrorNotPermitted) {
		p.stats.Pinned -= s.Bytes()
		delete(p.segments, s)
		p.queue.returned()
	}
	return err
}

// keep makes segments that the source did not take back free extents again.
func (p *Pool) keep(all ...*segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range all {
		p.bins.add(s.first)
	}
	p.queue.returned()
}

// detach removes the free extent of a segment that is free as a whole, so that no block is
// cut from it.
func (p *Pool) detach(keep uintptr) *segment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stats.Pinned <= keep {
		return nil
	}
	for s := range p.segments {
		if s.first.free && s.first.whole() {
			p.bins.remove(s.first)
			return s
		}
	}
	return nil
}

// Close gives free segments back to the source. Put gives back the others, when their blocks
// are put. The owners of blocks in flight must be idle.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.sourceLock <- struct{}{} // waits for a segment that the source is giving now
	defer p.unlockSource()
	err := p.Poll() // which tells those who wait
	p.emptyCaches(true)
	return errors.Join(err, p.release(0))
}

// Stats returns what the pool has.
func (p *Pool) Stats() Stats {
	var got, given, hits uint64
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		got, given, hits = got+s.got, given+s.given, hits+s.hits
		s.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.stats
	out.Used, out.Hits = uintptr(got-given)-out.InFlight, hits
	bySite := map[string]uintptr{}
	for s := range p.segments {
		bySite[s.site] += s.Bytes()
	}
	for _, place := range slices.Sorted(maps.Keys(bySite)) {
		out.Sites = append(out.Sites, Site{place, bySite[place]})
	}
	slices.SortStableFunc(out.Sites, func(a, b Site) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}

func roundUp(n, to uintptr) uintptr { return (n + to - 1) / to * to }

// Stats is what a pool has and has done. Bytes are those of blocks, which are larger than
// what was asked for.
type Stats struct {
	Used       uintptr // by blocks that were got and not put
	InFlight   uintptr // by blocks that were put in flight
	Pinned     uintptr // from the source
	MostPinned uintptr
	Hits       uint64        // blocks that were found in a cache
	Calls      int           // of the source: segments taken and given back
	Driver     time.Duration // in those calls
	Sites      []Site        // for which the source gave what the pool has now, the largest first
}

// Site is a place in a program and the bytes that were pinned for it.
type Site struct {
	Place string
	Bytes uintptr
}
