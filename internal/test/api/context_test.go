package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestNilContext: every function and method that takes a context takes nil as one that never
// ends. Those that wait return when their work is done, not before.
func TestNilContext(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 1000, nil))(t), must(ferry.Alloc[byte](g, 1000))(t)
	managed := must(ferry.AllocManaged[byte](g, 1000, nil))(t)
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	defer closeAll(t, host, device, managed, pool, e, s)
	want, got := make([]byte, 1000), make([]byte, 1000)
	wantSlice := func(slice []byte, err error) error {
		if !bytes.Equal(slice, want) {
			t.Errorf("the slice has other bytes than were copied")
		}
		return err
	}
	var none context.Context // nil
	waitsFor := map[string]func() error{
		"GPU.Wait":                    func() error { return g.Wait(none) },
		"Stream.Wait":                 func() error { return s.Wait(none) },
		"Event.Wait":                  func() error { return e.Wait(none) },
		"Device.Wait":                 func() error { return device.Wait(none) },
		"Host.Wait":                   func() error { return host.Wait(none) },
		"MemoryView.Wait":             func() error { return ferry.View[uint16](host).Wait(none) },
		"MemoryView.SliceContext":     func() error { return last(ferry.View[uint16](host).SliceContext(none)) },
		"MemoryView.ReadSliceContext": func() error { return last(ferry.View[uint16](host).ReadSliceContext(none)) },
		"Managed.Wait":                func() error { return managed.Wait(none) },
		"Host.SliceContext":           func() error { return wantSlice(host.SliceContext(none)) },
		"Host.ReadSliceContext":       func() error { return wantSlice(host.ReadSliceContext(none)) },
		"Managed.SliceContext":        func() error { return wantSlice(managed.SliceContext(none)) },
		"Managed.ReadSliceContext":    func() error { return wantSlice(managed.ReadSliceContext(none)) },
		"CopyContext":                 func() error { return ferry.CopyContext[byte](none, s, ferry.Pageable(got), host) },
		"CopyFrom":                    func() error { return last(ferry.CopyFrom[byte](none, s, host, bytes.NewReader(want))) },
		"CopyParts": func() error {
			return last(ferry.CopyParts(none, s, []ferry.ReadPart{{Src: bytes.NewReader(want), Dst: host}}, nil))
		},
		"CopyPartsTo": func() error {
			return last(ferry.CopyPartsTo(none, s, bytes.NewBuffer(got[:0]), []ferry.Memory[byte]{device}, nil))
		},
		"CopyTo": func() error { return last(ferry.CopyTo[byte](none, s, bytes.NewBuffer(got[:0]), device)) },
	}
	returns := map[string]func() error{
		"AllocHostContext": func() error {
			h, err := ferry.AllocHostContext[byte](none, g, 1<<20, nil)
			if err == nil {
				err = h.Close()
			}
			return err
		},
		"Host.AllocContext": func() error {
			var h ferry.Host[byte]
			err := h.AllocContext(none, pool, 10)
			return errors.Join(err, h.Close())
		},
		"PinnedPool.Warm": func() error { return pool.Warm(none, 4096) },
		"Staging.Warm":    func() error { return g.Staging().Warm(none) },
	}
	all := map[string]bool{}
	for name, wait := range waitsFor {
		all[name] = true
		fillRandom(want)
		check(t, ferry.Copy(s, device, ferry.Pageable(want)))
		open := gate(t, s)
		check(t, ferry.Copy(s, host, device))
		check(t, ferry.Copy(s, managed, device))
		check(t, ferry.Copy(s, device.Range(0, 500), host.Range(0, 500)))
		check(t, s.Record(e))
		waits(t, name, open, func() {
			if err := wait(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		check(t, s.Wait(context.Background()))
		if (name == "CopyContext" || name == "CopyTo" || name == "CopyPartsTo") && !bytes.Equal(got, want) {
			t.Errorf("%s: the bytes differ", name)
		}
	}
	for name, f := range returns {
		all[name] = true
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var names []string
	for name, d := range declared(t) {
		if d.context {
			names = append(names, name)
		}
	}
	wantAll(t, "contexts", all, names)
}

// TestEndedContext: with a context that has ended every function and method that would wait
// returns the error of the context. The work goes on.
func TestEndedContext(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 1000, nil))(t), must(ferry.Alloc[byte](g, 1000))(t)
	managed := must(ferry.AllocManaged[byte](g, 1000, nil))(t)
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	defer closeAll(t, host, device, managed, pool, e, s)
	want, got := make([]byte, 1000), make([]byte, 1000)
	fillRandom(want)
	check(t, ferry.Copy(s, device, ferry.Pageable(want)))
	open := gate(t, s)
	check(t, ferry.Copy(s, host, device))
	check(t, ferry.Copy(s, managed, host))
	check(t, s.Record(e))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var refused []refusedCall
	for _, f := range []func(context.Context) error{
		g.Wait, s.Wait, e.Wait, device.Wait, host.Wait, managed.Wait, ferry.View[uint16](host).Wait,
		func(ctx context.Context) error { return last(ferry.View[uint16](host).SliceContext(ctx)) },
		func(ctx context.Context) error { return last(ferry.View[uint16](host).ReadSliceContext(ctx)) },
		func(ctx context.Context) error { return last(host.SliceContext(ctx)) },
		func(ctx context.Context) error { return last(host.ReadSliceContext(ctx)) },
		func(ctx context.Context) error { return last(managed.SliceContext(ctx)) },
		func(ctx context.Context) error { return last(managed.ReadSliceContext(ctx)) },
		func(ctx context.Context) error { return ferry.CopyContext[byte](ctx, s, ferry.Pageable(got), device) },
		func(ctx context.Context) error { return ferry.CopyContext[byte](ctx, s, device, managed) },
		func(ctx context.Context) error { return last(ferry.CopyFrom[byte](ctx, s, host, bytes.NewReader(got))) },
		func(ctx context.Context) error {
			return last(ferry.CopyTo[byte](ctx, s, bytes.NewBuffer(got[:0]), host))
		},
		func(ctx context.Context) error { return last(ferry.AllocHostContext[byte](ctx, g, 1<<20, nil)) },
		func(ctx context.Context) error { return pool.Warm(ctx, 4096) },
	} {
		refused = append(refused, refusedCall{func() error { return f(ended) }, "", context.Canceled})
	}
	wantRefused(t, "ended context", refused)
	open()
	wantBytes(t, managed.Slice(), want)
	wantBytes(t, host.Slice(), want)
	wantBytes(t, must(ferry.Download(device))(t), want)
	wantBytes(t, got, make([]byte, 1000))
}

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

func (h hanging) Read([]byte) (int, error)          { <-h; return 0, io.EOF }
func (h hanging) ReadAt([]byte, int64) (int, error) { <-h; return 0, io.EOF }
func (h hanging) Write([]byte) (int, error)         { <-h; return 0, io.ErrClosedPipe }

// TestContextEnds: every function and method that takes a context returns its error soon after the
// end of the context, while a stream stands still. There is a call of each: of those that move
// data, one for each kind of memory. Some give memory back, which no other call may wait for.
func TestContextEnds(t *testing.T) {
	t.Run("device=holding", func(t *testing.T) {
		testContextCalls(t, openDriver(t, &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}), wantContextEnds)
	})
	t.Run("device=default", func(t *testing.T) { testContextCalls(t, openTest(t), wantContextEnds) })
}

