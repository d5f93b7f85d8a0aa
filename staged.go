package ferry

import (
	"context"
	"errors"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/stage"
	"github.com/ferrygpu/ferry/profile"
)

// staging is a GPU's ring for plain memory, made when it is first needed.
type staging struct {
	once    sync.Once
	ring    *stage.Ring
	in, out uintptr // up to these sizes the driver's own copies are taken
}

// unmeasured is the machine whose figures serve where a device has none of its own.
const unmeasured = "h200"

// stager is the GPU's ring.
func (g *GPU) stager() *staging {
	s := &g.staging
	s.once.Do(func() {
		k := g.stagingProfile()
		s.in, s.out = uintptr(k.DirectHtoD.Int()), uintptr(k.DirectDtoH.Int())
		s.ring = stage.New(g.driver, g.ctx, stage.Settings{
			Chunk: k.Chunk.Int(), Slots: k.Slots.Int(), Block: k.Block.Int(), Threads: k.Threads.Int(), Lock: g.lockSlot,
		})
	})
	return s
}

// stagingProfile is what is known of staging on the GPU's machine.
func (g *GPU) stagingProfile() profile.Staging {
	if e, ok := g.emulated.(interface{ Machine() *profile.Profile }); ok {
		if k := e.Machine().Staging; k.Chunk.Int() > 0 {
			return k
		}
	}
	p, err := profile.Named(unmeasured)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return p.Staging
}

// lockSlot page-locks memory of the ring, as for a buffer of AllocHost.
func (g *GPU) lockSlot(bytes int) (cu.HostPtr, func() error, error) {
	if g.engine != nil {
		m, err := g.engine.Lock(context.Background(), g.pinRequest(uintptr(bytes), &HostOptions{}))
		if err == nil {
			return m.Start(), m.Close, nil
		}
		if !unregistrable(err) {
			return nil, nil, err
		}
	}
	p, err := g.driver.MemHostAlloc(g.ctx, uintptr(bytes), cu.MemHostAllocPortable)
	return p, func() error { return g.driver.MemFreeHost(g.ctx, p) }, err
}

// close gives the ring's memory back.
func (s *staging) close() error {
	s.once.Do(func() {}) // from now on there is none
	if s.ring == nil {
		return nil
	}
	if err := s.ring.Close(); !sticky(err) { // a lost context has lost all
		return err
	}
	return nil
}

// copyPlain copies between plain memory and the device: small copies as the driver
// does them, others through the ring.
func (q *queue) copyPlain(dst, src *region) error {
	s := q.g.stager()
	in := src.kind() == plainMemory
	least := s.out
	if in {
		least = s.in
	}
	if dst.bytes <= least || dst.settle || src.settle {
		return q.move(dst, src)
	}
	n, err := s.copy(q, dst, src, in)
	if err == nil || !errors.Is(err, stage.ErrBusy) {
		return err
	}
	// Its slots wait in streams that stand still: the driver has its own.
	to, from := dst.cut(uintptr(n), dst.bytes-uintptr(n)), src.cut(uintptr(n), src.bytes-uintptr(n))
	return q.move(&to, &from)
}

// copy goes through the ring.
func (s *staging) copy(q *queue, dst, src *region, in bool) (int64, error) {
	job := stage.Job{Stream: q.handle, Number: q.number, Bytes: int64(dst.bytes)}
	if flights := s.ring.Flights(); q.alone() {
		job.Landed = flights
	}
	if in {
		job.Device = dst.dev
		return s.ring.In(context.Background(), job, stage.Memory(bytesAt(src.host, src.bytes)))
	}
	job.Device = src.dev
	return s.ring.Out(context.Background(), job, stage.Memory(bytesAt(dst.host, dst.bytes)))
}
