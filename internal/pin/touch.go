package pin

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// maxWorkers bounds how many goroutines touch memory. Twelve do it about as fast as
// an H200's host can; many more would only be in the way of others.
const maxWorkers = 16

// pageBytes is the size of a small page.
var pageBytes = uintptr(os.Getpagesize())

// touching is memory being touched, an extent of the size of a huge page at a time.
type touching struct {
	ctx     context.Context
	m       *Memory
	huge    bool
	extent  uintptr
	next    atomic.Uint64
	pieces  []progress
	workers sync.WaitGroup
}

// progress is how far a piece has come.
type progress struct {
	left atomic.Int64 // extents
	done chan struct{}
}

// touch has memory touched, from the start on, until ctx ends.
func (m *Memory) touch(ctx context.Context, machine *Machine, r Request, huge bool) *touching {
	t := &touching{ctx: ctx, m: m, huge: huge && machine.Huge, extent: uintptr(machine.HugeBytes)}
	t.pieces = make([]progress, (m.bytes+m.piece-1)/m.piece)
	for i := range t.pieces {
		t.pieces[i].done = make(chan struct{})
		t.pieces[i].left.Store(int64((min(m.piece, m.bytes-uintptr(i)*m.piece) + t.extent - 1) / t.extent))
	}
	if !m.e.real {
		return t
	}
	var cpus []int // one processor is left to the one who registers
	workers := min(max(1, runtime.GOMAXPROCS(0)-1), maxWorkers, int((m.bytes+t.extent-1)/t.extent))
	if node, ok := machine.Node(r.Node); ok && len(machine.Nodes) > 1 && len(node.CPUs) > 0 {
		cpus = node.CPUs
		workers = min(workers, len(cpus))
	}
	for range workers {
		t.workers.Go(func() { t.work(cpus) })
	}
	return t
}

// work touches extents until there are no more.
func (t *touching) work(cpus []int) {
	if len(cpus) > 0 {
		defer t.m.e.sys.moveTo(cpus)()
	}
	for t.ctx.Err() == nil {
		off := (uintptr(t.next.Add(1)) - 1) * t.extent
		if off >= t.m.bytes {
			return
		}
		t.one(at(t.m.start, off), min(t.extent, t.m.bytes-off))
		if p := &t.pieces[off/t.m.piece]; p.left.Add(-1) == 0 {
			close(p.done)
		}
	}
}

// one touches an extent: one byte if that gave it a huge page, else one of each
// small page.
func (t *touching) one(p address, n uintptr) {
	touch(p)
	if t.huge && n == t.extent && t.m.e.sys.there(at(p, pageBytes)) {
		return
	}
	for off := pageBytes; off < n; off += pageBytes {
		touch(at(p, off))
	}
}

// until returns when the memory has been touched up to a place, a piece's end.
func (t *touching) until(ctx context.Context, off uintptr) error {
	if err := ctx.Err(); err != nil || !t.m.e.real {
		return err
	}
	select {
	case <-t.pieces[(off-1)/t.m.piece].done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait returns when nobody touches any more.
func (t *touching) wait() { t.workers.Wait() }
