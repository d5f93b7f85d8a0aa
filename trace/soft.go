package trace

import (
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
)

// softOps records the operations of a software GPU, which reports them with the times of
// its timeline.
type softOps struct {
	d      *Driver
	gpu    cu.Observable
	mu     sync.Mutex
	callOf map[uintptr]caller // the call in progress of each goroutine, by its number
	queued map[uint64]caller  // the call that queued an operation, until the operation ends
}

// caller is a call that queues operations.
type caller struct {
	id     uint64
	origin *origin
}

func newSoftOps(d *Driver, gpu cu.Observable) *softOps {
	return &softOps{d: d, gpu: gpu, callOf: map[uintptr]caller{}, queued: map[uint64]caller{}}
}

// began returns where the virtual time of now will be.
func (s *softOps) began() *int64 {
	start := new(int64)
	s.gpu.At(func(now time.Duration) { *start = int64(now) })
	return start
}

// ended adds the row of a call that ends now, when its times are known.
func (s *softOps) ended(c call, err error) {
	s.gpu.At(func(now time.Duration) {
		c.start = *c.began
		s.d.rec.addCall(&c, int64(now), err)
	})
}

// enter notes that the calling goroutine makes call c, which queues operations.
func (s *softOps) enter(c *call) {
	c.goroutine = callsite.Goroutine()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callOf[c.goroutine] = caller{c.id, c.origin}
}

func (s *softOps) leave(goroutine uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.callOf, goroutine)
}

// Queued implements [cu.Observer].
func (s *softOps) Queued(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.callOf) == 1 { // the usual case, which needs no number of a goroutine
		for _, call := range s.callOf {
			s.queued[id] = call
		}
		return
	}
	s.queued[id] = s.callOf[callsite.Goroutine()]
}

// Ended implements [cu.Observer].
func (s *softOps) Ended(x *cu.Operation) {
	s.mu.Lock()
	call := s.queued[x.ID]
	delete(s.queued, x.ID)
	s.mu.Unlock()
	o := opRow{
		id: x.ID, call: call.id, origin: call.origin, device: int(x.Device), stream: noStreamNumber, engine: x.Engine, bytes: x.Bytes,
		from: x.From, to: x.To, start: int64(x.Start), end: int64(x.End), queued: int64(x.Queued),
		after: x.BlockedBy, why: x.Blocked.String(),
	}
	if !x.Graph {
		o.stream = s.d.names.stream(x.Stream)
	}
	o.name = softName(x)
	part := x.Dominant()
	o.part, o.partTime = part.Name, int64(part.Time)
	s.d.rec.addOp(s.d.id, &o)
}

// softName returns the name of an operation in reports.
func softName(x *cu.Operation) string {
	switch x.Kind {
	case cu.GraphNodeTypeKernel:
		return x.Kernel
	case cu.GraphNodeTypeMemset:
		return nameMemset
	case cu.GraphNodeTypeHost:
		return nameHostFunc
	case cu.GraphNodeTypeMemcpy:
		if x.From == managed && x.To == managed {
			return namePrefetch
		}
		return copyName(x.From, x.To)
	}
	return "operation"
}
