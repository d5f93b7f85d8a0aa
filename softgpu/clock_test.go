package softgpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// clockProgram makes random calls of every kind that takes time, on several
// streams. It waits for single streams and events between them, so that other
// streams have work that was not executed. It returns the virtual times that it
// saw.
func clockProgram(t *testing.T, o Options, seed uint64) (all []float64) {
	r := newRig(t, o)
	rng := rand.New(rand.NewPCG(seed, 11))
	const n = 1 << 18
	add := r.shipped("vector_add")
	streams := []cu.Stream{0, r.stream(0), r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)}
	events := make([]cu.Event, len(streams))
	marks := make([]cu.Event, len(streams))
	type own struct {
		dev    cu.DevicePtr
		pinned cu.HostPtr
		page   []byte
		man    cu.DevicePtr
	}
	mem := make([]own, len(streams))
	shared := r.alloc(n * uintptr(len(streams))) // each stream uses a part of it
	for i := range streams {
		events[i], marks[i] = r.event(), r.event()
		m, err := r.MemAllocManaged(r.ctx, n, cu.MemAttachGlobal)
		r.ok(err)
		p, _ := r.pinned(n)
		mem[i] = own{shared + cu.DevicePtr(n*i), p, make([]byte, n), m}
		r.ok(r.EventRecord(r.ctx, events[i], streams[i]))
	}
	launch := func(at cu.DevicePtr, bytes uint64, s cu.Stream) {
		r.ok(r.LaunchKernel(r.ctx, add, cu.Dim3{X: uint32(1 + rng.IntN(64)), Y: 1, Z: 1}, cu.Dim3{X: 128, Y: 1, Z: 1}, 0, s,
			params64(uint64(at), uint64(at), uint64(at), bytes/4)))
	}
	for range 60 {
		i := rng.IntN(len(streams))
		s, m, size := streams[i], &mem[i], uintptr(64<<rng.IntN(12))
		switch rng.IntN(16) {
		case 0:
			r.ok(r.MemcpyHtoDAsync(r.ctx, m.dev, m.pinned, size, s))
		case 1:
			r.ok(r.MemcpyDtoHAsync(r.ctx, m.pinned, m.dev, size, s))
		case 2:
			r.ok(r.MemcpyHtoDAsync(r.ctx, m.dev, ptr(m.page), size, s))
		case 3:
			r.ok(r.MemcpyDtoHAsync(r.ctx, ptr(m.page), m.dev, size, s))
		case 4, 5, 6:
			launch(m.dev, uint64(size), s)
		case 7:
			launch(m.man, uint64(size), s)
		case 8:
			r.ok(r.MemPrefetchAsync(r.ctx, m.man, size, []cu.Device{0, cu.CPUDevice}[rng.IntN(2)], s))
		case 9:
			r.ok(r.HostAccess(m.pinned, size, rng.IntN(2) == 0))
		case 10:
			r.sync(s)
			r.ok(r.HostAccess(hostPointer(uint64(m.man)), size, rng.IntN(2) == 0))
		case 11:
			r.ok(r.LaunchHostFunc(r.ctx, s, func() {}))
		case 12:
			r.ok(r.EventRecord(r.ctx, events[i], s))
		case 13:
			r.ok(r.StreamWaitEvent(r.ctx, s, events[rng.IntN(len(events))], 0))
		case 14:
			r.ok(r.EventSynchronize(r.ctx, events[i]))
		case 15:
			r.sync(s)
			if rng.IntN(3) == 0 {
				all = append(all, float64(r.Now()))
			}
		}
	}
	for i, s := range streams {
		r.ok(r.EventRecord(r.ctx, marks[i], s))
	}
	for i := range streams {
		for r.EventQuery(r.ctx, marks[i]) != nil {
		}
		ms, err := r.EventElapsedTime(r.ctx, events[i], marks[i])
		r.ok(err)
		all = append(all, float64(ms))
	}
	r.ok(r.CtxSynchronize(r.ctx))
	return append(all, float64(r.Now()))
}

// Virtual times do not depend on the schedule.
func TestOneClock(t *testing.T) {
	programs, seeds := uint64(sample.Count(5, 16)), sample.Count(2, 4)
	if raceBuild {
		programs, seeds = 2, 1
	}
	for p := range programs {
		var want string
		for _, o := range schedules(seeds) {
			got := fmt.Sprint(clockProgram(t, o, p))
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("program %d takes under %v, seed %d:\n%v\nunder eager:\n%v", p, o.Schedule, o.Seed, got, want)
			}
		}
	}
}
