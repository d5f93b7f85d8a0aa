//go:build race

package softgpu

import (
	"slices"
	"sync/atomic"

	"github.com/ferrygpu/ferry/internal/simt"
)

// raceWorkers is how many cores run a kernel: one, which then tells of all of its
// accesses in one order.
const raceWorkers = 1

// raceKernel is what a launch has touched and the detector was not told of yet.
type raceKernel struct {
	op    *raceOp
	count *atomic.Uint64
	log   []raceAccess
	plain bool // something was read or written since all was told

	signalled map[raceAccess]bool // since then
}

// raceSegment is the watch on one region.
type raceSegment struct {
	k    *raceKernel
	p    uintptr // where it is; the region stays while the kernel runs
	host bool
}

const (
	raceLogged = 1024 // accesses told of at once
	raceRecent = 8    // the last ones, that another is joined to if it is next to one
)

// raceWatch begins to watch what the kernel of o does.
func (v *view) raceWatch(o *op) {
	v.race = &raceKernel{op: o.race, count: &v.count, log: make([]raceAccess, 0, raceLogged), signalled: map[raceAccess]bool{}}
}

// told is a number that grows while the kernel gets on.
func (v *view) told() uint64 { return v.count.Load() }

// raceEnd tells of what is left.
func (v *view) raceEnd() { v.race.tell() }

// watch is the watch on r, nil where the detector would not see it.
func (v *view) watch(r *region) simt.Watch {
	if !r.kind.onHost() && len(r.data) > raceVisible {
		return nil
	}
	return &raceSegment{k: v.race, p: uintptr(pointerTo(r.data)), host: r.kind.onHost()}
}

// watchOrdinary watches ordinary memory.
func (v *view) watchOrdinary(s *simt.Segment) {
	s.Pages = simt.NewPages(1, 63, false)
	s.Pages.Watch = &raceSegment{k: v.race, p: uintptr(s.Base), host: true}
}

// Touch notes an access. What signals others is told of before it happens, with
// all that was before; what waits for others is told of some time after it, with
// all that comes behind.
func (s *raceSegment) Touch(how simt.Touch, off, n uint64) {
	k, p, size := s.k, s.p+uintptr(off), uintptr(n)
	switch how {
	case simt.Read:
		k.join(raceAccess{p: p, n: size, how: kernelRead})
	case simt.Write:
		k.join(raceAccess{p: p, n: size, how: kernelWrite})
	case simt.Acquire:
		k.once(raceAccess{p: p, n: size, how: kernelAcquire})
	case simt.Release:
		k.signal(raceAccess{p: p, n: size, how: kernelRelease}, true)
	case simt.Atomic: // in device memory they mostly count, and nobody waits for them
		k.signal(raceAccess{p: p, n: size, how: kernelRelease}, s.host)
		k.once(raceAccess{p: p, n: size, how: kernelAcquire})
	}
}

// join notes a read or a write, as part of one of the last if it is next to it.
func (k *raceKernel) join(a raceAccess) {
	k.plain = true
	k.count.Add(1)
	lo, end := a.p, a.p+a.n
	for i := len(k.log) - 1; i >= max(0, len(k.log)-raceRecent); i-- {
		b := &k.log[i]
		first, past := b.p, b.p+b.n
		if b.how == kernelAcquire { // a comes after it
			break
		}
		if b.how == a.how && lo >= first && lo <= past {
			b.n = max(end, past) - first
			return
		}
	}
	k.add(a)
}

// once notes a unless it is among the last.
func (k *raceKernel) once(a raceAccess) {
	if !slices.Contains(k.log[max(0, len(k.log)-raceRecent):], a) {
		k.add(a)
	}
}

// signal notes a, and tells of it now if somebody may look at it and learn
// something by it.
func (k *raceKernel) signal(a raceAccess, now bool) {
	if !now {
		k.once(a)
		return
	}
	if k.plain {
		clear(k.signalled)
	} else if k.signalled[a] {
		return
	}
	k.add(a)
	k.tell()
	k.signalled[a] = true
}

func (k *raceKernel) add(a raceAccess) {
	if len(k.log) == cap(k.log) {
		k.tell()
	}
	k.log = append(k.log, a)
}

// tell lets the operation's goroutine tell the detector, and waits for it.
func (k *raceKernel) tell() {
	if len(k.log) > 0 {
		k.op.ask(raceOrder{log: k.log})
	}
	k.log, k.plain = k.log[:0], false
}
