package api

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	hazards "github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// library is another library, which knows the driver and addresses, and nothing of Ferry.
type library struct {
	d   cu.Driver
	ctx cu.Context
}

func libraryFor(g *ferry.GPU) library { return library{g.Driver(), g.CUContext()} }

// fill queues a fill of n bytes.
func (l library) fill(h cu.Stream, p cu.DevicePtr, value byte, n int) error {
	return l.d.MemsetD8Async(l.ctx, p, value, uintptr(n), h)
}

// copyOut queues a copy to page-locked memory.
func (l library) copyOut(h cu.Stream, to []byte, from cu.DevicePtr) error {
	return l.d.MemcpyDtoHAsync(l.ctx, cu.HostPtr(&to[0]), from, uintptr(len(to)), h)
}

// externals are the two functions that run external work.
var externals = map[string]func(s *ferry.Stream, f func(cu.Stream) error, uses ...ferry.Use) error{
	"External":          (*ferry.Stream).External,
	"ExternalPerThread": (*ferry.Stream).ExternalPerThread,
}

// TestExternal: Slice of a buffer that external work writes waits for the work, and so does Close.
// Without the use it does not, which the schedule lazy shows.
func TestExternal(t *testing.T) {
	for name, external := range externals {
		for _, said := range []bool{true, false} {
			what := fmt.Sprintf("%s, use given %t", name, said)
			if !said && racebuild.On { // it reports the read of memory in flight
				continue
			}
			g := openSoft(t, "h200", softgpu.Lazy)
			l, s := libraryFor(g), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			on, host := must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
			bytes := host.Slice()
			clear(bytes)
			var uses []ferry.Use
			if said {
				uses = []ferry.Use{ferry.Writes(on), ferry.Writes(host)}
			}
			check(t, ferry.Fill(s, on, 1)) // the work comes after it
			check(t, external(s, func(h cu.Stream) error {
				return errors.Join(l.fill(h, on.Pointer()+50, 2, 50), l.copyOut(h, bytes, on.Pointer()))
			}, uses...))
			got := host.Slice()
			if right := got[0] == 1 && got[99] == 2; right != said {
				t.Errorf("%s: Slice returned %d and %d, want 1 and 2 only if it knows the work", what, got[0], got[99])
			}
			check(t, s.Wait(context.Background()))
			closeAll(t, on, host, s)
		}
	}
}

// TestExternalClose: Close of a buffer waits for external work that reads it.
func TestExternalClose(t *testing.T) {
	for name, external := range externals {
		g := openSoft(t, "h200", softgpu.Eager)
		l, s := libraryFor(g), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		on := must(ferry.Alloc[byte](g, 100))(t)
		var open func()
		check(t, external(s, func(h cu.Stream) error {
			open = foreignGate(t, g, h)
			return l.fill(h, on.Pointer(), 2, 100)
		}, ferry.Reads(on)))
		waits(t, name+": Close", open, func() { check(t, on.Close()) })
		closeAll(t, s)
	}
}

// TestExternalAccess: memory that is only read can be read meanwhile, and not written.
func TestExternalAccess(t *testing.T) {
	g := openDriver(t, softKinds(t)["polled"]())
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	reads, writes := must(ferry.AllocHost[byte](g, 10, nil))(t), must(ferry.AllocHost[byte](g, 10, nil))(t)
	var open func()
	check(t, s.External(func(h cu.Stream) error { open = foreignGate(t, g, h); return nil }, ferry.Reads(reads.Range(1, 2)), ferry.Writes(writes)))
	for _, c := range []struct {
		what  string
		slice func(context.Context) ([]byte, error)
		waits bool
	}{
		{"a read of what is read", reads.ReadSliceContext, false}, {"a write of what is read", reads.SliceContext, true},
		{"a read of what is written", writes.ReadSliceContext, true}, {"a write of what is written", writes.SliceContext, true},
	} {
		if _, err := c.slice(ended()); errors.Is(err, context.Canceled) != c.waits {
			t.Errorf("%s: %v, want a wait: %t", c.what, err, c.waits)
		}
	}
	open()
	closeAll(t, reads, writes, s)
}

