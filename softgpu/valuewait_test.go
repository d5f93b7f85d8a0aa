package softgpu

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// TestWaitThatNothingFulfils: a wait for a value that nobody writes ends as a kernel that never ends
// does: at the limit of kernels, by Interrupt, and when its context is destroyed.
func TestWaitThatNothingFulfils(t *testing.T) {
	for _, s := range []Schedule{Eager, Lazy, Random} {
		t.Run(s.String(), func(t *testing.T) {
			r := newRig(t, Options{Schedule: s, KernelLimit: 30 * time.Millisecond})
			p := r.alloc(8)
			r.ok(r.MemsetD8(r.ctx, p, 1, 8))
			r.sync(0)
			r.ok(r.StreamWaitValue32(r.ctx, 0, p+4, 0x7000, cu.StreamWaitValueEQ))
			ended(t, r.CtxSynchronize(r.ctx), "wait for a value of 4 bytes", "until the word at", "which is 0x1010101, is 0x7000", "longer than the limit of 30ms", LimitVariable)

			r = newRig(t, Options{Schedule: s})
			p = r.alloc(8)
			r.ok(r.MemsetD8(r.ctx, p, 1, 8))
			r.sync(0)
			r.ok(r.StreamWaitValue64(r.ctx, 0, p, 2, cu.StreamWaitValueAND))
			why := errors.New("enough")
			time.AfterFunc(20*time.Millisecond, func() { r.Interrupt(why) })
			err := r.CtxSynchronize(r.ctx)
			ended(t, err, "which is 0x101010101010101, has a bit of 0x2", "enough")
			if !errors.Is(err, why) {
				t.Errorf("%v does not wrap the cause", err)
			}

			r = newRig(t, Options{Schedule: s})
			c, err := r.CtxCreate(0, 0)
			r.ok(err)
			q, err := r.MemAlloc(c, 4)
			r.ok(err)
			r.ok(r.StreamWaitValue32(c, 0, q, 7, cu.StreamWaitValueEQ))
			r.ok(r.CtxDestroy(c))
			r.ok(r.CtxSynchronize(r.ctx)) // the device is not lost
		})
	}
}

// TestStreamsThatWaitForEachOther: of two streams each waits for what the other writes behind its
// wait. That is a deadlock, and the limit of kernels ends it.
func TestStreamsThatWaitForEachOther(t *testing.T) {
	every(t, func(t *testing.T, _ *rig) {
		r := newRig(t, Options{KernelLimit: 50 * time.Millisecond})
		p := r.alloc(8)
		r.ok(r.MemsetD8(r.ctx, p, 0, 8))
		r.sync(0)
		a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
		r.ok(r.StreamWaitValue32(r.ctx, a, p, 1, cu.StreamWaitValueEQ))
		r.ok(r.StreamWriteValue32(r.ctx, a, p+4, 1, 0))
		r.ok(r.StreamWaitValue32(r.ctx, b, p+4, 1, cu.StreamWaitValueEQ))
		r.ok(r.StreamWriteValue32(r.ctx, b, p, 1, 0))
		ended(t, r.StreamSynchronize(r.ctx, a), "wait for a value of 4 bytes", "which is 0x0, is 0x1")
	})
}

// TestWaitForLaterWork: a stream may wait for a value that is written by work which is queued later,
// on every schedule, also when only the stream that waits is synchronized.
func TestWaitForLaterWork(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		p := r.alloc(8)
		r.ok(r.MemsetD8(r.ctx, p, 0, 8))
		r.sync(0)
		a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
		for i := range uint32(3) {
			r.ok(r.StreamWaitValue32(r.ctx, a, p, i+1, cu.StreamWaitValueGEQ))
			r.ok(r.StreamWriteValue32(r.ctx, b, p, i+1, 0))
			r.sync(a)
		}
		host, word := r.pinned(4)
		at := cu.DevicePtr(uintptr(host))
		r.ok(r.StreamWaitValue32(r.ctx, a, at, 5, cu.StreamWaitValueEQ))
		r.ok(r.StreamWriteValue32(r.ctx, a, at, 6, 0))
		r.want(cu.ErrorNotReady, r.StreamQuery(r.ctx, a))
		atomic.StoreUint32((*uint32)(ptr(word)), 5)
		r.sync(a)
		if got := atomic.LoadUint32((*uint32)(ptr(word))); got != 6 {
			t.Errorf("the work behind the wait wrote %d, want 6", got)
		}
	})
}

