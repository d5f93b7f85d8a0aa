package softgpu

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
)

// rig is a driver with the primary context of device 0.
type rig struct {
	*Driver
	t   testing.TB
	ctx cu.Context
}

func newRig(t testing.TB, opts Options) *rig {
	t.Helper()
	d, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Init(0); err != nil {
		t.Fatal(err)
	}
	ctx, err := d.DevicePrimaryCtxRetain(0)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{d, t, ctx}
	t.Cleanup(func() { d.DevicePrimaryCtxReset(0) })
	return r
}

func named(t testing.TB, name string) *profile.Profile {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// oneThread reports whether all goroutines share a thread, as on js/wasm.
const oneThread = runtime.GOARCH == "wasm"

// needsThreads skips a test in which the host must run between two steps of an instruction.
func needsThreads(t *testing.T) {
	t.Helper()
	if oneThread {
		t.Skip("host and kernels share one thread on this platform")
	}
}

// every runs f under each schedule, in a race build under one of them.
func every(t *testing.T, f func(t *testing.T, r *rig)) {
	schedules := []Schedule{Eager, Lazy, Random}
	if sample.Race() {
		schedules = sample.Of(t, schedules, 1)
	}
	for _, s := range schedules {
		t.Run(s.String(), func(t *testing.T) {
			f(t, newRig(t, Options{Schedule: s, Seed: 7}))
		})
	}
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// want fails unless err is code.
func (r *rig) want(code cu.Result, err error) {
	r.t.Helper()
	if !errors.Is(err, code) {
		r.t.Fatalf("got %v, want %s", err, code.Name())
	}
}

func (r *rig) alloc(n uintptr) cu.DevicePtr {
	r.t.Helper()
	p, err := r.MemAlloc(r.ctx, n)
	r.ok(err)
	return p
}

// newPinned returns page-locked memory with the contents that the driver gives it.
func (r *rig) newPinned(n uintptr) (cu.HostPtr, []byte) {
	r.t.Helper()
	p, err := r.MemHostAlloc(r.ctx, n, 0)
	r.ok(err)
	return p, unsafe.Slice((*byte)(p), n)
}

// pinned returns page-locked memory that holds zeros.
func (r *rig) pinned(n uintptr) (cu.HostPtr, []byte) {
	r.t.Helper()
	p, b := r.newPinned(n)
	clear(b)
	return p, b
}

func (r *rig) stream(flags cu.StreamFlags) cu.Stream {
	r.t.Helper()
	s, err := r.StreamCreate(r.ctx, flags)
	r.ok(err)
	return s
}

func (r *rig) event() cu.Event {
	r.t.Helper()
	e, err := r.EventCreate(r.ctx, 0)
	r.ok(err)
	return e
}

func (r *rig) sync(s cu.Stream) {
	r.t.Helper()
	r.ok(r.StreamSynchronize(r.ctx, s))
}

// mappedWords returns page-locked memory for the host and for kernels.
func (r *rig) mappedWords() ([]uint32, cu.DevicePtr) {
	r.t.Helper()
	p, b := r.pinned(4096)
	return unsafe.Slice((*uint32)(p), len(b)/4), cu.DevicePtr(uintptr(p))
}

// gate starts kernel ping in a stream. Nothing behind it runs until open is
// called.
func (r *rig) gate(ping cu.Function, s cu.Stream) (open func()) {
	r.t.Helper()
	hp, _ := r.pinned(256)
	dp := cu.DevicePtr(uintptr(hp))
	r.ok(r.run(ping, 1, 1, s, dp, dp+128))
	return func() { atomic.StoreUint32((*uint32)(unsafe.Add(hp, 128)), 1) }
}

func ptr(b []byte) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(b)) }

// pattern returns n bytes that differ by position and by seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 ^ byte(i>>8) ^ seed
	}
	return b
}

