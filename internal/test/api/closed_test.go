package api

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// worksClosed are the methods that return no error after Close, and why. Close itself is another.
var worksClosed = map[string]string{
	"GPU.Attribute":     "it needs no context",
	"GPU.Fallback":      "its result is not about the call",
	"Host.Alloc":        "it opens the buffer again",
	"Host.AllocContext": "it opens the buffer again",
	"PinnedPool.Stats":  "open buffers of a closed pool still use memory",
	"Stream.Wait":       "the work of a closed stream goes on",
}

// TestClosedReceivers: every method of a closed object with good arguments returns ErrClosed,
// except those in worksClosed. None panics, except Slice and ReadSlice.
func TestClosedReceivers(t *testing.T) {
	x := newBadInput(t)
	managed := must(ferry.AllocManaged[byte](x.g, 10, nil))(t)
	closeAll(t, managed)
	// The arguments, by type.
	good := map[reflect.Type]any{}
	for _, v := range []any{
		context.Background(), x.stream, x.g, x.event, x.add, x.pinned, new(ferry.Batch), ferry.Cover(1024, 256), func() {}, 1, true, "fill",
		func(*ferry.Stream) error { return nil }, cu.DeviceAttributeWarpSize, x.g.CUDevice(), cu.MemAdviseSetReadMostly, cu.MemAttachGlobal,
	} {
		good[reflect.TypeOf(v)] = v
	}
	good[reflect.TypeFor[context.Context]()] = context.Background()
	good[reflect.TypeFor[func() error]()] = func() error { return nil }
	good[reflect.TypeFor[func(cu.Stream) error]()] = func(cu.Stream) error { return nil }
	good[reflect.TypeFor[[]ferry.Use]()] = []ferry.Use{}
	good[reflect.TypeFor[[]any]()] = []any{x.floats, x.floats, x.floats, uint64(1024)}
	for _, r := range receivers {
		for m := range reflect.TypeOf(r).Methods() {
			name := typeOf(r) + "." + m.Name
			v, ok := closedOne(t, x, typeOf(r))
			if !ok {
				continue
			}
			f := reflect.ValueOf(v).MethodByName(m.Name)
			var args []reflect.Value
			for i := range f.Type().NumIn() {
				arg, ok := good[f.Type().In(i)]
				if !ok {
					t.Fatalf("%s: there is no argument of type %v", name, f.Type().In(i))
				}
				args = append(args, reflect.ValueOf(arg))
			}
			results, panicked := call(f, args)
			err, returns := errorOf(f.Type(), results)
			if panicked != nil {
				if err, returns = panicked.(error); !returns || !mayPanic(name) {
					t.Errorf("%s of a closed object panics: %v", name, panicked)
					continue
				}
			}
			_, works := worksClosed[name]
			works = works || m.Name == "Close"
			switch {
			case !returns:
			case works && err != nil:
				t.Errorf("%s of a closed object: %v", name, err)
			case !works && !errors.Is(err, ferry.ErrClosed):
				t.Errorf("%s of a closed object returns %v, want ErrClosed", name, err)
			case !works && !strings.Contains(err.Error(), "soft:h200"):
				t.Errorf("%s of a closed object: %q does not say of which GPU", name, err)
			}
		}
	}
	x.wantUnchanged(t)
}

// closedOne returns a closed object of a type. It returns false for types without Close.
func closedOne(t *testing.T, x *badInput, name string) (any, bool) {
	t.Helper()
	var c interface{ Close() error }
	switch name {
	case "Device":
		c = must(ferry.Alloc[float32](x.g, 10))(t)
	case "Event":
		c = must(ferry.NewEvent(x.g, nil))(t)
	case "GPU":
		c = must(ferry.Open("soft"))(t)
	case "Graph":
		c = must(x.stream.Capture(func(*ferry.Stream) error { return nil }))(t)
	case "Host":
		c = must(ferry.AllocHost[float32](x.g, 10, nil))(t)
	case "Managed":
		c = must(ferry.AllocManaged[float32](x.g, 10, nil))(t)
	case "MemPool":
		c = must(ferry.NewMemPool(x.g, nil))(t)
	case "Module":
		c, _ = load(t, x.g, "fill")
	case "PinnedPool":
		c = must(ferry.NewPinnedPool(x.g, nil))(t)
	case "Stream":
		c = must(ferry.NewStream(x.g, nil))(t)
	default:
		return nil, false
	}
	closeAll(t, c)
	return c, true
}