// TestExternalOrders: external work comes after the allocation of memory in another stream, and the
// work of a per-thread stream between the earlier and the later work of the stream.
func TestExternalOrders(t *testing.T) {
	for name, external := range externals {
		d := hazards.Wrap(softDriver(t, "h200", 1, softgpu.Lazy), hazards.Options{})
		g := openDriver(t, d)
		l, s := libraryFor(g), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		other := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		born, on := must(ferry.AllocAsync[byte](other, 100, nil))(t), must(ferry.Alloc[byte](g, 100))(t)
		check(t, ferry.Fill(s, on, 1))
		check(t, external(s, func(h cu.Stream) error {
			return errors.Join(l.fill(h, on.Pointer(), 2, 50), l.fill(h, born.Pointer(), 3, 100))
		}, ferry.Writes(on), ferry.Writes(born)))
		check(t, ferry.Fill(s, on.Range(0, 25), 4))
		if got := must(ferry.Download(on))(t); got[0] != 4 || got[25] != 2 || got[50] != 1 {
			t.Errorf("%s: got %d, %d and %d, want 4, 2 and 1", name, got[0], got[25], got[50])
		}
		if got := must(ferry.Download(born))(t); got[0] != 3 || got[99] != 3 {
			t.Errorf("%s: the memory of another stream has %d and %d, want 3", name, got[0], got[99])
		}
		closeAll(t, born, on, s, other)
		for _, f := range d.Findings() {
			if !f.Note {
				t.Errorf("%s: %v", name, f)
			}
		}
	}
}

// TestExternalPageable: of a pageable slice, the parts in buffers are in flight, and all of it stays
// alive until the work is done.
func TestExternalPageable(t *testing.T) {
	g := openDriver(t, softKinds(t)["polled"]())
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	memory := make([]byte, 3<<12)
	start := int(-deviceAddress(cu.HostPtr(&memory[0])) & (1<<12 - 1)) // of a page
	part := must(ferry.Register(g, memory[start:start+100], nil))(t)
	var open func()
	check(t, s.External(func(h cu.Stream) error { open = foreignGate(t, g, h); return nil }, ferry.Reads(ferry.Pageable(memory))))
	if _, err := part.SliceContext(ended()); !errors.Is(err, context.Canceled) {
		t.Errorf("the part in a buffer is not in flight: %v", err)
	}
	lost := make(chan struct{})
	func() {
		slice := new([1 << 16]byte)
		runtime.AddCleanup(slice, func(c chan struct{}) { close(c) }, lost)
		check(t, s.External(func(cu.Stream) error { return nil }, ferry.Reads(ferry.Pageable(slice[:]))))
	}()
	for range 3 {
		runtime.GC()
	}
	select {
	case <-lost:
		t.Error("the slice was collected while the work may use it")
	case <-time.After(shortWait):
	}
	open()
	check(t, s.Wait(context.Background()))
	eventually(t, "collected", func() bool {
		runtime.GC()
		select {
		case <-lost:
			return true
		default:
			return false
		}
	})
	closeAll(t, part, s)
}