// testContextCalls tries a call of each function and method that takes a context, while a stream
// stands still.
func testContextCalls(t *testing.T, g *ferry.GPU, try func(t *testing.T, name string, c contextCall)) {
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
		"wait for a view":         {"MemoryView.Wait", ferry.View[uint16](host).Wait, false},
		"slice of a view":         {"MemoryView.SliceContext", func(ctx context.Context) error { return last(ferry.View[uint16](host).SliceContext(ctx)) }, false},
		"read a view":             {"MemoryView.ReadSliceContext", func(ctx context.Context) error { return last(ferry.View[uint16](host).ReadSliceContext(ctx)) }, false},
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
		"parts to device":           {"CopyParts", func(ctx context.Context) error { return partsOf(ctx, s, device, bytes.NewReader(memory)) }, false},
		"parts to host":             {"CopyParts", func(ctx context.Context) error { return partsOf(ctx, s, host, bytes.NewReader(memory)) }, false},
		"parts to managed":          {"CopyParts", func(ctx context.Context) error { return partsOf(ctx, s, managed, bytes.NewReader(memory)) }, false},
		"parts that hang":           {"CopyParts", func(ctx context.Context) error { return partsOf(ctx, other, to, stuck) }, false},
		"parts from device":         {"CopyPartsTo", func(ctx context.Context) error { return partsTo(ctx, s, io.Discard, device) }, false},
		"parts from host":           {"CopyPartsTo", func(ctx context.Context) error { return partsTo(ctx, s, io.Discard, host) }, false},
		"parts from managed":        {"CopyPartsTo", func(ctx context.Context) error { return partsTo(ctx, s, io.Discard, managed) }, false},
		"parts to a stuck writer":   {"CopyPartsTo", func(ctx context.Context) error { return partsTo(ctx, other, stuck, from) }, false},
		"to a writer from device":   {"CopyTo", func(ctx context.Context) error { return last(ferry.CopyTo(ctx, s, io.Discard, device)) }, false},
		"to a writer from host":     {"CopyTo", func(ctx context.Context) error { return last(ferry.CopyTo(ctx, s, io.Discard, host)) }, false},
		"to a writer from managed":  {"CopyTo", func(ctx context.Context) error { return last(ferry.CopyTo(ctx, s, io.Discard, managed)) }, false},
		"to a writer that hangs":    {"CopyTo", func(ctx context.Context) error { return last(ferry.CopyTo(ctx, other, stuck, from)) }, false},
		"page-lock":                 {"AllocHostContext", allocAndClose(g, 64<<20, nil), true},
		"page-lock write-combined":  {"AllocHostContext", allocAndClose(g, 1<<20, &ferry.HostOptions{WriteCombined: true}), true},
		"allocate from a full pool": {"Host.AllocContext", func(ctx context.Context) error { return new(ferry.Host[byte]).AllocContext(ctx, pool, 1<<20) }, true},
		"warm the staging ring":     {"Staging.Warm", g.Staging().Warm, true},
		"warm a full pool":          {"PinnedPool.Warm", func(ctx context.Context) error { return pool.Warm(ctx, 1<<20) }, true},
	}
	called := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		called[all[name].of] = true
		try(t, name, all[name])
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