// TestClosedArguments: functions and methods refuse closed arguments, and name them.
func TestClosedArguments(t *testing.T) {
	x := newBadInput(t)
	ctx := context.Background()
	stream := must(ferry.NewStream(x.g, nil))(t)
	device, host := must(ferry.Alloc[byte](x.g, 1000))(t), must(ferry.AllocHost[byte](x.g, 1000, nil))(t)
	managed := must(ferry.AllocManaged[byte](x.g, 1000, nil))(t)
	event := must(ferry.NewEvent(x.g, nil))(t)
	module, kernel := load(t, x.g, "vector_add")
	graph := must(x.stream.Capture(func(*ferry.Stream) error { return nil }))(t)
	pool := must(ferry.NewMemPool(x.g, nil))(t)
	check(t, x.stream.Record(event))
	check(t, x.stream.Record(x.event))
	var batches [4]ferry.Batch
	check(t, ferry.CopyAll(&batches[0], []ferry.Pair[byte]{{Dst: x.device, Src: host}}))
	check(t, ferry.CopyRect(&batches[1], ferry.Rect[byte]{Memory: device, Width: 10}, ferry.Rect[byte]{Memory: x.host, Width: 10}))
	check(t, batches[2].Launch(kernel, ferry.Cover(1024, 256), x.floats, x.floats, x.floats, uint64(1024)))
	check(t, batches[3].WaitEvent(event))
	closeAll(t, stream, device, host, managed, event, module, graph, pool)
	closed := func(part string, call func() error) refusedCall { return refusedCall{call, part, ferry.ErrClosed} }
	buffers := []struct {
		memory ferry.Memory[byte]
		part   string
	}{{device, "device buffer"}, {device.Range(1, 5), "device buffer"}, {host, "page-locked buffer"}, {managed, "managed buffer"}}
	for _, b := range buffers {
		wantRefused(t, b.part, []refusedCall{
			closed(b.part, func() error { return ferry.Copy(x.stream, b.memory, ferry.Memory[byte](x.host)) }),
			closed(b.part, func() error { return ferry.Copy(x.stream, x.device, b.memory) }),
			closed(b.part, func() error { return ferry.CopyContext(ctx, x.stream, x.device, b.memory) }),
			closed(b.part, func() error {
				return ferry.CopyContext(ctx, x.stream, b.memory, ferry.Memory[byte](ferry.Pageable(x.want)))
			}),
			closed(b.part, func() error { return ferry.CopyAll(x.stream, []ferry.Pair[byte]{{Dst: b.memory, Src: x.host}}) }),
			closed(b.part, func() error {
				return ferry.CopyRect(x.stream, ferry.Rect[byte]{Memory: x.device, Width: 4, Height: 1}, ferry.Rect[byte]{Memory: b.memory, Width: 4, Height: 1})
			}),
			closed(b.part, func() error { return ferry.Fill(x.stream, b.memory, 1) }),
			closed(b.part, func() error { return last(ferry.Download(b.memory)) }),
			closed(b.part, func() error { return last(ferry.CopyFrom(ctx, x.stream, b.memory, strings.NewReader("1234"))) }),
			closed(b.part, func() error { return last(ferry.CopyTo(ctx, x.stream, new(strings.Builder), b.memory)) }),
			closed(b.part, func() error { return partsOf(ctx, x.stream, b.memory, strings.NewReader("1234")) }),
			closed(b.part, func() error { return partsTo(ctx, x.stream, new(strings.Builder), b.memory) }),
			closed(b.part, func() error {
				return x.stream.Launch(x.add, ferry.Cover(1024, 256), b.memory, x.floats, x.floats, uint64(1024))
			}),
		})
	}
	const streamName = "stream 2 of soft:h200" // after that of x
	wantRefused(t, "closed arguments", []refusedCall{
		closed(streamName, func() error { return ferry.Copy(stream, x.device, ferry.Memory[byte](x.host)) }),
		closed(streamName, func() error { return ferry.Copy(stream, x.device, ferry.Memory[byte](ferry.Pageable(x.want))) }),
		closed(streamName, func() error { return ferry.CopyAll(stream, []ferry.Pair[byte]{{Dst: x.device, Src: x.host}}) }),
		closed(streamName, func() error {
			return ferry.CopyRect(stream, ferry.Rect[byte]{Memory: x.device, Width: 4, Height: 2, Pitch: 9}, ferry.Rect[byte]{Memory: x.host, Width: 4, Height: 2})
		}),
		closed(streamName, func() error { return ferry.Fill(stream, x.device, 1) }),
		closed(streamName, func() error { return last(ferry.CopyFrom(ctx, stream, x.device, strings.NewReader("1234"))) }),
		closed(streamName, func() error { return partsOf(ctx, stream, x.device, strings.NewReader("1234")) }),
		closed(streamName, func() error { return partsTo(ctx, stream, io.Discard, x.device) }),
		closed(streamName, func() error { return last(ferry.AllocAsync[byte](stream, 1, nil)) }),
		closed(streamName, func() error { return x.graph.Launch(stream) }),
		closed(streamName, func() error { return x.graph.Update(stream, func(*ferry.Stream) error { return nil }) }),
		closed("an event of soft:h200", func() error { return x.stream.Record(event) }),
		closed("an event of soft:h200", func() error { return x.stream.WaitEvent(event) }),
		closed("an event of soft:h200", func() error { return last(x.event.Since(event)) }),
		closed("a module (", func() error {
			return x.stream.Launch(kernel, ferry.Cover(1024, 256), x.floats, x.floats, x.floats, uint64(1024))
		}),
		closed("graph ", func() error { return graph.Launch(x.stream) }),
		closed("a memory pool of soft:h200", func() error { return last(ferry.AllocAsync[byte](x.stream, 1, pool)) }),
		closed("soft:h200", func() error { return last(x.g.CanAccessPeer(x.closed)) }),
		closed("soft:h200", func() error { return x.g.EnablePeer(x.closed) }),
		closed("operation 1 of 1", func() error { return x.stream.Submit(&batches[0]) }),
		closed("operation 1 of 1", func() error { return x.stream.Submit(&batches[1]) }),
		closed("operation 1 of 1", func() error { return x.stream.Submit(&batches[2]) }),
		closed("operation 1 of 1", func() error { return x.stream.Submit(&batches[3]) }),
		closed(streamName, func() error { return stream.Submit(new(ferry.Batch)) }),
	})
	x.wantUnchanged(t)
}

