package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/softgpu"
)

// endLimit is how long a call may take after the end of its context: a second with
// FERRY_STRICT=1, which needs a machine that does nothing else. The streams stand still for
// longer than any limit.
func endLimit() time.Duration {
	if os.Getenv(hostile.Strict) == "1" {
		return time.Second
	}
	return timeout
}

// contextCall is a call that waits while a stream stands still.
type contextCall struct {
	of     string // the function, as declared names it
	call   func(ctx context.Context) error
	atOnce bool // it need not wait, and then returns another result
}

// hanging is a Reader and a Writer whose calls return when the channel is closed.
type hanging chan struct{}

func (h hanging) Read([]byte) (int, error)  { <-h; return 0, io.EOF }
func (h hanging) Write([]byte) (int, error) { <-h; return 0, io.ErrClosedPipe }

// TestContextEnds: every function and method that takes a context returns its error soon after the
// end of the context, while a stream stands still. There is a call of each: of those that move
// data, one for each kind of memory. Some give memory back, which no other call may wait for.
func TestContextEnds(t *testing.T) {
	t.Run("device=holding", func(t *testing.T) {
		testContextEnds(t, openDriver(t, &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}))
	})
	t.Run("device=default", func(t *testing.T) { testContextEnds(t, openTest(t)) })
}