func TestRoundTrips(t *testing.T) {
	for _, prof := range []string{"h200", "fermi-c2050"} {
		t.Run(prof, func(t *testing.T) {
			r := newRig(t, Options{Profile: named(t, prof)})
			for _, n := range []int{1, 511, 4096, 65536, 65537, 3 << 20} {
				dev := r.alloc(uintptr(n))
				want := pattern(n, byte(n))
				got := make([]byte, n)
				r.ok(r.MemcpyHtoD(r.ctx, dev, ptr(want), uintptr(n)))
				r.ok(r.MemcpyDtoH(r.ctx, ptr(got), dev, uintptr(n)))
				if !bytes.Equal(got, want) {
					t.Errorf("%d bytes came back changed", n)
				}
				r.ok(r.MemFree(r.ctx, dev))
			}
		})
	}
}

func TestPinnedCopiesInAStream(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		const n = 100_000
		s := r.stream(cu.StreamNonBlocking)
		dev := r.alloc(n)
		hp, host := r.pinned(n)
		back, got := r.pinned(n)
		copy(host, pattern(n, 3))
		r.ok(r.MemcpyHtoDAsync(r.ctx, dev, hp, n, s))
		r.ok(r.MemcpyDtoHAsync(r.ctx, back, dev, n, s))
		r.sync(s)
		if !bytes.Equal(got, pattern(n, 3)) {
			t.Error("the bytes came back changed")
		}
		r.ok(r.MemFreeHost(r.ctx, hp))
		r.want(cu.ErrorInvalidValue, r.MemFreeHost(r.ctx, hp))
	})
}

func TestLazyShowsAMissingSynchronization(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports the missing synchronization")
	}
	r := newRig(t, Options{Schedule: Lazy})
	const n = 4096
	s := r.stream(cu.StreamNonBlocking)
	other := r.stream(cu.StreamNonBlocking)
	dev := r.alloc(n)
	hp, host := r.pinned(n)
	r.ok(r.MemsetD8(r.ctx, dev, 9, n))
	r.ok(r.CtxSynchronize(r.ctx))
	r.ok(r.MemcpyDtoHAsync(r.ctx, hp, dev, n, s))
	r.sync(other) // the wrong stream
	if host[0] != 0 {
		t.Error("the copy ran although no call waited for it")
	}
	r.sync(s)
	if host[0] != 9 {
		t.Error("the copy did not run")
	}
}

func TestLazyReleasesIdleWork(t *testing.T) {
	r := newRig(t, Options{Schedule: Lazy})
	done := make(chan struct{})
	r.ok(r.LaunchHostFunc(r.ctx, 0, func() { close(done) }))
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("queued work was never released")
	}
}

func TestRandomIsTheSameForASeed(t *testing.T) {
	order := func(seed uint64) (out []int) {
		r := newRig(t, Options{Schedule: Random, Seed: seed})
		var mu sync.Mutex // functions in several streams are not ordered
		for i := range 12 {
			s := r.stream(cu.StreamNonBlocking)
			r.ok(r.LaunchHostFunc(r.ctx, s, func() {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, i)
			}))
		}
		r.ok(r.CtxSynchronize(r.ctx))
		return out
	}
	differ := false
	for seed := range uint64(5) {
		a, b := order(seed), order(seed)
		if len(a) != 12 || !equalInts(a, b) {
			t.Fatalf("seed %d: %v and %v", seed, a, b)
		}
		differ = differ || !equalInts(a, order(seed+100))
	}
	if !differ {
		t.Error("every seed gave the same order")
	}
}

func equalInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestNoGoroutineStays(t *testing.T) {
	if raceBuild {
		t.Skip("the goroutines of the last operations are kept for reports")
	}
	before := runtime.NumGoroutine()
	for _, s := range []Schedule{Eager, Lazy, Random} {
		r := newRig(t, Options{Schedule: s})
		for range 20 {
			st := r.stream(0)
			r.ok(r.LaunchHostFunc(r.ctx, st, func() { runtime.Gosched() }))
			r.ok(r.StreamDestroy(r.ctx, st))
		}
		r.ok(r.CtxSynchronize(r.ctx))
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