// TestExternalEnds: whatever ends f, its uses are in flight, because it may have queued work. The
// caller sees the end, and all can be used and closed.
func TestExternalEnds(t *testing.T) {
	planted := errors.New("planted")
	for name, external := range externals {
		for how, end := range map[string]func() error{
			"error": func() error { return planted }, "panic": func() error { panic(planted) }, "Goexit": func() error { runtime.Goexit(); return nil },
		} {
			what := name + ", " + how
			d := &boundDriver{Driver: softDriver(t, "h200", 1, softgpu.Lazy)}
			g := must(ferry.OpenDriver(d, 0))(t)
			l, s := libraryFor(g), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			host, on := must(ferry.AllocHost[byte](g, 100, nil))(t), must(ferry.Alloc[byte](g, 100))(t)
			bytes := host.Slice()
			clear(bytes)
			returned, value, err := endOf(t, what, func() (int64, error) {
				return 0, external(s, func(h cu.Stream) error {
					check(t, errors.Join(l.fill(h, on.Pointer(), 5, 100), l.copyOut(h, bytes, on.Pointer())))
					return end()
				}, ferry.Writes(host), ferry.Writes(on))
			})
			if returned != (how == "error") || (value == any(planted)) != (how == "panic") || returned && !errors.Is(err, planted) {
				t.Errorf("%s: returned %t, panic of %v, error %v", what, returned, value, err)
			}
			if returned && !strings.Contains(err.Error(), "external work on stream 1") {
				t.Errorf("%s: %v does not name the stream", what, err)
			}
			if d.bound != 1 || len(d.contexts) != 0 {
				t.Errorf("%s: bound %d times, and the contexts %v are left", what, d.bound, d.contexts)
			}
			ends(t, what+": the stream", func() {
				if got := host.Slice()[99]; got != 5 {
					t.Errorf("%s: Slice returned %d, want 5", what, got)
				}
				check(t, errors.Join(ferry.Fill(s, on, 6), ferry.Copy(s, host, on)))
				if got := host.Slice()[99]; got != 6 {
					t.Errorf("%s: the stream left %d, want 6", what, got)
				}
				closeAll(t, host, on, s, g)
			})
		}
	}
}

// TestExternalCaptured: in a capture the work becomes part of the graph, which owns the buffers. Its
// launches make them in flight.
func TestExternalCaptured(t *testing.T) {
	for name, external := range externals {
		g := openSoft(t, "h200", softgpu.Lazy)
		l, s := libraryFor(g), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		on, host := must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
		bytes := host.Slice()
		clear(bytes)
		x := must(s.Capture(func(s *ferry.Stream) error {
			check(t, ferry.Fill(s, on, 1))
			err := external(s, func(h cu.Stream) error {
				return errors.Join(l.fill(h, on.Pointer()+50, 2, 50), l.copyOut(h, bytes, on.Pointer()))
			}, ferry.Writes(on), ferry.Writes(host))
			return errors.Join(err, ferry.Fill(s, on.Range(0, 50), 3))
		}))(t)
		if got := host.Slice(); got[0] != 0 || got[99] != 0 {
			t.Errorf("%s: the captured work has run: %d and %d", name, got[0], got[99])
		}
		check(t, on.Close()) // the graph owns it
		for range 2 {
			check(t, x.Launch(s))
			if got := host.Slice(); got[0] != 1 || got[99] != 2 {
				t.Errorf("%s: Slice returned %d and %d after a launch, want 1 and 2", name, got[0], got[99])
			}
			clear(bytes)
		}
		_, err := s.Capture(func(s *ferry.Stream) error {
			return external(s, func(cu.Stream) error { t.Error("f was called"); return nil }, ferry.Reads(ferry.Pageable(make([]byte, 10))))
		})
		wantError(t, err, cu.ErrorStreamCaptureUnsupported, "a graph cannot keep a pageable slice")
		closeAll(t, x, host, s)
	}
}

// TestExternalCaptureEnds: f that panics in a capture leaves no stream that captures.
func TestExternalCaptureEnds(t *testing.T) {
	planted := errors.New("planted")
	for name, external := range externals {
		g := openSoft(t, "h200", softgpu.Eager)
		s := must(ferry.NewStream(g, nil))(t)
		_, value, _ := endOf(t, name, func() (int64, error) {
			return 0, last(s.Capture(func(s *ferry.Stream) error { return external(s, func(cu.Stream) error { panic(planted) }) }))
		})
		if value != any(planted) {
			t.Errorf("%s: panic of %v", name, value)
		}
		check(t, errors.Join(g.Wait(context.Background()), external(s, func(h cu.Stream) error {
			_, err := g.Driver().StreamIsCapturing(g.CUContext(), h)
			return err
		})))
		closeAll(t, s)
	}
}

