package softgpu

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// TestWriteValueFollowsItsStream polls a word without any call of the driver. Whoever sees
// the value sees what the stream did before.
func TestWriteValueFollowsItsStream(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		_, b := r.pinned(64)
		word := (*uint64)(unsafe.Pointer(&b[8]))
		s := r.stream(cu.StreamNonBlocking)
		dev := cu.DevicePtr(uintptr(unsafe.Pointer(word)))
		data := r.alloc(4096)
		_, copied := r.pinned(4096)
		for i := uint64(1); i <= 3; i++ {
			r.ok(r.MemsetD8Async(r.ctx, data, uint8(i), 4096, s))
			r.ok(r.LaunchHostFunc(r.ctx, s, slow(func() {})))
			r.ok(r.MemcpyDtoHAsync(r.ctx, ptr(copied), data, 4096, s))
			r.ok(r.StreamWriteValue64(r.ctx, s, dev, i<<40|i, 0))
			for atomic.LoadUint64(word) != i<<40|i {
				time.Sleep(time.Millisecond)
			}
			for _, x := range copied {
				if x != byte(i) {
					t.Fatalf("round %d: the value came before the copy, which has %d", i, x)
				}
			}
		}
		r.sync(s)
	})
}

// TestWriteValueNeedsTheMachine checks what machines without the calls, and without
// values of 8 bytes, return.
func TestWriteValueNeedsTheMachine(t *testing.T) {
	for _, name := range []string{"tesla-c1060", "fermi-c2050", "jetson-tx2"} {
		r := newRig(t, Options{Profile: named(t, name)})
		p := r.alloc(64)
		r.want(cu.ErrorNotSupported, r.StreamWriteValue32(r.ctx, 0, p, 1, 0))
		r.want(cu.ErrorNotSupported, r.StreamWriteValue64(r.ctx, 0, p, 1, 0))
	}
	r := newRig(t, Options{Profile: with(named(t, "h200"), "CAN_USE_64_BIT_STREAM_MEM_OPS", 0)})
	p := r.alloc(64)
	r.ok(r.StreamWriteValue32(r.ctx, 0, p, 1, 0))
	r.want(cu.ErrorNotSupported, r.StreamWriteValue64(r.ctx, 0, p, 1, 0))
}

// TestWriteValueRefusesMemory has the addresses that no case of cutest has.
func TestWriteValueRefusesMemory(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	p := r.alloc(100)
	r.want(cu.ErrorInvalidValue, r.StreamWriteValue32(r.ctx, 0, p+100, 1, 0))
	r.want(cu.ErrorInvalidValue, r.StreamWriteValue64(r.ctx, 0, p+96, 1, 0)) // its end is past the allocation's
	second, err := r.DevicePrimaryCtxRetain(1)
	r.ok(err)
	there, err := r.MemAlloc(second, 64)
	r.ok(err)
	r.want(cu.ErrorInvalidValue, r.StreamWriteValue32(r.ctx, 0, there, 1, 0))
	r.ok(r.CtxEnablePeerAccess(r.ctx, second, 0))
	r.ok(r.StreamWriteValue32(r.ctx, 0, there, 1, 0))
	plain := make([]byte, 64)
	r.ok(r.MemHostRegister(r.ctx, ptr(plain), 64, cu.MemHostRegisterReadOnly))
	at, err := r.MemHostGetDevicePointer(r.ctx, ptr(plain), 0)
	r.ok(err)
	r.want(cu.ErrorInvalidValue, r.StreamWriteValue32(r.ctx, 0, at, 1, 0))
	r.sync(0)
	r.ok(r.MemHostUnregister(r.ctx, ptr(plain)))
}

// TestWriteValueTime measures writes, and fills with a write between them. A write takes
// the time of the profile, and a fill begins a gap after the write before it.
func TestWriteValueTime(t *testing.T) {
	onlyFast(t)
	for _, ns := range []float64{0, 20000} { // 0: left out, so the gap between operations
		p := named(t, "h200")
		p.Calls.Record.Value, p.Calls.Write.Value, p.Calls.MemcpyAsync.Value = 0, 0, 0 // faster than the stream
		write := p.Queue.Gap.Value
		p.Queue.Write.Source = ""
		if ns > 0 {
			p.Queue.Write.Source, p.Queue.Write.Value, write = p.Queue.Gap.Source, ns, ns
		}
		r := newRig(t, Options{Profile: p})
		s, at := r.stream(cu.StreamNonBlocking), r.alloc(4)
		value := func() { r.ok(r.StreamWriteValue32(r.ctx, s, at, 1, 0)) }
		fill := func() { r.ok(r.MemsetD8Async(r.ctx, at, 1, 4, s)) }
		check := func(what string, got, want float64) {
			if got < want*0.95 || got > want*1.05 {
				t.Errorf("%s takes %.0f ns, want %.0f", what, got, want)
			}
		}
		check("a write", r.each(s, value), write)
		check("a write between fills", r.each(s, func() { value(); fill() })-r.each(s, fill), write)
	}
}

// each returns the virtual time in a stream of one of many f, in nanoseconds.
func (r *rig) each(s cu.Stream, f func()) float64 {
	const n = 100
	a, z := r.event(), r.event()
	r.ok(r.EventRecord(r.ctx, a, s))
	for range n {
		f()
	}
	r.ok(r.EventRecord(r.ctx, z, s))
	r.sync(s)
	ms, err := r.EventElapsedTime(r.ctx, a, z)
	r.ok(err)
	return float64(ms) * 1e6 / n
}

// TestWriteValueInAGraph launches a graph whose node writes. The race detector watches it
// too.
func TestWriteValueInAGraph(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		_, b := r.pinned(64)
		word := (*uint32)(unsafe.Pointer(&b[0]))
		s := r.stream(cu.StreamNonBlocking)
		r.ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeRelaxed))
		r.ok(r.StreamWriteValue32(r.ctx, s, cu.DevicePtr(uintptr(unsafe.Pointer(word))), 7, 0))
		g, err := r.StreamEndCapture(r.ctx, s)
		r.ok(err)
		x, err := r.GraphInstantiate(r.ctx, g, 0)
		r.ok(err)
		for range 3 {
			atomic.StoreUint32(word, 0)
			r.ok(r.GraphLaunch(r.ctx, x, s))
			r.sync(s)
			if got := atomic.LoadUint32(word); got != 7 {
				t.Fatalf("got %d, want 7", got)
			}
		}
	})
}