// TestWaitsRefused: what a device or a driver lacks is refused by name.
func TestWaitsRefused(t *testing.T) {
	old := named(t, "h200")
	old.Driver.Value = 11060
	r := newRig(t, Options{Profile: old})
	p := r.alloc(8)
	for _, err := range []error{r.StreamWaitValue32(r.ctx, 0, p, 0, 0), r.StreamWaitValue64(r.ctx, 0, p, 0, 0)} {
		if missing, ok := errors.AsType[*cu.NotSupportedError](err); !ok || missing.Needs != "a driver for CUDA 11.7 or newer" {
			t.Errorf("CUDA 11.6: %v", err)
		}
	}
	r = newRig(t, Options{Profile: with(named(t, "h200"), "CAN_USE_STREAM_WAIT_VALUE_NOR", 0)})
	p = r.alloc(8)
	r.want(cu.ErrorNotSupported, r.StreamWaitValue32(r.ctx, 0, p, 0, cu.StreamWaitValueNOR))
	r.want(cu.ErrorNotSupported, r.StreamWaitValue32(r.ctx, 0, p, 0, cu.StreamWaitValueFlush))
	r.want(cu.ErrorInvalidValue, r.StreamWaitValue32(r.ctx, 0, p, 0, 4))
	r = newRig(t, Options{Profile: with(named(t, "h200"), "CAN_FLUSH_REMOTE_WRITES", 1)})
	p = r.alloc(8)
	r.ok(r.MemsetD8(r.ctx, p, 1, 8))
	r.sync(0)
	r.ok(r.StreamWaitValue32(r.ctx, 0, p, 0, cu.StreamWaitValueGEQ|cu.StreamWaitValueFlush))
	r.sync(0)
}

// TestWaitEndsWithTheDevice: a fault of another stream loses the device. A call that waits for a
// stream in a wait for a value that nobody writes returns the fault then. The wait itself ends with
// its context, as a kernel does.
func TestWaitEndsWithTheDevice(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		p := r.alloc(8)
		r.ok(r.MemsetD8(r.ctx, p, 0, 8))
		r.sync(0)
		a, b, store := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking), r.function("store")
		r.ok(r.StreamWaitValue32(r.ctx, a, p, 7, cu.StreamWaitValueEQ))
		wait, synchronized := r.lastOp(a), make(chan error, 1)
		go func() { synchronized <- r.StreamSynchronize(r.ctx, a) }()
		r.want(cu.ErrorNotReady, r.StreamQuery(r.ctx, a))
		r.ok(r.run(store, 1, 1, b, cu.DevicePtr(16), uint32(1)))
		r.want(cu.ErrorIllegalAddress, r.StreamSynchronize(r.ctx, b))
		select {
		case err := <-synchronized:
			r.want(cu.ErrorIllegalAddress, err)
		case <-time.After(20 * time.Second):
			t.Fatal("the call that waits for its stream goes on")
		}
		_ = r.DevicePrimaryCtxReset(0) // returns the fault, too
		for begun := time.Now(); !r.isDone(wait); time.Sleep(time.Millisecond) {
			if time.Since(begun) > 20*time.Second {
				t.Fatal("the wait for a value goes on")
			}
		}
	})
}

// isDone reports whether an op is done.
func (r *rig) isDone(o *op) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return o.done
}