// TestExternalReenters: f may use Ferry, and close everything that it was called with. The buffers
// are freed when External returns.
func TestExternalReenters(t *testing.T) {
	for name, external := range externals {
		d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{})
		g := must(ferry.OpenDriver(d, 0))(t)
		s := must(ferry.NewStream(g, nil))(t)
		for kind, c := range lendables(t, g, s, 1000) {
			what := name + ", " + kind
			ends(t, what, func() {
				check(t, external(s, func(h cu.Stream) error {
					for range 2 {
						wantError(t, c.close(), cu.ErrorNotReady, "CopyFrom, CopyTo, CopyParts or External that has not returned uses it")
					}
					wantError(t, external(s, func(cu.Stream) error { return nil }, ferry.Reads(c.memory)), ferry.ErrClosed, "use 1 of 1")
					return errors.Join(external(s, func(cu.Stream) error { return nil }), g.Current(func() error { return nil }), s.Wait(context.Background()))
				}, ferry.Writes(c.memory), ferry.Reads(c.memory)))
			})
			check(t, c.close())
			if c.rest != nil {
				closeAll(t, c.rest)
			}
		}
		ends(t, name+": the rest", func() {
			check(t, external(s, func(h cu.Stream) error { return errors.Join(s.Close(), g.Close()) }))
			closeAll(t, s, g)
		})
		eventually(t, "nothing is left", func() bool { return len(d.Live()) == 0 })
	}
}

// TestExternalRefused: wrong uses are refused before f is called, by name.
func TestExternalRefused(t *testing.T) {
	g, other := openSoft(t, "h200", softgpu.Eager), openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	on, elsewhere := must(ferry.Alloc[byte](g, 100))(t), must(ferry.Alloc[byte](other, 100))(t)
	closed := must(ferry.Alloc[byte](g, 100))(t)
	check(t, closed.Close())
	constant := must(ferry.Register(g, make([]byte, 100), &ferry.RegisterOptions{ReadOnly: true}))(t)
	managed := must(ferry.AllocManaged[byte](g, 100, nil))(t)
	m, gone := load(t, g, "increment")
	check(t, m.Close())
	m, foreign := load(t, other, "increment")
	far := must(ferry.NewStream(other, nil))(t)
	goneGraph, foreignGraph := emptyGraph(t, s), emptyGraph(t, far)
	check(t, goneGraph.Close())
	never := func(cu.Stream) error { t.Error("f was called"); return nil }
	for _, external := range externals {
		for _, c := range []struct {
			use   ferry.Use
			want  error
			parts []string
		}{
			{ferry.Use{}, cu.ErrorInvalidValue, []string{"use 2 of 2", "no buffer, kernel or graph given"}},
			{ferry.Reads[byte](nil), cu.ErrorInvalidValue, []string{"make a Use with Reads, Writes or Runs"}},
			{ferry.Writes[byte]((*ferry.Device[byte])(nil)), cu.ErrorInvalidValue, []string{"no buffer, kernel or graph given"}},
			{ferry.Runs[*ferry.Kernel](nil), cu.ErrorInvalidValue, []string{"no buffer, kernel or graph given"}},
			{ferry.Runs[*ferry.Graph](nil), cu.ErrorInvalidValue, []string{"no buffer, kernel or graph given"}},
			{ferry.Runs(new(ferry.Kernel)), cu.ErrorInvalidValue, []string{"Module.Kernel finds one"}},
			{ferry.Runs(new(ferry.Graph)), cu.ErrorInvalidValue, []string{"no graph given"}},
			{ferry.Runs(gone), ferry.ErrClosed, []string{"kernel increment", "a module"}},
			{ferry.Runs(foreign), cu.ErrorInvalidHandle, []string{"load its module on soft:h200"}},
			{ferry.Runs(goneGraph), ferry.ErrClosed, []string{"graph 1"}},
			{ferry.Runs(foreignGraph), cu.ErrorInvalidValue, []string{"launch graph 1", "must belong to one GPU"}},
			{ferry.Reads(on.Range(99, 101)), cu.ErrorInvalidValue, []string{"range [99:101]"}},
			{ferry.Reads(closed), ferry.ErrClosed, []string{"device buffer"}},
			{ferry.Reads(elsewhere), cu.ErrorInvalidValue, []string{"another driver"}},
			{ferry.Writes(constant), cu.ErrorInvalidValue, []string{"is read-only"}},
		} {
			wantError(t, external(s, never, ferry.Reads(on), c.use), c.want, append(c.parts, "external work on stream 1")...)
		}
		wantError(t, external(s, nil, ferry.Reads(on)), cu.ErrorInvalidValue, "no function given")
		wantError(t, external(nil, never), cu.ErrorInvalidValue, "no stream given")
		check(t, external(s, func(cu.Stream) error { return nil }, ferry.Reads(constant), ferry.Writes(managed), ferry.Reads(on.Range(5, 5))))
		inHost := make(chan error, 1)
		check(t, errors.Join(s.HostFunc(func() { inHost <- external(s, never) }), s.Wait(context.Background())))
		wantError(t, <-inHost, cu.ErrorNotPermitted)
	}
	ends(t, "Close", func() { closeAll(t, on, elsewhere, constant, managed, m, foreignGraph, far, s) })
	wantError(t, s.External(never), ferry.ErrClosed)
}

