//go:build race || hosttsan

package softgpu

import (
	"slices"
	"sync/atomic"

	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// Unsafe: Nothing is converted: the file belongs to those that talk to the race detector
// about raw memory.

// raceWorkers is the number of cores that run a kernel: one, which reports all
// accesses in one order.
const raceWorkers = 1

// raceKernel holds the accesses of a launch that were not reported to the
// detector yet.
type raceKernel struct {
	op    *raceOp
	count *atomic.Uint64
	log   []raceAccess
	plain bool // something was read or written since the last report

	updates int // atomic operations on mapped memory without native host atomics

	signalled map[raceAccess]bool // signals since then
}

// raceSegment watches one region.
type raceSegment struct {
	k    *raceKernel
	p    uintptr // address of the region, which stays valid while the kernel runs
	host bool
	lost bool // updates of the host can be lost during an atomic operation of the kernel
}

const (
	raceLogSize     = 1024 // accesses in one report
	raceMergeWindow = 8    // an access is merged with one of this many before it, if they are adjacent
)

// raceWatch starts to watch the kernel of o.
func (v *view) raceWatch(o *op) {
	v.race = &raceKernel{op: o.race, count: &v.count, log: make([]raceAccess, 0, raceLogSize), signalled: map[raceAccess]bool{}}
}

// accessCount returns a number that grows while the kernel makes progress.
func (v *view) accessCount() uint64 { return v.count.Load() }

// raceEnd reports the remaining accesses.
func (v *view) raceEnd() { v.race.report() }

// watch returns the watch of r, or nil if the detector cannot see its memory.
func (v *view) watch(r *region) simt.Watch {
	if !r.kind.onHost() && len(r.data) > raceVisible {
		return nil
	}
	mapped := r.kind == kindHost || r.kind == kindRegistered
	return &raceSegment{k: v.race, p: uintptr(pointerTo(r.data)), host: r.kind.onHost(), lost: mapped && !v.nativeAtomics()}
}

// watchOrdinary watches ordinary memory.
func (v *view) watchOrdinary(s *simt.Segment) {
	s.Pages = simt.NewPages(1, 63, false)
	s.Pages.Watch = &raceSegment{k: v.race, p: uintptr(s.Base), host: true}
}

// raceUpdates is the number of atomic operations of a launch on mapped memory that are each
// reported to the race detector. Of those after them, every raceUpdates-th is reported.
const raceUpdates = 1000

// Touch records an access. A release is reported before it happens, with all
// accesses before it. An acquire is reported some time after it, with the
// accesses that follow.
func (s *raceSegment) Touch(how simt.Touch, off, n uint64) {
	k, p, size := s.k, s.p+uintptr(off), uintptr(n)
	switch how {
	case simt.Read:
		k.merge(raceAccess{p: p, n: size, how: kernelRead})
	case simt.Write:
		k.merge(raceAccess{p: p, n: size, how: kernelWrite})
	case simt.Acquire:
		k.addOnce(raceAccess{p: p, n: size, how: kernelAcquire})
	case simt.Release:
		k.signal(raceAccess{p: p, n: size, how: s.release()}, true)
	case simt.Atomic: // in device memory most atomics only count, and no host code waits for them
		if s.lost {
			k.update(raceAccess{p: p, n: size, how: kernelUpdate})
		} else {
			k.signal(raceAccess{p: p, n: size, how: kernelRelease}, s.host)
		}
		k.addOnce(raceAccess{p: p, n: size, how: kernelAcquire})
	case simt.CompareAndSwap:
		k.signal(raceAccess{p: p, n: size, how: s.release()}, s.host)
		k.addOnce(raceAccess{p: p, n: size, how: kernelAcquire})
	}
}

// release returns how a release is reported. It must not be a race with the plain reads that
// updates of other kernels are reported as.
func (s *raceSegment) release() raceHow {
	if s.lost {
		return kernelLock
	}
	return kernelRelease
}

// update reports a, an atomic operation on mapped memory without native host atomics. The
// first ones are all reported, later ones as signal does.
func (k *raceKernel) update(a raceAccess) {
	k.updates++
	if k.updates < raceUpdates || k.updates%raceUpdates == 0 {
		delete(k.signalled, a)
	}
	k.signal(a, true)
}

// merge records a read or a write. It extends one of the last accesses if a is
// adjacent to it.
func (k *raceKernel) merge(a raceAccess) {
	k.plain = true
	k.count.Add(1)
	lo, end := a.p, a.p+a.n
	for i := len(k.log) - 1; i >= max(0, len(k.log)-raceMergeWindow); i-- {
		b := &k.log[i]
		first, past := b.p, b.p+b.n
		if b.how == kernelAcquire { // a happens after it
			break
		}
		if b.how == a.how && lo >= first && lo <= past {
			b.n = max(end, past) - first
			return
		}
	}
	k.add(a)
}

// addOnce records a unless it is among the last accesses.
func (k *raceKernel) addOnce(a raceAccess) {
	if !slices.Contains(k.log[max(0, len(k.log)-raceMergeWindow):], a) {
		k.add(a)
	}
}

// signal records a. If now is true it is also reported, because other code may
// read the memory and rely on the accesses before.
func (k *raceKernel) signal(a raceAccess, now bool) {
	if !now {
		k.addOnce(a)
		return
	}
	if k.plain {
		clear(k.signalled)
	} else if k.signalled[a] {
		return
	}
	k.add(a)
	k.report()
	k.signalled[a] = true
}

func (k *raceKernel) add(a raceAccess) {
	if len(k.log) == cap(k.log) {
		k.report()
	}
	k.log = append(k.log, a)
}

// report sends the log to the operation's goroutine, which reports it, and
// waits.
func (k *raceKernel) report() {
	if len(k.log) > 0 {
		k.op.request(raceRequest{log: k.log})
	}
	k.log, k.plain = k.log[:0], false
}
