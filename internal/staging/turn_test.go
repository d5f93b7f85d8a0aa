package staging

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// placed returns settings with the given number of places, which no holder loses for being slow.
func placed(set Settings, places int) Settings {
	set.MaxTransfers, set.HoldTime, set.SlotWait, set.SpinTime = places, time.Hour, time.Hour, time.Hour
	return set
}

// TestThousandTransfers: of many transfers at once, few are active. Only those call the
// driver, and all arrive.
func TestThousandTransfers(t *testing.T) {
	const transfers, each, places = 1000, 6 << 10, 3
	r := newRig(t, placed(sized(4<<10, 8, 1<<10, 2), places), transfers*each, softgpu.Eager)
	var streams []cu.Stream
	for range 20 {
		streams = append(streams, r.newStream())
	}
	var most atomic.Int64
	r.d.sent = func(cu.DevicePtr) { most.Store(max(most.Load(), int64(r.ring.gate.holding.Load()))) }
	var all sync.WaitGroup
	for i := range transfers {
		job := Job{Stream: streams[i%len(streams)], Device: r.device + cu.DevicePtr(i*each), Bytes: each}
		all.Go(func() {
			want, got := random(each), make([]byte, each)
			if _, err := r.ring.In(background, job, Memory(want)); err != nil {
				t.Error(err)
			}
			if _, err := r.ring.Out(background, job, Memory(got)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the bytes differ, or %v", err)
			}
		})
	}
	all.Wait()
	if n := r.d.mostInside.Load(); n > places {
		t.Errorf("%d goroutines were in the driver at once, want at most %d", n, places)
	}
	if n := most.Load(); n > places || n < 2 {
		t.Errorf("%d transfers were active at once, want 2 to %d", n, places)
	}
}

// TestTurnsByChunk: a short transfer that arrives beside long ones, which have all places,
// begins after each of them has had some chunks. That is so in both directions, and if the
// long ones are Lists. Three of the kinds are drawn.
func TestTurnsByChunk(t *testing.T) {
	type kind struct {
		places   int
		in, list bool
	}
	var all []kind
	for places := 1; places <= 3; places++ {
		for _, in := range []bool{true, false} {
			for _, list := range []bool{false, true} {
				all = append(all, kind{places, in, list})
			}
		}
	}
	for _, k := range sample.Of(t, all, 3) {
		turnsByChunk(t, k.places, k.in, k.list)
	}
}

func turnsByChunk(t *testing.T, places int, in, list bool) {
	const long, bytes, chunk = 4, 400 << 10, 4 << 10
	r := newRig(t, placed(sized(chunk, 8, 1<<10, 2), places), (long+1)*bytes, softgpu.Eager)
	last := r.device + long*bytes
	var copied, asked, answered atomic.Int64
	var full atomic.Bool
	var all sync.WaitGroup
	short := Job{Stream: r.newStream(), Device: last, Bytes: 1 << 10}
	r.d.sent = func(at cu.DevicePtr) {
		n := copied.Add(1)
		for !full.Load() { // until all long ones have begun
			full.CompareAndSwap(false, r.ring.gate.users.Load() == long)
			runtime.Gosched()
		}
		switch {
		case at == last:
			answered.Store(n)
		case n == 60:
			all.Go(func() { r.wantDone(r.anyDirection(background, short, in)) })
			for r.ring.gate.users.Load() <= long && answered.Load() == 0 {
				runtime.Gosched()
			}
			asked.Store(copied.Load())
		}
	}
	r.d.got = r.d.sent
	for i := range long {
		job := Job{Stream: r.newStream(), Device: r.device + cu.DevicePtr(i*bytes), Bytes: bytes}
		all.Go(func() {
			if list {
				r.wantDone(r.asList(job, in))
			} else {
				r.wantDone(r.anyDirection(background, job, in))
			}
		})
	}
	all.Wait()
	if n := answered.Load() - asked.Load(); answered.Load() == 0 || n > 4*long {
		t.Errorf("%d places, in %t, lists %t: the short transfer began after %d chunks of the long ones, want at most %d", places, in, list, n, 4*long)
	}
	r.d.sent, r.d.got = nil, nil
	r.close()
}

// wantDone fails the test if a transfer has failed.
func (r *rig) wantDone(_ int64, err error) {
	if err != nil {
		r.Error(err)
	}
}