// emptyGraph makes a graph without work.
func emptyGraph(t *testing.T, s *ferry.Stream) *ferry.Graph {
	t.Helper()
	return must(s.Capture(func(*ferry.Stream) error { return nil }))(t)
}

// TestExternalRuns: Close of a module waits for external work that launches a kernel of it.
func TestExternalRuns(t *testing.T) {
	for name, external := range externals {
		d := newHookDriver(softDriver(t, "h200", 1, softgpu.Eager))
		g := openDriver(t, d)
		s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		on := must(ferry.Alloc[float32](g, 1))(t)
		m, k := load(t, g, "increment")
		check(t, ferry.Fill(s, on, 7))
		var open func()
		check(t, external(s, func(h cu.Stream) error {
			open = foreignGate(t, g, h)
			params := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, uint64(on.Pointer())), 1)
			return g.Driver().LaunchKernel(g.CUContext(), k.Handle(), cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, h, params)
		}, ferry.Runs(k), ferry.Writes(on)))
		waits(t, name+": Close", func() {
			if n := d.count("ModuleUnload"); n != 0 {
				t.Errorf("%s: the module is unloaded while its kernel is queued", name)
			}
			open()
		}, func() { check(t, m.Close()) })
		if got := must(ferry.Download(on))(t); got[0] != 8 {
			t.Errorf("%s: the kernel left %v, want 8", name, got[0])
		}
		closeAll(t, on, s)
	}
}

// TestExternalRunsGraph: what a graph uses is in flight on external work that launches it, also
// what the program has closed: Close of the graph waits for it.
func TestExternalRunsGraph(t *testing.T) {
	for name, external := range externals {
		d := newHookDriver(softDriver(t, "h200", 1, softgpu.Eager))
		g := openDriver(t, d)
		s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		on, host := must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
		clear(host.Slice())
		x := must(s.Capture(func(s *ferry.Stream) error { return errors.Join(ferry.Fill(s, on, 5), ferry.Copy(s, host, on)) }))(t)
		check(t, on.Close()) // the graph owns it
		var open func()
		check(t, external(s, func(h cu.Stream) error {
			open = foreignGate(t, g, h)
			return g.Driver().GraphLaunch(g.CUContext(), x.Handle(), h)
		}, ferry.Runs(x)))
		if _, err := host.SliceContext(ended()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Slice did not wait for the graph: %v", name, err)
		}
		waits(t, name+": Close", func() {
			if n := d.count("MemFree"); n != 0 {
				t.Errorf("%s: memory of the graph is freed while the graph is queued", name)
			}
			open()
		}, func() { check(t, x.Close()) })
		if got := host.Slice()[99]; got != 5 || d.count("MemFree") != 1 {
			t.Errorf("%s: the graph left %d after %d calls of MemFree, want 5 and 1", name, got, d.count("MemFree"))
		}
		_, err := s.Capture(func(s *ferry.Stream) error {
			y := emptyGraph(t, must(ferry.NewStream(g, nil))(t))
			defer closeAll(t, y)
			return external(s, func(cu.Stream) error { t.Error("f was called"); return nil }, ferry.Runs(y))
		})
		wantError(t, err, cu.ErrorStreamCaptureUnsupported, "graphs cannot be launched in a capture")
		closeAll(t, host, s)
	}
}