// partsOf copies from a source to memory in two parts.
func partsOf(ctx context.Context, s *ferry.Stream, m ferry.Memory[byte], src io.ReaderAt) error {
	return last(ferry.CopyParts(ctx, s, []ferry.ReadPart{{Src: src, Dst: m}, {Src: src, Dst: ferry.Pageable([]byte{})}}, nil))
}

// partsTo writes memory to a writer.
func partsTo(ctx context.Context, s *ferry.Stream, w io.Writer, m ferry.Memory[byte]) error {
	return last(ferry.CopyPartsTo(ctx, s, w, []ferry.Memory[byte]{m}, nil))
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

// TestCopyContext: with a context that does not end, CopyContext copies the same bytes as
// Copy, between all kinds of memory.
func TestCopyContext(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var noContext context.Context // nil
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			for _, n := range []int{0, 1, 40_000, 100_003} { // on both sides of what goes through the staging ring
				if n == 0 && (from.name == "registered" || to.name == "registered") {
					continue
				}
				src, dst := must(from.make(g, n))(t), must(to.make(g, n))(t)
				want, before := make([]byte, n), make([]byte, n)
				for _, ctx := range []context.Context{ctx, noContext} {
					fillRandom(want)
					fillRandom(before)
					src.set(t, s, want)
					dst.set(t, s, before)
					check(t, ferry.CopyContext(ctx, s, dst.Memory, src.Memory))
					if got := dst.get(t, s); !bytes.Equal(got, want) {
						t.Errorf("%d bytes from %s to %s: the bytes differ", n, from.name, to.name)
					}
				}
				check(t, errors.Join(src.close(), dst.close()))
			}
		}
	}
	large, back := make([]byte, 20<<20), make([]byte, 20<<20)
	fillRandom(large)
	d := must(ferry.Alloc[byte](g, len(large)))(t)
	check(t, ferry.CopyContext(ctx, s, d, ferry.Pageable(large)))
	check(t, ferry.CopyContext(ctx, s, ferry.Pageable(back), d))
	wantBytes(t, back, large)
	closeAll(t, d, s)
}

