package staging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// mixed are settings with slots of two sizes.
func mixed() Settings {
	set := sized(8<<10, 4, 1<<10, 4)
	set.SmallChunk, set.SmallSlots, set.SlotsToDevice = 2<<10, 6, 3
	return set
}

// countStats counts slots by looking at them.
func (r *rig) countStats() (s Stats) {
	r.ring.mu.Lock()
	defer r.ring.mu.Unlock()
	for _, x := range r.ring.slots {
		s.Locked += len(x.mem)
		if x.state != slotFree {
			s.InUse += len(x.mem)
		}
	}
	return s
}

// TestLimit: transfers of all kinds at once keep to the limit, whatever it is, while it changes, and
// the numbers of Stats are those of the slots. The data are right.
func TestLimit(t *testing.T) {
	const n = 40 << 10
	r := newRig(t, mixed(), n, softgpu.Random)
	most := 4*(8<<10) + 6*(2<<10)
	if s := r.ring.Stats(); s.Limit != most || s.Locked != 0 || s.Large.Most != 4 || s.Small.Most != 6 {
		t.Errorf("at first: %+v, want a limit of %d", s, most)
	}
	for range sample.Count(10, 100) {
		limit := 8<<10 + rand.IntN(most-8<<10+1)
		r.check(r.d.CtxSynchronize(r.ctx))
		r.check(r.ring.SetLimit(limit))
		if s := r.ring.Stats(); s.Locked > limit || s.Limit != limit || s.Large.Most*s.Large.Bytes+s.Small.Most*s.Small.Bytes > limit || s.Large.Most < 1 {
			t.Errorf("limit %d: %+v", limit, s)
		}
		var wait sync.WaitGroup
		for _, bytes := range []int64{n, 1 << 10, 3000, n - 5} {
			want := random(bytes)
			wait.Go(func() { r.moveBusy(want) })
		}
		wait.Wait()
		got, want := r.ring.Stats(), r.countStats()
		if got.Locked != want.Locked || got.InUse != want.InUse || got.Locked > limit || got.Peak < got.Locked {
			t.Errorf("limit %d: %+v, and the slots have %+v", limit, got, want)
		}
	}
	r.check(r.ring.SetLimit(0))
	if s := r.ring.Stats(); s.Limit != most {
		t.Errorf("the limit is %d again, want %d", s.Limit, most)
	}
	r.check(r.ring.SetLimit(1 << 40))
	if s := r.ring.Stats(); s.Limit != most {
		t.Errorf("the limit is %d, want the default of %d", s.Limit, most)
	}
}

// moveBusy moves data to memory of its own on the device and back. What the ring has no slot for, it
// leaves out.
func (r *rig) moveBusy(data []byte) {
	stream := r.newStream()
	p, err := r.d.MemAlloc(r.ctx, uintptr(len(data)))
	r.check(err)
	got := make([]byte, len(data))
	job := Job{Stream: stream, StreamID: int(stream), Device: p, Bytes: int64(len(data))}
	n, err := r.ring.In(background, job, Memory(data))
	if err != nil && !errors.Is(err, ErrBusy) {
		r.Error(err)
	}
	job.Bytes = n
	k, err := r.ring.Out(background, job, Memory(got))
	if err != nil && !errors.Is(err, ErrBusy) {
		r.Error(err)
	}
	if !slices.Equal(got[:k], data[:k]) {
		r.Error("the bytes differ")
	}
	r.check(r.d.MemFree(r.ctx, p))
}

// TestLimitInUse: slots in use stay when the limit falls, and are freed when later transfers end.
func TestLimitInUse(t *testing.T) {
	const n = 40 << 10
	r := newRig(t, mixed(), n, softgpu.Eager)
	resume := r.block(r.stream)
	_, err := r.ring.In(background, r.job(4<<10), Memory(random(4<<10))) // in three slots
	r.check(err)
	before := r.ring.Stats()
	if before.InUse != 24<<10 {
		t.Fatalf("%+v, want 24 KiB in use", before)
	}
	r.check(r.ring.SetLimit(8 << 10))
	if s := r.ring.Stats(); s.Locked != before.InUse || s.Limit != 8<<10 {
		t.Errorf("with all in use: %+v, want %d bytes still page-locked", s, before.InUse)
	}
	resume()
	r.check(r.d.CtxSynchronize(r.ctx))
	r.stillWorks()
	r.check(r.d.CtxSynchronize(r.ctx))
	r.stillWorks()
	if s := r.ring.Stats(); s.Locked > 8<<10 || s.Peak != before.Locked {
		t.Errorf("afterwards: %+v, want at most 8 KiB, and a peak of %d", s, before.Locked)
	}
}

// TestLimitRefused: a limit below one slot is refused with the numbers, and changes nothing.
func TestLimitRefused(t *testing.T) {
	r := newRig(t, mixed(), 1, softgpu.Eager)
	before := r.ring.Stats()
	for _, bytes := range []int{1, 8<<10 - 1, -1, -1 << 63} {
		err := r.ring.SetLimit(bytes)
		if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "below one slot of 8.0 KiB (8192 bytes)") {
			t.Errorf("%d: %v", bytes, err)
		}
	}
	if after := r.ring.Stats(); after != before {
		t.Errorf("%+v became %+v", before, after)
	}
	if n := testing.AllocsPerRun(100, func() { before = r.ring.Stats() }); n != 0 {
		t.Errorf("Stats allocates %g times", n)
	}
}