// TestExternalRunsCloses: f may close what it runs. The module is unloaded, and the buffers of a
// closed graph are freed, when External returns.
func TestExternalRunsCloses(t *testing.T) {
	for name, external := range externals {
		d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{})
		g := must(ferry.OpenDriver(d, 0))(t)
		s := must(ferry.NewStream(g, nil))(t)
		m, k := load(t, g, "increment")
		on, other := must(ferry.Alloc[float32](g, 1))(t), must(ferry.Alloc[byte](g, 10))(t)
		x := must(s.Capture(func(s *ferry.Stream) error {
			return errors.Join(s.Launch(k, ferry.Cover(1, 32), on, uint64(1)), ferry.Fill(s, other, 1))
		}))(t)
		ends(t, name, func() {
			check(t, external(s, func(h cu.Stream) error {
				wantError(t, other.Close(), cu.ErrorNotReady, "frees it when it returns")
				return x.Close()
			}, ferry.Runs(x)))
			check(t, external(s, func(h cu.Stream) error {
				for range 2 {
					wantError(t, m.Close(), cu.ErrorNotReady, "an External that has not returned uses it, and unloads it when it returns")
				}
				return nil
			}, ferry.Runs(k)))
			closeAll(t, m, x, on, other, s, g)
		})
		if left := d.Live(); len(left) != 0 {
			t.Errorf("%s: left: %v", name, left)
		}
	}
}

// TestExternalOutlivesCapture: Capture whose function has returned waits for External on another
// goroutine, whose work becomes part of the graph.
func TestExternalOutlivesCapture(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	l, s := libraryFor(g), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	on := must(ferry.Alloc[byte](g, 100))(t)
	inside, pass, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var x *ferry.Graph
	waits(t, "Capture", func() { close(pass) }, func() {
		x = must(s.Capture(func(s *ferry.Stream) error {
			go func() {
				done <- s.External(func(h cu.Stream) error {
					close(inside)
					<-pass
					return l.fill(h, on.Pointer(), 3, 100)
				}, ferry.Writes(on))
			}()
			<-inside
			return nil
		}))(t)
	})
	check(t, errors.Join(<-done, ferry.Fill(s, on, 0), x.Launch(s)))
	if got := must(ferry.Download(on))(t); got[99] != 3 {
		t.Errorf("the graph left %d, want 3", got[99])
	}
	closeAll(t, x, on, s)
}

