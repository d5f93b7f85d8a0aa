package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// allocLater takes a buffer of a pool on another goroutine, and returns when that waits or has ended.
func allocLater(ctx context.Context, h *ferry.Host[byte], p *ferry.PinnedPool, n int) <-chan error {
	done, begun := make(chan error, 1), make(chan struct{})
	go func() { close(begun); done <- h.AllocContext(ctx, p, n) }()
	<-begun
	for range 100 {
		runtime.Gosched()
	}
	return done
}

// TestAllocContext: a request at the limit of a pool waits for a buffer that is closed, at once or in
// flight, on all schedules. The end of ctx ends the wait. Requests that can never succeed do not wait.
func TestAllocContext(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		g := openSoft(t, "h200", schedule)
		p := newPinnedPool(t, g, &ferry.PinnedPoolOptions{Max: 1 << 20})
		s := must(ferry.NewStream(g, nil))(t)
		d := must(ferry.Alloc[byte](g, 1<<20))(t)
		var a, b ferry.Host[byte]
		check(t, a.AllocContext(t.Context(), p, 1<<20))
		wantError(t, b.Alloc(p, 1), cu.ErrorOutOfMemory, "the pool may have 1.0 MiB")
		wantError(t, b.AllocContext(t.Context(), p, 1<<20+1), cu.ErrorOutOfMemory, "the pool may have 1.0 MiB")
		eventually(t, "the context ends while a request waits", func() bool {
			ctx, cancel := context.WithCancel(t.Context())
			done := allocLater(ctx, &b, p, 1)
			cancel()
			err := <-done
			wantError(t, err, context.Canceled, "wait for memory", "allocate 1 byte from a pool")
			if !errors.Is(err, cu.ErrorOutOfMemory) {
				t.Errorf("%v does not say what it waited for", err)
			}
			return strings.Contains(err.Error(), "the pool may have 1.0 MiB") // else it ended before the request waited
		})

		done := allocLater(t.Context(), &b, p, 1<<20)
		closeAll(t, &a)
		check(t, <-done)

		open := gate(t, s)
		check(t, ferry.Copy(s, d, &b))
		closeAll(t, &b) // in flight
		done = allocLater(t.Context(), &a, p, 1<<20)
		select {
		case err := <-done:
			t.Errorf("it did not wait for a buffer in flight: %v", err)
		default:
		}
		open()
		check(t, <-done) // nobody else waits for the stream
		failed := make(chan error, 1)
		check(t, s.HostFunc(func() { failed <- b.AllocContext(context.Background(), p, 1) }))
		check(t, s.Wait(t.Context()))
		wantError(t, <-failed, cu.ErrorNotPermitted)
		closeAll(t, &a, d, s)
		wantError(t, (*ferry.Host[byte])(nil).AllocContext(t.Context(), p, 1), cu.ErrorInvalidValue, "no buffer")
		wantError(t, b.AllocContext(t.Context(), nil, 1), cu.ErrorInvalidValue, "no pool")
	}
}

// TestAllocContextClosedPool: Close of the pool ends the wait.
func TestAllocContextClosedPool(t *testing.T) {
	g := openTest(t)
	p := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Max: 1 << 20}))(t)
	var a, b ferry.Host[byte]
	check(t, a.Alloc(p, 1<<20))
	done := allocLater(t.Context(), &b, p, 1)
	closeAll(t, p)
	wantError(t, <-done, ferry.ErrClosed, "a pool of page-locked memory")
	closeAll(t, &a)
}

// TestAllocContextLimitHost: a request beyond the limit of the GPU waits for other memory of any kind, and
// for a higher limit. One that the limit can never hold does not.
func TestAllocContextLimitHost(t *testing.T) {
	g := openTest(t)
	p := newPinnedPool(t, g, nil)
	check(t, g.LimitHost(40<<20))
	other := must(ferry.AllocHost[byte](g, 30<<20, nil))(t)
	var a, b ferry.Host[byte]
	done := allocLater(t.Context(), &a, p, 20<<20)
	closeAll(t, other)
	check(t, <-done)
	done = allocLater(t.Context(), &b, p, 25<<20)
	check(t, g.LimitHost(80<<20))
	check(t, <-done)
	wantError(t, new(ferry.Host[byte]).AllocContext(t.Context(), p, 100<<20), cu.ErrorOutOfMemory, "take less, or raise the limit")
	closeAll(t, &a, &b)
}

// TestAllocContextAtOnce: many goroutines move data through a small pool, and each gets its buffers in
// the end. No byte of a buffer in flight changes.
func TestAllocContextAtOnce(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	g := openTest(t)
	p := newPinnedPool(t, g, &ferry.PinnedPoolOptions{Max: 256 << 10})
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			const most = 128 << 10
			d := must(ferry.Alloc[byte](g, most))(t)
			got := make([]byte, most)
			for round := range 20 {
				n := 1 + r.IntN(most)
				var h ferry.Host[byte]
				check(t, h.AllocContext(context.Background(), p, n))
				b := h.Slice()
				for j := range b {
					b[j] = byte(i + round)
				}
				check(t, ferry.Copy(s, d.Range(0, n), &h))
				closeAll(t, &h) // in flight
				if r.IntN(2) == 0 {
					continue
				}
				check(t, ferry.Copy(s, ferry.Pageable(got[:n]), d.Range(0, n)))
				for j, v := range got[:n] {
					if v != byte(i+round) {
						t.Errorf("goroutine %d, round %d: byte %d is %d, want %d", i, round, j, v, byte(i+round))
						break
					}
				}
			}
			closeAll(t, d, s)
		})
	}
	all.Wait()
	if s := must(p.Stats())(t); s.MostPinned > 256<<10 {
		t.Errorf("beyond its limit: %+v", s)
	}
}