// TestWarm: after Warm a transfer in each direction allocates no slot. Within a limit it makes fewer.
func TestWarm(t *testing.T) {
	const n = 64 << 10
	for _, limit := range []int{0, 11 << 10} {
		r := newRig(t, mixed(), n, softgpu.Random)
		r.check(r.ring.SetLimit(limit))
		r.check(r.ring.Warm(background))
		s := r.ring.Stats()
		if want := min(s.Large.Most, 4)*(8<<10) + min(s.Small.Most, 3)*(2<<10); s.Locked != want || s.Locked > s.Limit || s.InUse != 0 {
			t.Errorf("limit %d: %+v, want %d page-locked", limit, s, want)
		}
		for _, bytes := range []int64{n, 2 << 10} {
			_, err := r.ring.In(background, r.job(bytes), Memory(random(bytes)))
			r.check(err)
			_, err = r.ring.Out(background, r.job(bytes), Memory(random(bytes)))
			r.check(err)
		}
		if after := r.ring.Stats(); after.Peak != s.Peak {
			t.Errorf("limit %d: %+v after transfers, was %+v", limit, after, s)
		}
	}
}

// TestWarmEnds: Warm ends when its context ends, and leaves no slot half made after an error.
func TestWarmEnds(t *testing.T) {
	r := newRig(t, mixed(), 1, softgpu.Eager)
	ctx, cancel := context.WithCancel(background)
	made := 0
	r.d.fail = func(call string) error {
		if call == "alloc" {
			if made++; made == 2 {
				cancel()
			}
		}
		return nil
	}
	if err := r.ring.Warm(ctx); !errors.Is(err, context.Canceled) || r.ring.Stats().Large.Slots != 2 {
		t.Errorf("%v, %+v, want 2 slots", err, r.ring.Stats())
	}
	r.d.fail = func(call string) error { return errPlanted }
	if err := r.ring.Warm(background); !errors.Is(err, errPlanted) || r.ring.classes[largeSlots].allocating != 0 || r.ring.Stats().Locked != 16<<10 {
		t.Errorf("%v, %+v", err, r.ring.Stats())
	}
	r.d.fail = nil
	r.check(r.ring.Warm(background))
	if s := r.ring.Stats(); s.Large.Slots != 4 || s.Small.Slots != 3 {
		t.Errorf("%+v, want 4 and 3 slots", s)
	}
}

// TestLimitWhilePolled: a slot is freed although a goroutine asks for its event. The event stays, and
// new slots use it.
func TestLimitWhilePolled(t *testing.T) {
	r := newRig(t, mixed(), 40<<10, softgpu.Eager)
	finish := r.block(r.stream)
	_, err := r.ring.In(background, r.job(4<<10), Memory(random(4<<10))) // in three slots
	r.check(err)
	finish()
	r.check(r.d.CtxSynchronize(r.ctx))
	inside, resume, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var calls atomic.Int64
	r.d.asked = func() {
		if calls.Add(1) == 1 {
			close(inside)
			<-resume
		}
	}
	go func() { _, err := r.ring.pollSlots(); ended <- err }()
	<-inside
	r.check(r.ring.SetLimit(8 << 10))
	if s := r.ring.Stats(); s.Locked != 8<<10 || s.Large.Slots != 1 || s.InUse != 0 {
		t.Errorf("while three slots are polled: %+v, want one slot", s)
	}
	close(resume)
	r.check(<-ended)
	r.check(r.ring.SetLimit(0))
	made := r.d.events.Load()
	r.stillWorks()
	if n := r.d.events.Load() - made; len(r.ring.slots) < 3 || n > int64(len(r.ring.slots)-3) {
		t.Errorf("%d events were made for %d slots, three of which can use an old one", n, len(r.ring.slots))
	}
}

// TestLimitKeepsOne: a transfer that uses small slots gets one, though the limit has no room for them
// any more. The slot is freed when the transfer has ended.
func TestLimitKeepsOne(t *testing.T) {
	for _, warm := range []bool{false, true} {
		r := newRig(t, mixed(), 1<<10, softgpu.Eager)
		if warm {
			r.check(r.ring.Warm(background))
		}
		x, err := r.ring.enter(background, Job{})
		r.check(err)
		x.class, x.mayYield = smallSlots, true
		r.ring.join(x)
		r.check(r.ring.SetLimit(8 << 10))
		if n := r.ring.Stats().Small.Slots; warm && n != 1 {
			t.Errorf("%d small slots are left while a transfer uses them, want one", n)
		}
		if ok, _, err := r.ring.slotAvailable(x); !ok || err != nil {
			t.Errorf("warm %t: no slot is available, %v", warm, err)
		}
		s, _, err := r.ring.takeSlot(x)
		if s == nil || err != nil {
			t.Fatalf("warm %t: no slot, %v", warm, err)
		}
		if again, _, err := r.ring.takeSlot(x); again != nil || err != nil {
			t.Errorf("warm %t: a second slot, %v", warm, err)
		}
		r.ring.put(s)
		r.ring.leave(x)
		r.ring.trimLater()
		if s := r.ring.Stats(); s.Locked > 8<<10 || s.Small.Slots != 0 {
			t.Errorf("warm %t: afterwards %+v, want at most 8 KiB", warm, s)
		}
	}
}