// TestExternalExclusive: without concurrent managed access, managed memory that is attached to
// another stream is refused, as by Launch. For the per-thread stream all attached memory is.
func TestExternalExclusive(t *testing.T) {
	g := openDriver(t, newExclusiveDriver())
	s, other := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	m := must(ferry.AllocManaged[byte](g, 64, nil))(t)
	check(t, m.Attach(other, cu.MemAttachSingle))
	err := s.External(func(cu.Stream) error { t.Error("f was called"); return nil }, ferry.Reads(m))
	wantError(t, err, cu.ErrorInvalidValue, "is attached to stream 2")
	check(t, other.External(func(cu.Stream) error { return nil }, ferry.Reads(m)))
	err = other.ExternalPerThread(func(cu.Stream) error { t.Error("f was called"); return nil }, ferry.Reads(m))
	wantError(t, err, cu.ErrorInvalidValue, "is attached to stream 2", "per-thread stream", "Attach it with cu.MemAttachGlobal")
	check(t, m.Attach(other, cu.MemAttachHost))
	err = other.ExternalPerThread(func(cu.Stream) error { t.Error("f was called"); return nil }, ferry.Writes(m))
	wantError(t, err, cu.ErrorInvalidValue, "is attached to the host", "Attach it with cu.MemAttachGlobal")
	check(t, m.Attach(other, cu.MemAttachGlobal))
	check(t, other.ExternalPerThread(func(cu.Stream) error { return nil }, ferry.Reads(m)))
	closeAll(t, m, s, other)
}

// TestExternalHandle: f gets the handle of the stream, which it may keep. So Ferry does not take the
// stream for idle after that.
func TestExternalHandle(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Lazy)
	handleIn := func(s *ferry.Stream) (h cu.Stream) {
		check(t, s.External(func(x cu.Stream) error { h = x; return nil }))
		return h
	}
	if h := handleIn(g.DefaultStream()); h != cu.StreamLegacy {
		t.Errorf("the default stream has the handle %d, want %d", h, cu.StreamLegacy)
	}
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	h := handleIn(s)
	check(t, s.Wait(context.Background()))
	open := foreignGate(t, g, h)
	check(t, s.Close())
	waits(t, "Wait", open, func() { check(t, s.Wait(context.Background())) })
	other := must(ferry.NewStream(g, nil))(t)
	check(t, other.ExternalPerThread(func(h cu.Stream) error {
		if h != cu.StreamPerThread {
			t.Errorf("the per-thread stream has the handle %d, want %d", h, cu.StreamPerThread)
		}
		return nil
	}))
	if got := handleIn(other); got != other.Handle() {
		t.Errorf("External has the handle %d, Handle %d", got, other.Handle())
	}
	closeAll(t, other)
}

// TestExternalPerThreadFails: if the stream cannot wait for the per-thread stream, External waits
// for that, and returns the error.
func TestExternalPerThreadFails(t *testing.T) {
	d := newHookDriver(softDriver(t, "h200", 1, softgpu.Lazy))
	g := openDriver(t, d)
	l, s := libraryFor(g), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	on, host := must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
	bytes := host.Slice()
	clear(bytes)
	err := s.ExternalPerThread(func(h cu.Stream) error {
		d.during("StreamWaitEvent", func() error { return cu.ErrorUnknown })
		return errors.Join(l.fill(h, on.Pointer(), 2, 100), l.copyOut(h, bytes, on.Pointer()))
	}, ferry.Writes(on), ferry.Writes(host))
	wantError(t, err, cu.ErrorUnknown)
	if got := host.Slice()[99]; got != 2 {
		t.Errorf("Slice returned %d, want 2", got)
	}
	for _, call := range []string{"EventCreate", "EventRecord", "StreamWaitEvent"} {
		d.during(call, func() error { return cu.ErrorUnknown })
		wantError(t, s.ExternalPerThread(func(cu.Stream) error { t.Error("f was called"); return nil }), cu.ErrorUnknown)
	}
	closeAll(t, on, host, s)
}

// boundDriver is a driver with contexts of threads, of which it has one.
type boundDriver struct {
	cu.Driver
	contexts    []cu.Context // a stack
	bound       int
	bind, unset error // the results of the next BindThread and of the next end of one
}

func (d *boundDriver) Unwrap() cu.Driver { return d.Driver }

func (d *boundDriver) BindThread(ctx cu.Context) (func() error, error) {
	if d.bind != nil {
		return nil, d.bind
	}
	d.bound++
	d.contexts = append(d.contexts, ctx)
	return func() error {
		d.contexts = d.contexts[:len(d.contexts)-1]
		return d.unset
	}, nil
}