func testContextEnds(t *testing.T, g *ferry.GPU) {
	s, other := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	const n = 8 << 20
	host, device := must(ferry.AllocHost[byte](g, n, nil))(t), must(ferry.Alloc[byte](g, n))(t)
	managed := must(ferry.AllocManaged[byte](g, n, nil))(t)
	pool := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Max: 1 << 20}))(t)
	memory, got := make([]byte, n), make([]byte, n)
	registered := must(ferry.Register(g, make([]byte, n), nil))(t)
	var pooled ferry.Host[byte]
	check(t, pooled.Alloc(pool, 1<<20))
	stuck := make(hanging)
	open := gate(t, s)
	check(t, ferry.Copy(s, host, device))
	check(t, ferry.Copy(s, managed, device))
	check(t, ferry.Copy(s, device, registered))
	check(t, ferry.Copy(s, &pooled, device.Range(0, 1<<20)))
	check(t, pooled.Close()) // its memory is in flight, and the pool has no other
	check(t, s.Record(e))
	from, to := ferry.Pageable(memory), ferry.Pageable(got)
	all := map[string]contextCall{
		"wait for the GPU":        {"GPU.Wait", g.Wait, false},
		"wait for a stream":       {"Stream.Wait", s.Wait, false},
		"wait for an event":       {"Event.Wait", e.Wait, false},
		"wait for device memory":  {"Device.Wait", device.Wait, false},
		"wait for host memory":    {"Host.Wait", host.Wait, false},
		"wait for a registration": {"Host.Wait", registered.Wait, true}, // it is only read
		"wait for managed memory": {"Managed.Wait", managed.Wait, false},
		"slice":                   {"Host.SliceContext", func(ctx context.Context) error { return last(host.SliceContext(ctx)) }, false},
		"slice of a registration": {"Host.SliceContext", func(ctx context.Context) error { return last(registered.SliceContext(ctx)) }, false},
		"read":                    {"Host.ReadSliceContext", func(ctx context.Context) error { return last(host.ReadSliceContext(ctx)) }, false},
		"slice of managed":        {"Managed.SliceContext", func(ctx context.Context) error { return last(managed.SliceContext(ctx)) }, false},
		"read managed":            {"Managed.ReadSliceContext", func(ctx context.Context) error { return last(managed.ReadSliceContext(ctx)) }, false},
		"copy to pageable":        {"CopyContext", func(ctx context.Context) error { return ferry.CopyContext(ctx, s, to, device) }, false},
		"copy to little pageable": {"CopyContext", func(ctx context.Context) error {
			return ferry.CopyContext(ctx, s, to.Range(0, 100), device.Range(0, 100))
		}, false},
		"copy from pageable": {"CopyContext", func(ctx context.Context) error { return ferry.CopyContext(ctx, s, device, from) }, true},
		"copy from little pageable": {"CopyContext", func(ctx context.Context) error {
			return ferry.CopyContext(ctx, s, device.Range(0, 100), from.Range(0, 100))
		}, true},
		"copy pageable to pageable": {"CopyContext", func(ctx context.Context) error { return ferry.CopyContext(ctx, s, to, from) }, false},
		"copy to host memory":       {"CopyContext", func(ctx context.Context) error { return ferry.CopyContext(ctx, s, host, device) }, true},
		"copy managed":              {"CopyContext", func(ctx context.Context) error { return ferry.CopyContext(ctx, s, to, managed) }, false},
		"from a reader to device":   {"CopyFrom", func(ctx context.Context) error { return last(ferry.CopyFrom(ctx, s, device, bytes.NewReader(memory))) }, false},
		"from a reader to host":     {"CopyFrom", func(ctx context.Context) error { return last(ferry.CopyFrom(ctx, s, host, bytes.NewReader(memory))) }, false},
		"from a reader to managed":  {"CopyFrom", func(ctx context.Context) error { return last(ferry.CopyFrom(ctx, s, managed, bytes.NewReader(memory))) }, false},
		"from a reader that hangs":  {"CopyFrom", func(ctx context.Context) error { return last(ferry.CopyFrom(ctx, other, to, stuck)) }, false},
		"to a writer from device":   {"CopyTo", func(ctx context.Context) error { return last(ferry.CopyTo(ctx, s, io.Discard, device)) }, false},
		"to a writer from host":     {"CopyTo", func(ctx context.Context) error { return last(ferry.CopyTo(ctx, s, io.Discard, host)) }, false},
		"to a writer from managed":  {"CopyTo", func(ctx context.Context) error { return last(ferry.CopyTo(ctx, s, io.Discard, managed)) }, false},
		"to a writer that hangs":    {"CopyTo", func(ctx context.Context) error { return last(ferry.CopyTo(ctx, other, stuck, from)) }, false},
		"page-lock":                 {"AllocHostContext", allocAndClose(g, 64<<20, nil), true},
		"page-lock write-combined":  {"AllocHostContext", allocAndClose(g, 1<<20, &ferry.HostOptions{WriteCombined: true}), true},
		"allocate from a full pool": {"AllocHostContext", allocAndClose(g, 1<<20, &ferry.HostOptions{Pool: pool}), true},
		"warm a full pool":          {"PinnedPool.Warm", func(ctx context.Context) error { return pool.Warm(ctx, 1<<20) }, true},
	}
	called := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		called[all[name].of] = true
		wantContextEnds(t, name, all[name])
	}
	var takers []string
	for name, d := range declared(t) {
		if d.context {
			takers = append(takers, name)
		}
	}
	wantAll(t, "the end of contexts", called, takers)
	open()
	close(stuck)
	check(t, s.Wait(context.Background()))
	check(t, other.Wait(context.Background()))
	closeAll(t, host, device, managed, registered, pool, e, s, other)
}

// allocAndClose returns a call of AllocHostContext.
func allocAndClose(g *ferry.GPU, n int, o *ferry.HostOptions) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		h, err := ferry.AllocHostContext[byte](ctx, g, n, o)
		if err != nil {
			return err
		}
		go h.Close() // the driver may wait for the device
		return nil
	}
}

// wantContextEnds calls c with a context that ends soon.
func wantContextEnds(t *testing.T, name string, c contextCall) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), shortWait)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.call(ctx) }()
	select {
	case err := <-done:
		if !c.atOnce && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want the context's error", name, err)
		}
		if c.atOnce && ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded) && err != nil {
			t.Errorf("%s: got %v after the end of the context, want its error", name, err)
		}
	case <-time.After(shortWait + endLimit()):
		t.Errorf("%s: did not return %v after the end of its context", name, endLimit())
	}
}