// TestSentEnds: however Job.Sent ends, in the middle or at the end, the transfer releases everything,
// calls Done once, and the next one works.
func TestSentEnds(t *testing.T) {
	canEnd, cancel := context.WithCancel(background)
	defer cancel()
	for name, end := range ends {
		for _, kind := range []struct{ out, ordered, canEnd bool }{{}, {canEnd: true}, {out: true, ordered: true}, {out: true, ordered: true, canEnd: true}, {ordered: true, canEnd: true}} {
			for _, at := range []int64{1, 20 << 10} {
				r := newRig(t, small, 20<<10, softgpu.Random)
				ctx := background
				if kind.canEnd {
					ctx = canEnd
				}
				var done, sent, after int64
				job := r.job(r.n)
				job.Ordered, job.Done = kind.ordered, func() { done++ }
				job.Sent = func(_, n int64, _ []byte) error {
					if sent >= at {
						after++
					}
					if sent += n; sent >= at {
						return end()
					}
					return nil
				}
				ended := make(chan outcome, 1)
				go func() {
					var o outcome
					defer func() { o.value = recover(); ended <- o }()
					src := bytes.NewReader(random(r.n))
					switch {
					case kind.out:
						o.n, o.err = r.ring.Out(ctx, job, Writer(io.Discard))
					case kind.ordered:
						o.n, o.err = r.ring.In(ctx, job, Reader(src))
					default:
						o.n, o.err = r.ring.In(ctx, job, src)
					}
					o.returned = true
				}()
				o := <-ended
				if done != 1 || after != 0 || o.returned != (name == "error") || (o.value == any(errPlanted)) != (name == "panic") || o.returned && !errors.Is(o.err, errPlanted) {
					t.Errorf("%s at %d, %+v: %+v, Done was called %d times, and Sent %d times more", name, at, kind, o, done, after)
				}
				r.stillWorks()
			}
		}
	}
}

// TestInOrder: with Job.InOrder, Copy is called for one part of the transfer after the other, though
// a later one is read first.
func TestInOrder(t *testing.T) {
	const n = 40 << 10
	r := newRig(t, small, n, softgpu.Eager)
	for range sample.Count(20, 200) {
		data := random(n)
		late := int64(rand.IntN(n/small.Block)) * int64(small.Block)
		src := slow{data, func(off int64) {
			if off == late {
				time.Sleep(time.Millisecond)
			}
		}}
		job, next := r.job(n), int64(0)
		job.InOrder = true
		job.Copy = func(slot cu.HostPtr, off, bytes int64) error {
			if off != next {
				t.Errorf("Copy of byte %d, want %d", off, next)
			}
			next = off + bytes
			return r.d.MemcpyHtoDAsync(r.ctx, r.device+cu.DevicePtr(off), slot, uintptr(bytes), r.stream)
		}
		_, err := r.ring.In(background, job, src)
		r.check(err)
		r.same("in order", r.onDevice(n), data)
	}
}

// TestSlotBeyondALimit: of two transfers that ask for the first slot at once, one can leave its copy to
// the driver. The limit refuses both, and the other one then gets a slot beyond it.
func TestSlotBeyondALimit(t *testing.T) {
	r := newRig(t, mixed(), 1<<10, softgpu.Eager)
	limit := fmt.Errorf("limit: %w", cu.ErrorOutOfMemory)
	inner, asked := r.ring.lock, make(chan chan struct{})
	r.ring.beyond = func(err error) bool { return errors.Is(err, limit) }
	r.ring.lock = func(bytes int, must bool) (cu.HostPtr, func() error, error) {
		if must {
			return inner(bytes, true)
		}
		goOn := make(chan struct{})
		asked <- goOn
		<-goOn
		return nil, nil, limit
	}
	enter := func(mayYield bool) *transfer {
		x, err := r.ring.enter(background, Job{})
		r.check(err)
		x.class, x.mayYield = smallSlots, mayYield
		r.ring.join(x)
		return x
	}
	x, y := enter(true), enter(false)
	ends := make(chan error)
	take := func(x *transfer) chan struct{} {
		go func() {
			s, _, err := r.ring.takeSlot(x)
			if s != nil {
				r.ring.put(s)
			}
			ends <- err
		}()
		return <-asked
	}
	first, second := take(x), take(y)
	close(first)
	if err := <-ends; err != nil {
		t.Errorf("the transfer that may yield, and has no slot: %v", err)
	}
	close(second)
	if err := <-ends; err != nil {
		t.Errorf("the transfer that may not yield: %v", err)
	}
	r.ring.leave(x)
	r.ring.leave(y)
}