// TestCopyContextCancelledBefore: nothing is copied, and nothing is in flight.
func TestCopyContextCancelledBefore(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeConcurrentManagedAccess)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			src, dst := must(from.make(g, 1000))(t), must(to.make(g, 1000))(t)
			want := make([]byte, 1000)
			fillRandom(want)
			src.set(t, s, make([]byte, 1000))
			dst.set(t, s, want)
			check(t, s.Wait(context.Background()))
			open := gate(t, s)
			wantError(t, ferry.CopyContext(ctx, s, dst.Memory, src.Memory), context.Canceled, "copy to ", " from ", " on stream 1")
			if src.slice != nil {
				src.slice() // must return although the gate is shut
			}
			open()
			wantBytes(t, dst.get(t, s), want)
			check(t, errors.Join(src.close(), dst.close()))
		}
	}
	wantError(t, ferry.CopyContext[byte](ctx, nil, nil, nil), context.Canceled, "no buffer", "no stream")
	closeAll(t, s)
}

// soonAfter is how long CopyContext may take to return after its context has ended. It takes
// milliseconds on a machine that is not busy.
const soonAfter = 5 * time.Second

// TestCopyContextBlockedStream: where a copy would wait for a stream that is blocked, the end
// of the context ends the wait. The stream and the buffers work afterwards.
func TestCopyContextBlockedStream(t *testing.T) {
	schedules := []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random}
	if sample.Race() {
		schedules = nil
	}
	for _, schedule := range schedules {
		t.Run(fmt.Sprint(schedule), func(t *testing.T) { testCopyContextBlocked(t, openSoft(t, "h200", schedule)) })
	}
	t.Run("device=test", func(t *testing.T) { testCopyContextBlocked(t, openTest(t)) })
}

func testCopyContextBlocked(t *testing.T, g *ferry.GPU) {
	for _, x := range []struct {
		from, to string
		bytes    int
	}{
		{"pageable", "device", 64 << 20}, // more than the staging ring has room for
		{"pageable", "managed", 64 << 20},
		{"device", "pageable", 100},
		{"device", "pageable", 300_000},
		{"device", "pageable", 20 << 20},
		{"managed", "pageable", 100},
		{"host", "host", 100},
		{"host", "registered", 100_000},
		{"host", "pageable", 100},
		{"pageable", "registered", 300_000},
		{"pageable", "pageable", 100},
	} {
		name := fmt.Sprintf("%d bytes from %s to %s memory", x.bytes, x.from, x.to)
		src, dst := must(kindOf(t, x.from).make(g, x.bytes))(t), must(kindOf(t, x.to).make(g, x.bytes))(t)
		s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		want := make([]byte, x.bytes)
		fillRandom(want)
		src.set(t, s, want)
		check(t, s.Wait(context.Background()))
		if !ferry.Synchronous(s, dst.Memory, src.Memory) {
			t.Errorf("%s: the copy is asynchronous", name)
		}
		open := gate(t, s)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- ferry.CopyContext(ctx, s, dst.Memory, src.Memory) }()
		select {
		case err := <-done:
			t.Errorf("%s: CopyContext returned %v before the context ended", name, err)
			done <- err
		case <-time.After(shortWait):
		}
		cancel()
		select {
		case err := <-done:
			wantError(t, err, context.Canceled, "copy ", " on stream")
		case <-time.After(soonAfter):
			t.Errorf("%s: CopyContext did not return after the end of the context", name)
			open()
			<-done
			open = func() {}
		}
		open()
		check(t, s.Wait(context.Background()))
		check(t, ferry.Copy(s, dst.Memory, src.Memory))
		if !bytes.Equal(dst.get(t, s), want) {
			t.Errorf("%s: a copy after the cancelled one differs", name)
		}
		check(t, errors.Join(src.close(), dst.close(), s.Close()))
	}
}

