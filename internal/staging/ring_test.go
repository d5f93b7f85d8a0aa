package staging

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestSlotsToDevice: a transfer to the device has few slots, so that they stay in the
// caches, and the next transfer has the same ones.
func TestSlotsToDevice(t *testing.T) {
	r := newRig(t, sized(4<<10, 8, 1<<10, 4), 200<<10, softgpu.Eager)
	for range 5 {
		_, err := r.ring.In(background, r.job(r.n), Memory(random(r.n)))
		r.check(err)
		r.check(r.d.StreamSynchronize(r.ctx, r.stream))
	}
	for _, k := range r.ring.classes {
		if k.have > r.ring.set.SlotsToDevice {
			t.Errorf("%d slots of %d bytes were allocated, want at most %d", k.have, k.bytes, r.ring.set.SlotsToDevice)
		}
	}
}

// TestOldestIsQueried: in each stream one slot is queried, because those submitted after
// it cannot have completed before it.
func TestOldestIsQueried(t *testing.T) {
	r := newRig(t, sized(1<<10, 8, 1<<10, 1), 8<<10, softgpu.Eager)
	other := r.newStream()
	r.block(r.stream)
	r.block(other)
	for i := range 8 {
		job := Job{Stream: r.stream, Device: r.device + cu.DevicePtr(i<<10), Bytes: 1 << 10}
		if i >= 5 {
			job.Stream = other
		}
		_, err := r.ring.In(background, job, Memory(random(1<<10)))
		r.check(err)
	}
	r.d.queries.Store(0)
	if freed, err := r.ring.pollSlots(); freed || err != nil {
		t.Errorf("freed %t, error %v, want neither", freed, err)
	}
	if n := r.d.queries.Load(); n != 2 {
		t.Errorf("%d slots of two streams were queried, want 2", n)
	}
}

// TestCompleted: the driver is not asked about slots that the caller knows to be
// completed, but about those of a stream with another number, whatever its handle. A free
// slot is open before the driver is called, and that call comes before the first copy.
func TestCompleted(t *testing.T) {
	for id, known := range map[int]bool{1: true, 2: false} {
		r := newRig(t, sized(4<<10, 4, 1<<10, 4), 8<<10, softgpu.Eager)
		job := r.job(r.n)
		job.StreamID = 1
		resume := r.block(r.stream) // until four chunks have a slot each
		_, err := r.ring.In(background, job, Memory(random(r.n)))
		r.check(err)
		resume()
		r.check(r.d.StreamSynchronize(r.ctx, r.stream))
		r.d.queries.Store(0)
		var calls []string
		r.d.fail = func(call string) error { calls = append(calls, call); return nil }
		job.StreamID, job.Completed, job.Bytes = id, r.ring.Submitted(), 4<<10
		want := random(4 << 10)
		_, err = r.ring.In(background, job, Memory(want))
		r.check(err)
		r.d.fail = nil
		if queried := r.d.queries.Load() > 0; queried == known || known && calls[0] != "record" {
			t.Errorf("stream %d: queried %t, calls %v", id, queried, calls)
		}
		r.same("the second", r.onDevice(4<<10), want)
	}
}

// TestAllCompleted: Completed includes the slot that was submitted last.
func TestAllCompleted(t *testing.T) {
	r := newRig(t, sized(4<<10, 4, 1<<10, 4), 16<<10, softgpu.Eager)
	job := r.job(r.n)
	_, err := r.ring.In(background, job, Memory(random(r.n)))
	r.check(err)
	r.check(r.d.StreamSynchronize(r.ctx, r.stream))
	job.Completed = r.ring.Submitted()
	r.ring.freeCompleted(&transfer{job: job})
	for i, s := range r.ring.slots {
		if s.state != slotFree {
			t.Errorf("slot %d of %d is not free", i, len(r.ring.slots))
		}
	}
}

// TestNotCompleted: slots that were submitted after Completed was read stay in flight.
func TestNotCompleted(t *testing.T) {
	r := newRig(t, sized(4<<10, 8, 1<<10, 4), 8<<10, softgpu.Eager)
	before := r.ring.Submitted()
	resume := r.block(r.stream)
	first, second := random(8<<10), random(8<<10)
	for _, src := range [][]byte{first, second} {
		job := r.job(r.n)
		job.StreamID, job.Completed = 1, before
		if bytes.Equal(src, second) {
			job.Device, job.Bytes = r.device+4<<10, 4<<10
		}
		_, err := r.ring.In(background, job, Memory(src))
		r.check(err)
	}
	resume()
	r.same("both", r.onDevice(r.n), append(bytes.Clone(first[:4<<10]), second[:4<<10]...))
}