func (d *boundDriver) WithContext(_ cu.Context, f func() error) error { return f() }

// TestCurrent: f runs with the context current, through every wrapper. Whatever ends f, the context
// before is current again, and the caller sees the end.
func TestCurrent(t *testing.T) {
	planted := errors.New("planted")
	for wrapper, wrap := range map[string]func(cu.Driver) cu.Driver{
		"none":  func(d cu.Driver) cu.Driver { return d },
		"check": func(d cu.Driver) cu.Driver { return hazards.Wrap(d, hazards.Options{}) },
		"fault": func(d cu.Driver) cu.Driver { return fault.Wrap(d, fault.Options{}) },
		"trace": func(d cu.Driver) cu.Driver { return new(trace.Recorder).Wrap(d) },
	} {
		d := &boundDriver{Driver: softDriver(t, "h200", 2, softgpu.Eager)}
		w := wrap(d)
		g, other := must(ferry.OpenDriver(w, 0))(t), must(ferry.OpenDriver(w, 1))(t)
		for how, end := range map[string]func() error{
			"no error": func() error { return nil }, "error": func() error { return planted },
			"panic": func() error { panic(planted) }, "Goexit": func() error { runtime.Goexit(); return nil },
		} {
			what := wrapper + ", " + how
			returned, value, err := endOf(t, what, func() (int64, error) {
				return 0, g.Current(func() error {
					return other.Current(func() error {
						if want := []cu.Context{g.CUContext(), other.CUContext()}; !slices.Equal(d.contexts, want) {
							t.Errorf("%s: the contexts %#x are current, want %#x", what, d.contexts, want)
						}
						return end()
					})
				})
			})
			if returned != (how == "error" || how == "no error") || (value == any(planted)) != (how == "panic") || (err == planted) != (how == "error") { //nolint:errorlint // Current returns it as it is
				t.Errorf("%s: returned %t, panic of %v, error %v", what, returned, value, err)
			}
			if len(d.contexts) != 0 {
				t.Errorf("%s: the contexts %#x are left", what, d.contexts)
			}
		}
		ends(t, wrapper, func() {
			check(t, other.Current(func() error { return errors.Join(other.Close(), g.Close()) }))
			closeAll(t, other, g)
		})
	}
}

// TestCurrentFails: an error of the driver before or after f is an error of Current.
func TestCurrentFails(t *testing.T) {
	d := &boundDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	planted := errors.New("planted")
	d.unset = cu.ErrorUnknown
	err := g.Current(func() error { return planted })
	if wantError(t, err, cu.ErrorUnknown); !errors.Is(err, planted) {
		t.Errorf("%v does not have the error of f", err)
	}
	d.bind = cu.ErrorInvalidContext
	wantError(t, g.Current(func() error { t.Error("f was called"); return nil }), cu.ErrorInvalidContext, "make the context of soft:h200 current")
	wantError(t, g.Current(nil), cu.ErrorInvalidValue, "no function given")
	closeAll(t, g)
	wantError(t, g.Current(func() error { t.Error("f was called"); return nil }), ferry.ErrClosed)
	hidden := openDriver(t, struct{ cu.Driver }{softDriver(t, "h200", 1, softgpu.Eager)})
	wantError(t, hidden.Current(func() error { t.Error("f was called"); return nil }), cu.ErrorNotSupported, "needs a method Unwrap")
	wantError(t, hidden.DefaultStream().External(func(cu.Stream) error { t.Error("f was called"); return nil }), cu.ErrorNotSupported, "needs a method Unwrap")
	soft := openSoft(t, "h200", softgpu.Eager)
	s, inHost := must(ferry.NewStream(soft, nil))(t), make(chan error, 1)
	check(t, errors.Join(s.HostFunc(func() { inHost <- soft.Current(func() error { return nil }) }), s.Wait(context.Background())))
	wantError(t, <-inHost, cu.ErrorNotPermitted)
	closeAll(t, s)
}
