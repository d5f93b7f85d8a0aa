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
	marks raceMarks
	used  []*raceSegment // with reads or writes since then

	updates int // atomic operations on mapped memory without native host atomics

	signalled map[raceAccess]bool // signals since then
}

// raceSegment watches one region.
type raceSegment struct {
	k    *raceKernel
	p    uintptr // address of the region, which stays valid while the kernel runs
	host bool
	lost bool // updates of the host can be lost during an atomic operation of the kernel

	runs  [2]raceRun // the last reads and writes since the last report
	whole uintptr    // the size of the region if the detector is told of it as a whole, else 0
}

// raceRun is a range of memory that was read, or written.
type raceRun struct{ from, to uintptr }

const (
	raceLogSize   = 1024 // accesses in one report
	raceLogWindow = 8    // an acquire or a release is left out if it is among this many accesses before it
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
	s := &raceSegment{k: v.race, p: uintptr(pointerTo(r.data)), host: r.kind.onHost(), lost: mapped && !v.nativeAtomics()}
	if v.drv.whole && !s.host { // in memory of the host, flags stand beside data
		s.whole = uintptr(len(r.data))
	}
	return s
}

// watchOrdinary watches ordinary memory.
func (v *view) watchOrdinary(s *simt.Segment) {
	s.Watch = &raceSegment{k: v.race, p: uintptr(s.Base), host: true}
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
	case simt.Read, simt.Write:
		s.plain(how, p, size)
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

// TouchLanes records reads or writes of lanes.
func (s *raceSegment) TouchLanes(how simt.Touch, offs [32]uint64, mask uint32, n uint64) {
	if s.whole != 0 {
		s.plain(how, s.p, 1)
		return
	}
	s.k.began()
	s.k.marks.addLanes(how == simt.Write, s.p, offs, mask, uintptr(n))
}

// plain records a read or a write. Of accesses in a row only the range is kept.
func (s *raceSegment) plain(how simt.Touch, p, n uintptr) {
	r := &s.runs[how&1]
	if r.to == p || r.from <= p && p+n <= r.to {
		r.to = max(r.to, p+n)
		return
	}
	s.k.began()
	if s.runs[0].to|s.runs[1].to == 0 {
		s.k.used = append(s.k.used, s)
	}
	if s.whole != 0 {
		p, n = s.p, s.whole
	} else if r.to != 0 {
		s.k.marks.add(how == simt.Write, r.from, r.to-r.from)
	}
	*r = raceRun{p, p + n}
}

// flush adds what was read and written since the last report to the log.
func (k *raceKernel) flush() {
	for _, s := range k.used {
		for how, r := range s.runs {
			switch write := how == int(simt.Write); {
			case r.to == 0:
			case s.whole == 0:
				k.marks.add(write, r.from, r.to-r.from)
			case write:
				k.add(raceAccess{p: r.from, n: s.whole, how: kernelWrite})
			case s.runs[simt.Write].to == 0: // a write conflicts with all that a read conflicts with
				k.add(raceAccess{p: r.from, n: s.whole, how: kernelRead})
			}
		}
		s.runs = [2]raceRun{}
	}
	k.used = k.used[:0]
	k.marks.flush(k.add)
}

// began notes that something is read or written that is not beside what was before.
func (k *raceKernel) began() {
	k.plain = true
	k.count.Add(1)
}

// addOnce records a unless it is among the last accesses.
func (k *raceKernel) addOnce(a raceAccess) {
	if !slices.Contains(k.log[max(0, len(k.log)-raceLogWindow):], a) {
		k.flush()
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
	k.flush()
	k.add(a)
	k.send()
	k.signalled[a] = true
}

func (k *raceKernel) add(a raceAccess) {
	if len(k.log) == cap(k.log) {
		k.send()
	}
	k.log = append(k.log, a)
}

// report reports all that was not reported yet.
func (k *raceKernel) report() {
	k.flush()
	k.send()
}

// send sends the log to the operation's goroutine, which reports it, and
// waits.
func (k *raceKernel) send() {
	if len(k.log) > 0 {
		k.op.request(raceRequest{log: k.log})
	}
	k.log, k.plain = k.log[:0], false
}