// TestFewProcessors: the coordinator gets to run where there are as many workers as
// processors.
func TestFewProcessors(t *testing.T) {
	r := newRig(t, small, 100<<10, softgpu.Random)
	for _, n := range []int{1, 2, 3, 4} {
		old := runtime.GOMAXPROCS(n)
		r.ring.mu.Lock()
		workers := r.ring.maxWorkers(toDevice, n)
		r.ring.mu.Unlock()
		if want := min(n, 3); workers != want {
			t.Errorf("%d processors: %d workers, want %d", n, workers, want)
		}
		r.stillWorks()
		runtime.GOMAXPROCS(old)
	}
}

// TestAdapt: workers that wait for the device become fewer. Workers that the device waits
// for become more, up to the setting.
func TestAdapt(t *testing.T) {
	r := newRig(t, small, 1, softgpu.Eager)
	for _, s := range []struct {
		busy float64
		want int
	}{{0.3, 3}, {0.3, 2}, {0.7, 2}, {0.95, 3}, {0.95, 4}, {0.95, 4}, {0.1, 3}, {0.1, 2}, {0.1, 1}, {0.1, 1}} {
		before := r.ring.target[toDevice]
		r.ring.adapt(toDevice, before, time.Duration(s.busy*float64(before)*1e6), 1e6)
		if got := r.ring.target; got != [2]int{s.want, small.Workers} {
			t.Errorf("busy %.1f of the time: %d workers, then %d, want %d to the device", s.busy, before, got, s.want)
		}
	}
}

// TestAdaptDirections: each direction adapts by itself.
func TestAdaptDirections(t *testing.T) {
	r := newRig(t, small, 200<<10, softgpu.Eager)
	for range 20 {
		_, err := r.ring.Out(background, r.job(r.n), slow{Memory(make([]byte, r.n)), nil})
		r.check(err)
	}
	if got := r.ring.target; got[toDevice] != small.Workers || got[fromDevice] == small.Workers {
		t.Errorf("after copies from the device there are %v workers, want fewer than %d from it only", got, small.Workers)
	}
}

// TestFairShares: transfers at the same time have no more than their share of the slots,
// and all arrive.
func TestFairShares(t *testing.T) {
	const transfers = 4
	set := sized(2<<10, 8, 1<<10, 8)
	r := newRig(t, set, 64<<10*transfers, softgpu.Random)
	var looked, over atomic.Int64
	for round := 0; round < 100 && looked.Load() == 0; round++ { // until all run at once
		var all sync.WaitGroup
		for i := range transfers {
			job := Job{Stream: r.newStream(), Device: r.device + cu.DevicePtr(i*64<<10), Bytes: 64 << 10}
			all.Go(func() {
				want, got := random(job.Bytes), make([]byte, job.Bytes)
				src := slow{want, func(off int64) {
					if off > job.Bytes/2 && r.ring.runs(transfers) {
						looked.Add(1)
						over.Add(r.ring.transfersOver(set.Slots / transfers))
					}
				}}
				if _, err := r.ring.In(background, job, src); err != nil {
					t.Error(err)
				}
				if _, err := r.ring.Out(background, job, Memory(got)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("the bytes differ, or %v", err)
				}
			})
		}
		all.Wait()
	}
	if looked.Load() == 0 || over.Load() > 0 {
		t.Errorf("looked %d times: %d transfers had more slots than their share", looked.Load(), over.Load())
	}
}

// slow is memory that takes a millisecond for each read, and calls look for it.
type slow struct {
	Memory
	look func(off int64)
}

func (s slow) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(time.Millisecond)
	s.look(off)
	return s.Memory.ReadAt(p, off)
}

// runs reports whether n transfers run.
func (r *Ring) runs(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.transfers == n
}

// transfersOver counts the transfers that have more slots than most.
func (r *Ring) transfersOver(most int) (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := map[*transfer]int{}
	for _, s := range r.slots {
		if s.owner != nil {
			if have[s.owner]++; have[s.owner] == most+1 {
				n++
			}
		}
	}
	return n
}

// TestOutOfMemory: a ring works with the slots that it could get, also when several
// transfers find that out at the same time.
func TestOutOfMemory(t *testing.T) {
	r := newRig(t, small, 30<<10, softgpu.Eager)
	var allocs atomic.Int64
	r.d.fail = func(call string) error {
		if call == "alloc" && allocs.Add(1) > 1 {
			return cu.ErrorOutOfMemory
		}
		return nil
	}
	var all sync.WaitGroup
	for i := range 6 {
		job := Job{Stream: r.newStream(), Device: r.device + cu.DevicePtr(i*5<<10), Bytes: 5 << 10, Ordered: true}
		all.Go(func() {
			if _, err := r.ring.In(background, job, Reader(zeroes{})); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r.check(r.d.CtxSynchronize(r.ctx))
	r.stillWorks()
	if r.d.most.Load() != 1 {
		t.Errorf("%d slots, want 1", r.d.most.Load())
	}
}
