package metrics

import (
	"context"
	"errors"
	"sync"

	"github.com/ferrygpu/ferry"
)

// isOpen reports whether a GPU is open.
func isOpen(g *ferry.GPU) bool {
	_, err := g.Staging().Stats()
	return !errors.Is(err, ferry.ErrClosed)
}

// gpu adds the figures of a GPU that Ferry knows itself.
func (r *reading) gpu(g *ferry.GPU) {
	ring, err := g.Staging().Stats()
	if r.failed(err) {
		return
	}
	use, err := ferry.HostStats(g)
	if r.failed(err) {
		return
	}
	r.add(gpuInfo, 1, g.Name())
	for _, k := range []struct {
		kind  string
		bytes int
	}{{"allocated", use.Allocated}, {"pooled", use.Pooled}, {"registered", use.Registered}, {"staging", use.Staging}, {"pipeline", use.Pipelines}} {
		r.bytes(pageLocked, k.bytes, k.kind)
	}
	r.bytes(pageLockedPeak, use.MostLocked)
	if use.Limit > 0 {
		r.bytes(pageLockedLimit, use.Limit)
	}
	r.bytes(stagingInUse, ring.InUse)
	r.bytes(stagingLimit, ring.Limit)
}

// device adds the figures of a GPU that the driver knows.
func (r *reading) device(g *ferry.GPU) {
	free, size, err := g.MemInfo()
	if r.failed(err) {
		return
	}
	r.bytes(deviceSize, size)
	r.bytes(deviceFree, free)
}

// pinnedPool adds the figures of a pool of page-locked memory.
func (r *reading) pinnedPool(p *ferry.PinnedPool) {
	if r.closed = !isOpen(p.GPU()); r.closed {
		return
	}
	s, err := p.Stats()
	if r.failed(err) {
		return
	}
	r.bytes(poolUsed, s.Used)
	r.bytes(poolInFlight, s.InFlight)
	r.bytes(poolPageLocked, s.Pinned)
	r.bytes(poolPageLockedPeak, s.MostPinned)
	r.add(poolHits, float64(s.Hits))
	r.add(poolCalls, float64(s.DriverCalls))
	r.add(poolTime, s.DriverTime.Seconds())
}

// memPool adds the figures of a pool of device memory.
func (r *reading) memPool(p *ferry.MemPool) {
	s, err := p.Stats()
	if r.failed(err) {
		return
	}
	r.bytes(devicePoolUsed, s.Used)
	r.bytes(devicePoolUsedPeak, s.MostUsed)
	r.bytes(devicePoolReserved, s.Reserved)
	r.bytes(devicePoolReservedPeak, s.MostReserved)
}

// asked are figures that the driver knows. One goroutine at a time asks it, because a driver can
// hold a call up, so that later readings start none behind it.
type asked struct {
	ask func(*reading)

	mu   sync.Mutex
	done chan struct{} // closed when the question in progress is answered; nil if there is none
	got  reading
}

// begin asks the driver, unless a question is in progress.
func (a *asked) begin(labels []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done != nil {
		return
	}
	done := make(chan struct{})
	a.done = done
	go func() {
		got := reading{labels: labels}
		a.ask(&got)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.got, a.done = got, nil
		close(done)
	}()
}

// wait adds the answer to r, unless ctx ends first.
func (a *asked) wait(ctx context.Context, r *reading) {
	a.mu.Lock()
	done := a.done
	a.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r.values = append(r.values, a.got.values...)
	r.closed = r.closed || a.got.closed
}