// TestForeignArguments: what belongs to another GPU, of another driver, is refused.
func TestForeignArguments(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeConcurrentManagedAccess)
	x := newBadInput(t)
	ctx := context.Background()
	far := x.far
	event := must(ferry.NewEvent(x.other, nil))(t)
	device, host := must(ferry.Alloc[byte](x.other, 1000))(t), must(ferry.AllocHost[byte](x.other, 1000, nil))(t)
	managed := must(ferry.AllocManaged[byte](x.other, 1000, nil))(t)
	module, kernel := load(t, x.other, "vector_add")
	pool := must(ferry.NewMemPool(x.other, nil))(t)
	pinned := must(ferry.NewPinnedPool(x.other, nil))(t)
	check(t, far.Record(event))
	check(t, x.stream.Record(x.event))
	var batch, waiting ferry.Batch
	check(t, batch.Record(event))
	check(t, waiting.WaitEvent(event))
	foreign := func(part string, call func() error) refusedCall { return refusedCall{call: call, part: part} }
	for _, m := range []ferry.Memory[byte]{device, host, managed} {
		wantRefused(t, "memory", []refusedCall{
			foreign("another driver", func() error { return ferry.Copy(x.stream, m, ferry.Memory[byte](x.host)) }),
			foreign("another driver", func() error { return ferry.Copy(x.stream, x.device, m) }),
			foreign("another driver", func() error { return ferry.CopyContext(ctx, x.stream, m, ferry.Memory[byte](ferry.Pageable(x.want))) }),
			foreign("another driver", func() error { return ferry.CopyAll(x.stream, []ferry.Pair[byte]{{Dst: m, Src: x.host}}) }),
			foreign("another driver", func() error {
				return ferry.CopyRect(x.stream, ferry.Rect[byte]{Memory: m, Width: 4, Height: 2, Pitch: 9}, ferry.Rect[byte]{Memory: x.host, Width: 4, Height: 2})
			}),
			foreign("another driver", func() error { return ferry.Fill(x.stream, m, 1) }),
			foreign("another driver", func() error { return last(ferry.CopyFrom(ctx, x.stream, m, strings.NewReader("1234"))) }),
			foreign("another driver", func() error { return last(ferry.CopyTo(ctx, x.stream, new(strings.Builder), m)) }),
			foreign("another driver", func() error { return partsOf(ctx, x.stream, m, strings.NewReader("1234")) }),
			foreign("another driver", func() error { return partsTo(ctx, x.stream, io.Discard, m) }),
			foreign("parameter 0", func() error {
				return x.stream.Launch(x.add, ferry.Cover(1024, 256), m, x.floats, x.floats, uint64(1024))
			}),
		})
	}
	wantRefused(t, "objects", []refusedCall{
		{func() error { return x.stream.Record(event) }, "one GPU", cu.ErrorInvalidHandle},
		foreign("one driver", func() error { return x.stream.WaitEvent(event) }),
		{func() error { return last(x.event.Since(event)) }, "one GPU", cu.ErrorInvalidHandle},
		{func() error {
			return x.stream.Launch(kernel, ferry.Cover(1024, 256), x.floats, x.floats, x.floats, uint64(1024))
		}, "load its module", cu.ErrorInvalidHandle},
		foreign("one GPU", func() error { return x.graph.Launch(far) }),
		{func() error { return x.graph.Update(far, func(*ferry.Stream) error { return nil }) }, "one GPU", cu.ErrorGraphExecUpdateFailure},
		foreign("one GPU", func() error { return last(ferry.AllocAsync[byte](x.stream, 1, pool)) }),
		foreign("another driver", func() error { return managed.Prefetch(x.stream, 0) }),
		foreign("another driver", func() error { return managed.Attach(x.stream, cu.MemAttachGlobal) }),
		{func() error { return x.stream.Submit(&batch) }, "one GPU", cu.ErrorInvalidHandle},
		foreign("one driver", func() error { return x.stream.Submit(&waiting) }),
		{func() error { return x.g.EnablePeer(x.other) }, "different drivers", cu.ErrorPeerAccessUnsupported},
	})
	x.wantUnchanged(t)
	closeAll(t, event, device, host, managed, module, pool, pinned)
}

