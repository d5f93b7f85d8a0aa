package softgpu

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// pageableCopies are the calls that copy n bytes of pageable memory to the device.
// The copies of rectangles have rows of 1024 bytes.
var pageableCopies = map[string]func(r *rig, dst cu.DevicePtr, src []byte, s cu.Stream) error{
	"cuMemcpyHtoD": func(r *rig, dst cu.DevicePtr, src []byte, _ cu.Stream) error {
		return r.MemcpyHtoD(r.ctx, dst, ptr(src), uintptr(len(src)))
	},
	"cuMemcpy": func(r *rig, dst cu.DevicePtr, src []byte, _ cu.Stream) error {
		return r.Memcpy(r.ctx, dst, cu.DevicePtr(addressOf(ptr(src))), uintptr(len(src)))
	},
	"cuMemcpyHtoDAsync": func(r *rig, dst cu.DevicePtr, src []byte, s cu.Stream) error {
		return r.MemcpyHtoDAsync(r.ctx, dst, ptr(src), uintptr(len(src)), s)
	},
	"cuMemcpy2D": func(r *rig, dst cu.DevicePtr, src []byte, _ cu.Stream) error {
		return r.Memcpy2D(r.ctx, &cu.Memcpy2D{SrcMemoryType: cu.MemoryTypeHost, SrcHost: ptr(src), SrcPitch: 1024,
			DstMemoryType: cu.MemoryTypeDevice, DstDevice: dst, DstPitch: 1024, WidthInBytes: 1024, Height: uintptr(len(src) / 1024)})
	},
}

// staleBytes copies to the device by call, changes the source, and reads the
// destination at once in a non-blocking stream. It returns how many bytes were old.
func staleBytes(t *testing.T, o Options, call string, n int) int {
	r := newRig(t, o)
	r.idleAfter = time.Minute // on a busy computer 250 ms can pass between two calls
	dst, src, s := r.alloc(uintptr(n)), bytes.Repeat([]byte{7}, n), r.stream(cu.StreamNonBlocking)
	out, seen := r.pinned(uintptr(n))
	r.ok(r.MemsetD8(r.ctx, dst, 1, uintptr(n)))
	r.ok(r.CtxSynchronize(r.ctx))
	own := r.stream(0)
	r.ok(pageableCopies[call](r, dst, src, own))
	clear(src)
	r.ok(r.MemcpyDtoHAsync(r.ctx, out, dst, uintptr(n), s))
	r.sync(s)
	stale := bytes.Count(seen, []byte{1})
	if stale+bytes.Count(seen, []byte{7}) != n {
		t.Errorf("%v, %s of %d bytes under %v: bytes that are neither old nor new", o.Seed, call, n, o.Schedule)
	}
	r.ok(r.CtxSynchronize(r.ctx))
	r.ok(r.MemcpyDtoHAsync(r.ctx, out, dst, uintptr(n), own))
	r.sync(own)
	if got := bytes.Count(seen, []byte{7}); got != n {
		t.Errorf("%s of %d bytes under %v: %d are there after a synchronization", call, n, o.Schedule, got)
	}
	return stale
}

// A copy from pageable memory returns before the bytes have arrived, at every
// size and in every form.
func TestPageableCopyIsLate(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports these programs")
	}
	for call := range pageableCopies {
		for _, n := range []int{4 << 10, 100 << 10, 3 << 20} {
			if got := staleBytes(t, Options{Schedule: Lazy}, call, n); got != n {
				t.Errorf("%s of %d bytes under lazy: %d bytes are late, want all", call, n, got)
			}
		}
		early, late := 0, 0
		for seed := range uint64(20) {
			if staleBytes(t, Options{Schedule: Random, Seed: seed}, call, 256<<10) > 0 {
				late++
			} else {
				early++
			}
		}
		if early == 0 || late == 0 {
			t.Errorf("%s: the bytes are late under %d of %d seeds", call, late, early+late)
		}
		if got := staleBytes(t, Options{}, call, 256<<10); got != 0 && call == "cuMemcpyHtoD" {
			t.Errorf("%s under eager: %d bytes are late", call, got)
		}
	}
}

// A long copy keeps a bounded number of bytes in flight.
func TestLongPageableCopyIsLateInPart(t *testing.T) {
	if raceBuild {
		t.Skip("the memory is larger than what the race detector sees")
	}
	if got := staleBytes(t, Options{Schedule: Lazy}, "cuMemcpyHtoD", maxInFlight+8<<20); got != maxInFlight {
		t.Errorf("%d bytes are late, want %d", got, maxInFlight)
	}
}