// TestCopyContextBusyRing: the same holds when a copy on another blocked stream has all slots
// of the staging ring.
func TestCopyContextBusyRing(t *testing.T) {
	g := openTest(t)
	other, s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	const n = 64 << 20
	a, b := must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, n))(t)
	want, got, all := make([]byte, n), make([]byte, n), make([]byte, n)
	fillRandom(want)
	check(t, errors.Join(ferry.Copy(s, a, ferry.Pageable(want)), ferry.Copy(s, b, ferry.Pageable(want)), s.Wait(context.Background())))
	openOther, open := gate(t, other), gate(t, s)
	occupant := make(chan error, 1)
	go func() { occupant <- ferry.Copy(other, ferry.Pageable(all), a) }()
	time.Sleep(shortWait) // by then it has all slots, and waits
	for name, pair := range map[string]ferry.Pair[byte]{
		"to the device":   {Dst: b, Src: ferry.Pageable(want)},
		"from the device": {Dst: ferry.Pageable(got), Src: b},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), shortWait)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- ferry.CopyContext(ctx, s, pair.Dst, pair.Src) }()
		select {
		case err := <-done:
			wantError(t, err, context.DeadlineExceeded, "copy 64.0 MiB")
		case <-time.After(soonAfter):
			t.Fatalf("%s: CopyContext did not return after the end of the context", name)
		}
	}
	open()
	openOther()
	check(t, <-occupant)
	wantBytes(t, all, want)
	check(t, ferry.Copy(s, ferry.Pageable(got), b))
	wantBytes(t, got, want)
	closeAll(t, a, b, other, s)
}

// cancelDriver ends a context when the device gets its nth copy.
type cancelDriver struct {
	cu.Driver
	left   atomic.Int64
	cancel context.CancelFunc
}

func (d *cancelDriver) Unwrap() cu.Driver { return d.Driver }

func (d *cancelDriver) count() {
	if d.left.Add(-1) == 0 {
		d.cancel()
	}
}

func (d *cancelDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	d.count()
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *cancelDriver) MemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	d.count()
	return d.Driver.MemcpyDtoHAsync(ctx, dst, src, n, s)
}

// TestCopyContextCancelledDuring: when the context ends in the middle of a large copy, the
// error says at which byte. All bytes before it are copied, and the GPU works on.
func TestCopyContextCancelledDuring(t *testing.T) {
	d := &cancelDriver{Driver: openTest(t).Driver()}
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	n := 96 << 20
	if sample.Race() {
		n = 40 << 20
	}
	device, scratch := must(ferry.Alloc[byte](g, n))(t), make([]byte, n)
	want := make([]byte, n)
	for i := range want {
		want[i] = byte(i*7 + i>>12)
	}
	for _, in := range []bool{true, false} {
		dst, src := ferry.Memory[byte](device), ferry.Memory[byte](ferry.Pageable(want))
		if in {
			check(t, ferry.Fill(s, device, 0xee))
		} else {
			check(t, ferry.Copy(s, dst, src))
			dst, src = ferry.Pageable(scratch), device
		}
		check(t, s.Wait(context.Background()))
		ctx, cancel := context.WithCancel(context.Background())
		d.cancel = cancel
		d.left.Store(5)
		err := ferry.CopyContext(ctx, s, dst, src)
		wantError(t, err, context.Canceled, fmt.Sprintf("copy %d.0 MiB", n>>20), "byte ")
		var copied int
		if _, scanErr := fmt.Sscanf(after(fmt.Sprint(err), "byte "), "%d", &copied); scanErr != nil || copied >= n {
			t.Fatalf("to the device %v: the copy was not cancelled in the middle: %v", in, err)
		}
		got := scratch
		if in {
			got = must(ferry.Download(device))(t)
		}
		if in && copied == 0 {
			t.Errorf("nothing was copied before the context ended: %v", err)
		}
		wantBytes(t, got[:copied], want[:copied])
		if in && bytes.Equal(got, want) {
			t.Error("all was copied although the context has ended")
		}
		check(t, ferry.CopyContext(context.Background(), s, dst, src))
		if in {
			got = must(ferry.Download(device))(t)
		}
		wantBytes(t, got, want)
	}
	closeAll(t, device, s)
}

// after returns what follows the last part in a text.
func after(text, part string) string { return text[strings.LastIndex(text, part)+len(part):] }

// kindOf returns the kind of memory with a name.
func kindOf(t *testing.T, name string) bytesKind {
	t.Helper()
	for _, k := range bytesKinds {
		if k.name == name {
			return k
		}
	}
	t.Fatalf("there is no %s memory", name)
	return bytesKind{}
}