// asList copies as a List of two parts. Its chunks are those of one part, because the parts
// have no gap.
func (r *rig) asList(job Job, in bool) (int64, error) {
	var list List
	memory, half := random(job.Bytes), job.Bytes/2&^(alignment-1)
	list.Add(memory[:half], job.Device)
	list.Add(memory[half:], job.Device+cu.DevicePtr(half))
	job.Copy = func(slot cu.HostPtr, off, n int64) error {
		if in {
			return r.d.MemcpyHtoDAsync(r.ctx, job.Device+cu.DevicePtr(off), slot, uintptr(n), job.Stream)
		}
		return r.d.MemcpyDtoHAsync(r.ctx, slot, job.Device+cu.DevicePtr(off), uintptr(n), job.Stream)
	}
	if in {
		return r.ring.In(background, job, &list)
	}
	return r.ring.Out(background, job, &list)
}

// TestStandingStream: a transfer whose stream stands still holds no place. It waits for a
// transfer that comes later.
func TestStandingStream(t *testing.T) {
	for _, in := range []bool{true, false} {
		for _, ctxEnds := range []bool{false, true} {
			set := sized(4<<10, 8, 1<<10, 2)
			set.MaxTransfers, set.SlotWait = 1, time.Hour // so that the gate does not help
			r := newRig(t, set, 200<<10, softgpu.Eager)
			ctx, cancel := context.WithCancel(background)
			if !ctxEnds {
				ctx = background
			}
			resume := r.block(r.stream)
			first := make(chan error, 1)
			go func() {
				_, err := r.anyDirection(ctx, r.job(160<<10), in)
				first <- err
			}()
			for r.ring.Submitted() == 0 && in || r.ring.held() == 0 {
				runtime.Gosched()
			}
			other := Job{Stream: r.newStream(), Device: r.device + 160<<10, Bytes: 40 << 10}
			for _, in := range []bool{true, false} {
				_, err := r.anyDirection(background, other, in)
				r.check(err)
			}
			select {
			case err := <-first:
				t.Errorf("in %t: the stream stands still, and the transfer ended: %v", in, err)
			default:
			}
			resume()
			r.check(<-first)
			cancel()
			r.stillWorks()
			r.close()
		}
	}
}

// anyDirection copies to or from the device.
func (r *rig) anyDirection(ctx context.Context, job Job, in bool) (int64, error) {
	if in {
		return r.ring.In(ctx, job, Memory(random(job.Bytes)))
	}
	return r.ring.Out(ctx, job, Memory(make([]byte, job.Bytes)))
}

// held returns how many slots transfers have.
func (r *Ring) held() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		if s.owner != nil {
			n++
		}
	}
	return n
}

// TestDriverBlocks: a call of the driver that does not return costs one place for a short
// time only.
func TestDriverBlocks(t *testing.T) {
	set := sized(4<<10, 8, 1<<10, 2)
	set.MaxTransfers = 1
	r := newRig(t, set, 8<<10, softgpu.Eager)
	inside, until := make(chan struct{}), make(chan struct{})
	r.d.sent = func(dst cu.DevicePtr) {
		if dst == r.device {
			close(inside)
			<-until
		}
	}
	first := make(chan error, 1)
	go func() {
		_, err := r.ring.In(background, r.job(1<<10), Memory(random(1<<10)))
		first <- err
	}()
	<-inside
	other := Job{Stream: r.newStream(), Device: r.device + 4<<10, Bytes: 4 << 10}
	for _, in := range []bool{true, false} {
		_, err := r.anyDirection(background, other, in)
		r.check(err)
	}
	close(until)
	r.check(<-first)
	r.d.sent = nil
}

// TestReadersHoldNoPlace: readers that hang have slots, but no places.
func TestReadersHoldNoPlace(t *testing.T) {
	r := newRig(t, placed(sized(4<<10, 8, 1<<10, 2), 1), 8<<10, softgpu.Eager)
	r.n = 4 << 10 // the rest is for the readers
	ctx, cancel := context.WithCancel(background)
	until := make(chan struct{})
	var all, begun sync.WaitGroup
	for i := range 3 {
		begun.Add(1)
		job := Job{Stream: r.newStream(), Device: r.device + cu.DevicePtr(4+i)<<10, Bytes: 1 << 10, Ordered: true}
		all.Go(func() { _, _ = r.ring.In(ctx, job, Reader(hanging{begun.Done, until})) })
	}
	begun.Wait()
	r.stillWorks()
	close(until)
	all.Wait()
	cancel()
}