// What the rules of streams order after a copy from pageable memory sees its bytes.
func TestOrderAfterPageableCopy(t *testing.T) {
	const n = 1 << 20
	for _, o := range schedules(6) {
		r := newRig(t, o)
		dst, s, other, e := r.alloc(n), r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking), r.event()
		out, seen := r.pinned(n)
		look := func(how string, want byte, s cu.Stream) {
			t.Helper()
			r.ok(r.MemcpyDtoHAsync(r.ctx, out, dst, n, s))
			r.sync(s)
			if got := bytes.Count(seen, []byte{want}); got != n {
				t.Errorf("%s, under %v, seed %d: %d of %d bytes have arrived", how, o.Schedule, o.Seed, got, n)
			}
		}
		src := func(v byte) []byte { return bytes.Repeat([]byte{v}, n) }
		r.ok(r.MemcpyHtoDAsync(r.ctx, dst, ptr(src(1)), n, s))
		look("the same stream", 1, s)
		r.ok(r.MemcpyHtoDAsync(r.ctx, dst, ptr(src(2)), n, s))
		r.ok(r.EventRecord(r.ctx, e, s))
		r.ok(r.StreamWaitEvent(r.ctx, other, e, 0))
		look("an event", 2, other)
		r.ok(r.MemcpyHtoD(r.ctx, dst, ptr(src(3)), n))
		look("a blocking stream after the legacy stream", 3, r.stream(0))
		r.ok(r.MemcpyHtoD(r.ctx, dst, ptr(src(4)), n))
		r.sync(0)
		look("synchronizing the legacy stream", 4, other)
	}
}

// A synchronous copy waits for the work before it, although its own bytes are late.
func TestPageableCopyWaitsForItsStream(t *testing.T) {
	for _, o := range schedules(4) {
		r := newRig(t, o)
		ran := false
		r.ok(r.LaunchHostFunc(r.ctx, 0, func() { ran = true }))
		r.ok(r.MemcpyHtoD(r.ctx, r.alloc(1<<20), ptr(make([]byte, 1<<20)), 1<<20))
		if !ran {
			t.Errorf("under %v, seed %d: the copy returned before the host function had run", o.Schedule, o.Seed)
		}
		r.ok(r.CtxSynchronize(r.ctx))
	}
}

// The error of a copy whose bytes are late is not lost.
func TestErrorOfLatePageableCopy(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports this program")
	}
	for _, o := range schedules(2) {
		r := newRig(t, o)
		s := r.stream(cu.StreamNonBlocking)
		p, err := r.MemAllocAsync(r.ctx, 1<<20, s)
		r.ok(err)
		r.ok(r.MemFreeAsync(r.ctx, p, s))
		err = r.MemcpyHtoD(r.ctx, p, ptr(make([]byte, 1<<20)), 1<<20)
		if err == nil {
			err = r.CtxSynchronize(r.ctx)
		}
		if err == nil {
			t.Errorf("under %v: a copy to freed memory has no error", o.Schedule)
		}
	}
}

// The virtual time of a copy does not depend on when its bytes arrive.
func TestTimeOfLatePageableCopy(t *testing.T) {
	const n = 1 << 20
	var want string
	for _, o := range schedules(6) {
		r := newRig(t, o)
		dst, src, s := r.alloc(n), make([]byte, n), r.stream(0)
		out, _ := r.pinned(n)
		var all []float64
		for i := range 6 {
			for _, call := range []string{"cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemcpy2D"} {
				r.ok(pageableCopies[call](r, dst, src[:n>>i], s))
			}
			r.ok(r.MemcpyDtoHAsync(r.ctx, out, dst, n, s))
			r.ok(pageableCopies["cuMemcpyHtoD"](r, dst, src, s))
			r.sync(s)
			all = append(all, float64(r.Now()))
		}
		if got := fmt.Sprint(all); want == "" {
			want = got
		} else if got != want {
			t.Errorf("under %v, seed %d:\n%v\nunder eager:\n%v", o.Schedule, o.Seed, got, want)
		}
	}
}

// TestListUsesPageableMemoryLater: a list of copies reads and writes pageable memory when
// its stream gets there, and not in the call.
func TestListUsesPageableMemoryLater(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports this program")
	}
	const n = 192 << 10
	r := newRig(t, Options{Schedule: Lazy})
	r.idleAfter = time.Minute
	p, s := r.alloc(n), r.stream(cu.StreamNonBlocking)
	src, dst := bytes.Repeat([]byte{7}, n), make([]byte, n)
	list := func(dst, src cu.DevicePtr) error {
		return r.MemcpyBatchAsync(r.ctx, []cu.DevicePtr{dst}, []cu.DevicePtr{src}, []uintptr{n}, s)
	}
	r.ok(list(p, cu.DevicePtr(addressOf(ptr(src)))))
	copy(src, bytes.Repeat([]byte{9}, n))
	r.ok(list(cu.DevicePtr(addressOf(ptr(dst))), p))
	if got := bytes.Count(dst, []byte{0}); got != n {
		t.Errorf("%d of %d bytes had not arrived when the call returned, want all", got, n)
	}
	r.sync(s)
	if got := bytes.Count(dst, []byte{9}); got != n {
		t.Errorf("%d of %d bytes are what the source had later, want all", got, n)
	}
}
