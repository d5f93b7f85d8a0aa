package api

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// closeCase makes an object. s is a stream that has nothing to do with the panic.
type closeCase struct {
	name string // of the type; further words say what is special
	make func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer
}

// closeCases has every kind of object that has a Close.
var closeCases = []closeCase{
	{"Device", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		return must(ferry.Alloc[byte](g, 1<<20))(t)
	}},
	{"Device with a pitch", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		d, _, err := ferry.AllocPitched[byte](g, 100, 100)
		return must(d, err)(t)
	}},
	{"Device in stream order", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		return must(ferry.AllocAsync[byte](s, 1<<20, nil))(t)
	}},
	{"Device in flight", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		d := must(ferry.Alloc[byte](g, 1<<20))(t)
		check(t, ferry.Fill(s, d, 1))
		return d
	}},
	{"Host", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		return must(ferry.AllocHost[byte](g, 4096, nil))(t)
	}},
	{"Host of the pin engine", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		return must(ferry.AllocHost[byte](g, 64<<20, nil))(t)
	}},
	{"Host, registered", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		return must(ferry.Register(g, make([]byte, 1<<20), nil))(t)
	}},
	{"Host of a pool", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		p := must(ferry.NewPinnedPool(g, nil))(t)
		h := must(fromPool[byte](p, 4096))(t)
		closeAll(t, p)
		return h
	}},
	{"Managed", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		return must(ferry.AllocManaged[byte](g, 1<<20, nil))(t)
	}},
	{"Module", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		return must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	}},
	{"Event", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		e := must(ferry.NewEvent(g, nil))(t)
		check(t, s.Record(e))
		return e
	}},
	{"Stream", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer { return must(ferry.NewStream(g, nil))(t) }},
	{"Stream in flight", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		other := must(ferry.NewStream(g, nil))(t)
		check(t, other.HostFunc(func() {}))
		return other
	}},
	{"MemPool", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer { return must(ferry.NewMemPool(g, nil))(t) }},
	{"PinnedPool", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		p := must(ferry.NewPinnedPool(g, nil))(t)
		check(t, p.Warm(context.Background(), 1<<20))
		return p
	}},
	{"Graph of a closed buffer and a closed module", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		d, m := must(ferry.Alloc[byte](g, 1000))(t), must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
		k := must(m.Kernel("fill"))(t)
		x := must(s.Capture(func(s *ferry.Stream) error {
			return errors.Join(ferry.Fill(s, d, 1), s.Launch(k, ferry.Cover(16, 16), d, uint32(1), uint64(16)))
		}))(t)
		closeAll(t, d, m)
		return x
	}},
	{"GPU of the same context", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		other := must(ferry.OpenDriver(g.Driver(), 0))(t)
		check(t, other.DefaultStream().HostFunc(func() {}))
		return other
	}},
	{"GPU of the other device", func(t *testing.T, g *ferry.GPU, s *ferry.Stream) io.Closer {
		return must(ferry.OpenDriver(g.Driver(), 1))(t)
	}},
}

// TestCloseWithPendingPanic: while no wait has returned the panic of a host function, other objects
// can be closed. Close returns nil and frees, and the wait for the stream returns the panic, once.
func TestCloseWithPendingPanic(t *testing.T) {
	drivers := map[string]func(*testing.T) cu.Driver{
		"eager":       func(t *testing.T) cu.Driver { return softDriver(t, "h200", 2, softgpu.Eager) },
		"lazy":        func(t *testing.T) cu.Driver { return softDriver(t, "h200", 2, softgpu.Lazy) },
		"as hardware": func(t *testing.T) cu.Driver { return &gputest.Holding{Driver: softDriver(t, "h200", 2, softgpu.Eager)} },
	}
	for _, c := range closeCases {
		for name, open := range drivers {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				d := fault.Wrap(open(t), fault.Options{})
				g := must(ferry.OpenDriver(d, 0))(t)
				s, unrelated := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
				before := memoryAndMore(d)
				x := c.make(t, g, unrelated)
				hostPanic(t, s, name != "lazy")
				closeAll(t, x, x)
				eventually(t, "freed", func() bool { return memoryAndMore(d) <= before })
				wantPanic(t, s.Wait(context.Background()))
				check(t, s.Wait(context.Background()))
				check(t, g.Wait(context.Background()))
				closeAll(t, s, unrelated, g)
				if live := d.Live(); len(live) > 0 {
					t.Errorf("left %v", live)
				}
			})
		}
	}
}

// memoryAndMore returns how many objects of the driver are live. An event of a closed stream stays
// until a wait.
func memoryAndMore(d *fault.Driver) (n int) {
	for _, o := range d.Live() {
		if !strings.HasPrefix(o, "event ") {
			n++
		}
	}
	return n
}

// hostPanic lets a host function of a stream panic. With now set it has panicked on return.
func hostPanic(t *testing.T, s *ferry.Stream, now bool) {
	t.Helper()
	panicked := make(chan struct{})
	check(t, s.HostFunc(func() { defer close(panicked); panic("planted") }))
	if now {
		<-panicked
	}
}

// wantPanic checks that a wait returned the panic of hostPanic.
func wantPanic(t *testing.T, err error) {
	t.Helper()
	if p, ok := errors.AsType[*cu.HostPanic](err); !ok || p.Value != "planted" {
		t.Errorf("the wait returns %v, want the panic", err)
	}
}

// TestCloseCasesHaveAll: closeCases has every exported type with a Close.
func TestCloseCasesHaveAll(t *testing.T) {
	known := map[string]bool{}
	for _, c := range closeCases {
		known[firstWord(c.name)] = true
	}
	for _, r := range receivers {
		if _, ok := reflect.TypeOf(r).MethodByName("Close"); ok != known[typeOf(r)] {
			t.Errorf("%s: it has a Close: %t, and is in closeCases: %t", typeOf(r), ok, known[typeOf(r)])
		}
	}
}

// firstWord returns what is before the first space or comma.
func firstWord(s string) string {
	for i, c := range s {
		if c == ' ' || c == ',' {
			return s[:i]
		}
	}
	return s
}

// TestPanicReachesOneWait: the panic of a host function reaches the first wait for its stream, or for
// all work of the context, and once. Waits for other streams, for events and for memory return nil.
func TestPanicReachesOneWait(t *testing.T) {
	ctx := context.Background()
	for name, wait := range map[string]func(g *ferry.GPU, s *ferry.Stream) error{
		"Stream.Wait": func(g *ferry.GPU, s *ferry.Stream) error { return s.Wait(ctx) },
		"Stream.Done": func(g *ferry.GPU, s *ferry.Stream) error {
			for {
				if done, err := s.Done(); done || err != nil {
					return err
				}
			}
		},
		"GPU.Wait": func(g *ferry.GPU, s *ferry.Stream) error { return g.Wait(ctx) },
	} {
		for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy} {
			g := openSoft(t, "h200", schedule)
			s, other := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
			e, on, h := must(ferry.NewEvent(g, nil))(t), must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
			hostPanic(t, s, schedule == softgpu.Eager)
			check(t, ferry.Fill(s, h, 1)) // after the panic
			check(t, errors.Join(ferry.Fill(other, on, 1), s.Record(e), other.Wait(ctx), g.DefaultStream().Wait(ctx), e.Wait(ctx)))
			if got := h.Slice()[99]; got != 1 {
				t.Errorf("%s: the stream did not go on: %d", name, got)
			}
			check(t, h.Close())
			wantPanic(t, wait(g, s))
			check(t, errors.Join(s.Wait(ctx), g.Wait(ctx)))
			closeAll(t, s, other, e, on)
		}
	}
}
