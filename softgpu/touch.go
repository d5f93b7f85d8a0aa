package softgpu

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Device memory takes memory of this computer when it is first written, so a small computer
// can emulate a GPU with more memory than it has. A system that runs out of memory kills
// the process. Therefore operations look at what is free before they write, and kernels
// while they write: an operation that needs more fails.
const (
	lookEvery   = 64 << 20             // bytes of copies and fills between two looks; a look takes some 50 us
	lookAfter   = 5 * time.Millisecond // time of kernels between two looks
	watchedFrom = 1 << 30              // bytes of device memory from which kernels are watched
	copyMargin  = lookEvery            // what a copy or fill must leave free
	perWorker   = 16 << 20             // what a core that runs a kernel can touch in lookAfter, roughly
	baseMargin  = 256 << 20            // what kernels must leave free beside that
)

// touching is what a driver knows of the memory that its operations write.
type touching struct {
	unchecked atomic.Uint64 // bytes written since the last look
	now       atomic.Uint64 // bytes that running copies and fills write, at least those that need memory
	looked    atomic.Int64  // when a kernel looked last, by time.Time.UnixNano
}

// toWrite returns the bytes of a span, as bytes does, if this computer can provide those
// from an offset on. The caller writes these and then calls done.
func (p span) toWrite(what string, from uint64) (data []byte, done func(), err error) {
	if data, err = p.bytes(what); err != nil {
		return nil, nil, err
	}
	if why := p.unusable(true); why != "" {
		return nil, nil, p.fault(what, why)
	}
	rest := p
	rest.off, rest.n = p.off+from, p.n-from
	done, err = rest.mayTouch(what)
	return data, done, err
}

// mayTouch refuses a copy or fill of device memory that this computer cannot provide. The
// caller writes the bytes and then calls done.
func (p span) mayTouch(what string) (done func(), err error) {
	if p.region == nil || p.region.kind == kindHost || p.region.kind == kindRegistered {
		return func() {}, nil
	}
	d := p.region.dev.drv
	t := &d.touching
	t.now.Add(p.n)
	done = func() { t.now.Add(-p.n) }
	if t.unchecked.Add(p.n) < lookEvery {
		return done, nil
	}
	t.unchecked.Store(0)
	free := d.freeMemory()
	others := t.now.Load() - p.n
	if others+p.n+copyMargin <= free {
		return done, nil
	}
	fresh := p.n - min(p.n, p.region.resident(p.all()))
	t.now.Add(fresh - p.n) // for the others, only these need memory
	done = func() { t.now.Add(-fresh) }
	if fresh > 0 && others+fresh+copyMargin > free {
		done()
		return nil, refuse(cu.ErrorOutOfMemory, what, "device memory that is written first needs %s of this computer's memory, of which %s are free: free some, or use less",
			size(fresh), size(free))
	}
	return done, nil
}

// errNoMemory stops a kernel before this computer runs out of memory.
var errNoMemory = errors.New("this computer runs out of memory")

// kernelMargin is what kernels must leave free.
var kernelMargin = uint64(baseMargin + perWorker*runtime.NumCPU())

// withMemory ends ctx when a kernel that runs now has left too little free memory.
func (d *Driver) withMemory(ctx context.Context, reserved uint64) (context.Context, context.CancelFunc) {
	if reserved < watchedFrom {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if d.looksScarce() {
		cancel(errNoMemory)
	}
	go func() {
		tick := time.NewTicker(lookAfter)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if d.looksScarce() {
					cancel(errNoMemory)
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// looksScarce reports whether little memory is free. It looks at most once in lookAfter.
func (d *Driver) looksScarce() bool {
	now, last := time.Now().UnixNano(), d.touching.looked.Load()
	if now-last < int64(lookAfter)*9/10 || !d.touching.looked.CompareAndSwap(last, now) {
		return false
	}
	return d.freeMemory() < kernelMargin
}

// resident returns how many bytes of data, a part of r, this computer provides now.
func (r *region) resident(data []byte) uint64 {
	b := r.backing
	if b == nil && r.slab != nil {
		b = r.slab.backing
	}
	if b != nil && b.patterns > 0 {
		return privateBytes(data)
	}
	return resident(data)
}