// TestForeignGraph: the graph of one GPU works on after Update with a stream of another GPU of
// the same driver was refused.
func TestForeignGraph(t *testing.T) {
	all := must(ferry.OpenDriver(softDriver(t, "h200", 2, softgpu.Eager), 0))(t)
	other := must(ferry.OpenDriver(all.Driver(), 1))(t)
	defer closeAll(t, other, all)
	s, far := must(ferry.NewStream(all, nil))(t), must(ferry.NewStream(other, nil))(t)
	near, there := must(ferry.Alloc[byte](all, 64))(t), must(ferry.Alloc[byte](other, 64))(t)
	graph := must(s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, near, 7) }))(t)
	check(t, ferry.Fill(far, there, 1))
	wantError(t, graph.Update(far, func(s *ferry.Stream) error { return ferry.Fill(s, there, 9) }), cu.ErrorGraphExecUpdateFailure, "update graph 1", "one GPU")
	check(t, graph.Launch(s))
	if got := must(ferry.Download(near))(t); got[0] != 7 || got[63] != 7 {
		t.Errorf("the graph fills with %d, want 7", got[0])
	}
	if got := must(ferry.Download(there))(t); got[0] != 1 {
		t.Errorf("the graph fills memory of the other GPU with %d", got[0])
	}
	closeAll(t, graph, near, there, s, far)
}