// TestCall: calls of the caller need a place, too, in the order of arrival. They give it back
// however they end.
func TestCall(t *testing.T) {
	r := newRig(t, placed(small, 1), 4<<10, softgpu.Eager)
	var order []int
	var all sync.WaitGroup
	arrived := make(chan struct{})
	for i := range 3 {
		all.Go(func() {
			r.check(r.ring.Call(background, func() error {
				order = append(order, i) // the race detector finds calls at the same time
				<-arrived
				return nil
			}))
		})
		for int(r.ring.gate.users.Load()) <= i {
			runtime.Gosched()
		}
	}
	close(arrived)
	all.Wait()
	if !slices.Equal(order, []int{0, 1, 2}) {
		t.Errorf("calls in the order %v", order)
	}
	if err := r.ring.Call(background, func() error { return errPlanted }); !errors.Is(err, errPlanted) {
		t.Errorf("got %v, want %v", err, errPlanted)
	}
	func() {
		defer func() { _ = recover() }()
		_ = r.ring.Call(background, func() error { panic(errPlanted) })
	}()
	holder := r.ring.gate.arrive(nil)
	ctx, cancel := context.WithCancel(background)
	cancel()
	if err := r.ring.Call(ctx, func() error { t.Error("f was called"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	r.ring.gate.quit(holder)
	r.stillWorks()
}

// TestCancelInTheQueue: the end of a context ends a transfer that waits for a place.
func TestCancelInTheQueue(t *testing.T) {
	r := newRig(t, placed(small, 1), 20<<10, softgpu.Eager)
	holder := r.ring.gate.arrive(nil)
	for _, in := range []bool{true, false} {
		ctx, cancel := context.WithCancel(background)
		done := 0
		job := r.job(r.n)
		job.Done = func() { done++ }
		go func() {
			for r.ring.gate.waiting.Load() == 0 {
				runtime.Gosched()
			}
			cancel()
		}()
		if n, err := r.anyDirection(ctx, job, in); n != 0 || !errors.Is(err, context.Canceled) || done != 1 {
			t.Errorf("in %t: %d bytes, %v, and Done was called %d times", in, n, err, done)
		}
	}
	r.ring.gate.quit(holder)
	r.stillWorks()
}

// TestCancelBetweenTurns: the end of a context ends a transfer that is queued again after
// its first turns. The bytes that it reports arrive.
func TestCancelBetweenTurns(t *testing.T) {
	r := newRig(t, placed(sized(4<<10, 8, 1<<10, 2), 1), 100<<10, softgpu.Eager)
	r.poison()
	ctx, cancel := context.WithCancel(background)
	var others []*turn
	r.d.sent = func(cu.DevicePtr) {
		x := r.ring.gate.arrive(nil)
		if others = append(others, x); len(others) == 1 {
			go func() {
				for x.state.Load() != turnHeld {
					runtime.Gosched()
				}
				cancel()
			}()
		}
	}
	want := random(r.n)
	n, err := r.ring.In(ctx, r.job(r.n), Memory(want))
	if n == 0 || n == r.n || !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.d.sent = nil
	for _, x := range others {
		r.ring.gate.quit(x)
	}
	got := r.onDevice(r.n)
	r.same("before the end", got[:n], want[:n])
	if got[n] != 0xee {
		t.Errorf("byte %d was copied", n)
	}
	r.stillWorks()
}

// TestCloseWithQueue: transfers that wait for a place when the ring is closed fail.
func TestCloseWithQueue(t *testing.T) {
	r := newRig(t, placed(small, 1), 20<<10, softgpu.Eager)
	holder := r.ring.gate.arrive(nil)
	ended := make(chan error, 2)
	for _, in := range []bool{true, false} {
		go func() {
			_, err := r.anyDirection(background, r.job(r.n), in)
			ended <- err
		}()
	}
	for r.ring.gate.waiting.Load() < 2 {
		runtime.Gosched()
	}
	r.check(r.ring.Close())
	r.ring.gate.quit(holder)
	for range 2 {
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want %v", err, ErrClosed)
		}
	}
}

// TestEmulatedNeedsNoPlace: on an emulated device no transfer waits for another one, because
// its times would then depend on goroutines.
func TestEmulatedNeedsNoPlace(t *testing.T) {
	r := newRig(t, placed(small, 1), 20<<10, softgpu.Eager)
	r.ring = New(r.d.Driver, r.ctx, placed(small, 1), Hooks{})
	holder := r.ring.gate.arrive(nil)
	r.stillWorks()
	r.ring.gate.quit(holder)
}

// TestSharesWorkers: a transfer gives up workers when others begin, and gets them back when
// they end. One worker always stays.
func TestSharesWorkers(t *testing.T) {
	r := newRig(t, placed(small, 8), 64<<10, softgpu.Eager)
	first := newTransfer()
	first.begin(background, r.ring, r.job(r.n))
	first.src, first.mayYield = Memory(random(r.n)), true
	if !first.admit() {
		t.Fatal("the transfer was not admitted")
	}
	workers := first.prepare()
	first.working.Store(int64(workers))
	wantSurplus := func(what string, want int) {
		t.Helper()
		n := 0
		for first.surplus() {
			n++
		}
		if n != want {
			t.Errorf("%s: %d workers ended, want %d", what, n, want)
		}
	}
	wantSurplus("alone", 0)
	others := []*transfer{{r: r.ring}, {r: r.ring, class: smallSlots}, {r: r.ring, class: smallSlots}, {r: r.ring}}
	for i, want := range []int{2, 1, 0, 0} { // shares of four workers: 4/2, (4-1)/2, (4-2)/2, (4-2)/3
		r.ring.join(others[i])
		wantSurplus("another one", want)
	}
	for _, x := range others {
		r.ring.transfers++
		r.ring.leave(x)
	}
	c := coordinator{transfer: first}
	c.addWorkers()
	if n := first.working.Load(); n != int64(workers) {
		t.Errorf("%d workers in the end, want %d", n, workers)
	}
	for c.claimed(0) == false {
		runtime.Gosched() // a worker has started
	}
	for i := range first.chunks {
		first.become(&first.chunks[i], chunkFailed)
	}
	for first.unaccounted.Load() > 1 {
		runtime.Gosched()
	}
	r.ring.transfers++
	first.account()
}

// TestSmallSlots: small transfers do not wait for the slots of larger ones, and use small
// ones.
func TestSmallSlots(t *testing.T) {
	set := sized(16<<10, 2, 1<<10, 4)
	set.SmallChunk, set.SmallSlots = 2<<10, 2
	r := newRig(t, set, 64<<10, softgpu.Eager)
	resume := r.block(r.stream)
	ctx, cancel := context.WithCancel(background)
	long := make(chan error, 1)
	go func() {
		_, err := r.ring.In(ctx, r.job(60<<10), Memory(random(60<<10)))
		long <- err
	}()
	for r.ring.held() < 2 {
		runtime.Gosched()
	}
	want, got := random(1<<10), make([]byte, 1<<10)
	job := Job{Stream: r.newStream(), Device: r.device + 60<<10, Bytes: 1 << 10}
	_, err := r.ring.In(background, job, Memory(want))
	r.check(err)
	_, err = r.ring.Out(background, job, Memory(got))
	r.check(err)
	r.same("beside a transfer with all large slots", got, want)
	cancel()
	if err := <-long; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	resume()
	if k := r.ring.classes; k[largeSlots].have != 2 || k[smallSlots].have < 1 || k[smallSlots].bytes != 2<<10 {
		t.Errorf("slots are %+v", k)
	}
	r.stillWorks()
}

// TestNoMemoryForSmallSlots: without memory for a small slot a transfer returns ErrBusy, and
// the next one uses a large slot.
func TestNoMemoryForSmallSlots(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Eager)
	r.stillWorks()
	r.d.fail = func(call string) error {
		if call == "alloc" {
			return cu.ErrorOutOfMemory
		}
		return nil
	}
	if _, err := r.ring.In(background, r.job(1<<10), Memory(random(1<<10))); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want %v", err, ErrBusy)
	}
	_, err := r.ring.In(background, r.job(1<<10), Memory(random(1<<10)))
	r.check(err)
}