// unsteadyDriver returns an error from the next calls that wait for or ask about a stream. The
// context is not lost.
type unsteadyDriver struct {
	cu.Driver
	failing  atomic.Int64 // calls
	released atomic.Int64
}

var errUnsteady = cu.ErrorOperatingSystem

func (d *unsteadyDriver) Unwrap() cu.Driver { return d.Driver }

func (d *unsteadyDriver) fails() bool { return d.failing.Add(-1) >= 0 }

func (d *unsteadyDriver) StreamSynchronize(ctx cu.Context, s cu.Stream) error {
	if d.fails() {
		return errUnsteady
	}
	return d.Driver.StreamSynchronize(ctx, s)
}

func (d *unsteadyDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if d.fails() {
		return errUnsteady
	}
	return d.Driver.StreamQuery(ctx, s)
}

func (d *unsteadyDriver) EventQuery(ctx cu.Context, e cu.Event) error {
	if d.fails() {
		return errUnsteady
	}
	return d.Driver.EventQuery(ctx, e)
}

func (d *unsteadyDriver) DevicePrimaryCtxRelease(dev cu.Device) error {
	d.released.Add(1)
	return d.Driver.DevicePrimaryCtxRelease(dev)
}

// closable is what a test closes while it is in flight.
type closable interface{ Close() error }

// TestCloseAgain: after one error of the driver, Close of a buffer, a module or a pool that is in
// flight waits again. After many, it returns the error and frees nothing, and another Close
// frees everything, so that the context is released.
func TestCloseAgain(t *testing.T) {
	for what, make := range map[string]func(*testing.T, *ferry.GPU) (x closable, use func(*ferry.Stream) error){
		"Device": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			d := must(ferry.Alloc[byte](g, 1000))(t)
			return d, func(s *ferry.Stream) error { return ferry.Fill(s, d, 1) }
		},
		"Host": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			h := must(ferry.AllocHost[byte](g, 1<<20, &ferry.HostOptions{Mapped: true}))(t)
			return h, func(s *ferry.Stream) error { return ferry.Fill(s, h, 1) }
		},
		"Module": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			m := must(ferry.Load(g, []byte(waitPTX), nil))(t)
			k := must(m.Kernel("nothing"))(t)
			return m, func(s *ferry.Stream) error { return s.Launch(k, ferry.Cover(1, 1)) }
		},
		"variable": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			m := must(ferry.Load(g, []byte(waitPTX), nil))(t)
			v := must(ferry.Global[uint32](m, "v"))(t)
			return m, func(s *ferry.Stream) error { return ferry.Fill(s, v, 1) }
		},
		"PinnedPool": func(t *testing.T, g *ferry.GPU) (closable, func(*ferry.Stream) error) {
			p := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Mapped: true}))(t)
			h := must(fromPool[byte](p, 1000))(t)
			return p, func(s *ferry.Stream) error { return errors.Join(ferry.Fill(s, h, 1), h.Close()) }
		},
	} {
		for _, n := range []int64{1, 1000} {
			d := &unsteadyDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
			g := must(ferry.OpenDriver(d, 0))(t)
			s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			x, use := make(t, g)
			open := gate(t, s)
			check(t, use(s))
			d.failing.Store(n)
			if n == 1 {
				waits(t, "Close of "+what, open, func() { check(t, x.Close()) })
			} else {
				if err := x.Close(); !errors.Is(err, errUnsteady) {
					t.Errorf("Close of %s: %v, want the error of the driver", what, err)
				}
				d.failing.Store(0)
				waits(t, "second Close of "+what, open, func() { check(t, x.Close()) })
			}
			check(t, x.Close())
			if err := s.Wait(context.Background()); err != nil && !errors.Is(err, errUnsteady) {
				t.Error(err)
			}
			closeAll(t, s)
			if err := g.Close(); err != nil && !errors.Is(err, errUnsteady) {
				t.Error(err)
			}
			if d.released.Load() != 1 {
				t.Errorf("the context was not released after Close of %s", what)
			}
		}
	}
}

const waitPTX = `.version 7.0
.target sm_75
.address_size 64
.visible .global .u32 v;
.visible .entry nothing() { ret; }
`
