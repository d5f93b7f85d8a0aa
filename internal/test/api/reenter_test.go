package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// calling is a reader and a writer that calls a function in its first call, and copies data.
type calling struct {
	f    func()
	data []byte // read from; written to
}

func (c *calling) first() {
	if f := c.f; f != nil {
		c.f = nil
		f()
	}
}

func (c *calling) Read(p []byte) (int, error) {
	c.first()
	n := copy(p, c.data)
	c.data = c.data[n:]
	return n, nil
}

func (c *calling) Write(p []byte) (int, error) {
	c.first()
	c.data = append(c.data, p...)
	return len(p), nil
}

// lendable is memory of a kind, what closes it, and what to close after it.
type lendable struct {
	memory ferry.Memory[byte]
	close  func() error
	rest   io.Closer // nil for none
}

// lendables makes memory of each kind that Close frees or gives back.
func lendables(t *testing.T, g *ferry.GPU, s *ferry.Stream, n int) map[string]lendable {
	t.Helper()
	device, ordered := must(ferry.Alloc[byte](g, n))(t), must(ferry.AllocAsync[byte](s, n, nil))(t)
	host := must(ferry.AllocHost[byte](g, n, nil))(t)
	mapped := must(ferry.AllocHost[byte](g, n, &ferry.HostOptions{Mapped: true}))(t)
	registered := must(ferry.Register(g, make([]byte, n), nil))(t)
	managed := must(ferry.AllocManaged[byte](g, n, nil))(t)
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	pooled := new(ferry.Host[byte])
	check(t, pooled.Alloc(pool, n))
	m := must(ferry.Load(g, fmt.Appendf(nil, ".version 6.3\n.target sm_52\n.address_size 64\n.global .align 16 .b8 x[%d];\n", n), nil))(t)
	x := must(ferry.Global[byte](m, "x"))(t)
	return map[string]lendable{
		"device":         {device, device.Close, nil},
		"stream-ordered": {ordered, ordered.Close, nil},
		"page-locked":    {host, host.Close, nil},
		"mapped":         {mapped, mapped.Close, nil},
		"registered":     {registered, registered.Close, nil},
		"managed":        {managed, managed.Close, nil},
		"pooled":         {pooled, pooled.Close, pool},
		"variable":       {x, m.Close, nil},
	}
}

// TestCloseInReader: a reader or a writer that closes the memory of its copy gets an error that
// says that the copy uses it. So does a goroutine for which the reader waits. The copy ends with
// right data, and frees the memory. A Close after that returns nil.
func TestCloseInReader(t *testing.T) {
	const n = 3 << 20
	canEnd, cancel := context.WithCancel(context.Background())
	defer cancel()
	want := make([]byte, n)
	for _, from := range []bool{true, false} {
		for name, ctx := range map[string]context.Context{"no context": nil, "a context that can end": canEnd} {
			for _, other := range []bool{false, true} {
				d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{})
				g := must(ferry.OpenDriver(d, 0))(t)
				s := must(ferry.NewStream(g, nil))(t)
				for kind, c := range lendables(t, g, s, n) {
					what := fmt.Sprintf("%s, %s, from a reader %t, on another goroutine %t", kind, name, from, other)
					fillRandom(want)
					copyInto(t, s, c.memory, want)
					closes := func() {
						for range 2 {
							wantError(t, c.close(), cu.ErrorNotReady, "CopyFrom, CopyTo, CopyParts or External that has not returned uses it")
						}
						_, err := ferry.CopyFrom(context.Background(), s, c.memory, bytes.NewReader(want))
						wantError(t, err, ferry.ErrClosed)
					}
					user := &calling{f: closes}
					if other {
						user.f = func() {
							done := make(chan struct{})
							go func() { defer close(done); closes() }()
							<-done
						}
					}
					ends(t, what, func() {
						var err error
						if from {
							user.data = want
							_, err = ferry.CopyFrom(ctx, s, c.memory, user)
						} else if _, err = ferry.CopyTo(ctx, s, user, c.memory); err == nil && !bytes.Equal(user.data, want) {
							err = errors.New("other bytes were written")
						}
						if err != nil {
							t.Errorf("%s: %v", what, err)
						}
					})
					check(t, c.close())
					if c.rest != nil {
						closeAll(t, c.rest)
					}
				}
				ends(t, "Close of the rest", func() { closeAll(t, s, g) })
				eventually(t, "nothing is left", func() bool { return len(d.Live()) == 0 })
			}
		}
	}
}

// copyInto sets the bytes of memory of any kind.
func copyInto(t *testing.T, s *ferry.Stream, m ferry.Memory[byte], data []byte) {
	t.Helper()
	check(t, ferry.Copy(s, m, ferry.Pageable(data)))
	check(t, s.Wait(context.Background()))
}

// place is a place where Ferry calls a function of the program.
type place struct {
	hosted bool // on a thread of the driver, where calls of the driver are refused
	call   func(f func()) error
}

// TestReenter: a function of the program may call Ferry, wherever Ferry calls it. It may do again what
// calls it, use and close every object, and close the GPU. Nothing hangs, and nothing is left.
func TestReenter(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	const n = 1 << 20
	type objects struct {
		d      *fault.Driver
		g      *ferry.GPU
		s      *ferry.Stream
		device *ferry.Device[byte]
		host   *ferry.Host[byte]
		graph  *ferry.Graph
		pool   *ferry.PinnedPool
		data   []byte
	}
	background := context.Background()
	places := func(o *objects) map[string]place {
		progress := func(f func()) *ferry.HostOptions {
			return &ferry.HostOptions{Progress: func(done, total int) { f() }}
		}
		return map[string]place{
			"Read": {false, func(f func()) error {
				return last(ferry.CopyFrom(background, o.s, o.device, &calling{f, o.data}))
			}},
			"Write": {false, func(f func()) error { return last(ferry.CopyTo(background, o.s, &calling{f: f}, o.device)) }},
			"Progress": {false, func(f func()) error {
				h, err := ferry.AllocHost[byte](o.g, 64<<20, progress(f))
				return errors.Join(err, h.Close())
			}},
			"Capture": {false, func(f func()) error {
				x, err := o.s.Capture(func(s *ferry.Stream) error { f(); return nil })
				return errors.Join(err, x.Close())
			}},
			"Update": {false, func(f func()) error {
				return o.graph.Update(o.s, func(s *ferry.Stream) error { f(); return ferry.Fill(s, o.device, 2) })
			}},
			"HostFunc": {true, func(f func()) error { return errors.Join(o.s.HostFunc(f), o.s.Wait(background)) }},
		}
	}
	actions := map[string]func(o *objects) error{
		"use the GPU": func(o *objects) error {
			d, err := ferry.Upload(o.g, o.data)
			if err != nil {
				return err
			}
			return errors.Join(last(ferry.Download(d)), d.Close())
		},
		"wait for the GPU": func(o *objects) error { return o.g.Wait(background) },
		"wait for the stream and the buffers": func(o *objects) error {
			return errors.Join(o.s.Wait(background), o.device.Wait(background), o.host.Wait(background))
		},
		"queue":  func(o *objects) error { return ferry.Copy(o.s, o.host, o.device) },
		"launch": func(o *objects) error { return o.graph.Launch(o.s) },
		"close all": func(o *objects) error {
			return errors.Join(o.device.Close(), o.host.Close(), o.graph.Close(), o.pool.Close())
		},
		"close the stream": func(o *objects) error { return o.s.Close() },
		"close the GPU":    func(o *objects) error { return o.g.Close() },
	}
	open := func() *objects {
		d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{})
		g := must(ferry.OpenDriver(d, 0))(t)
		o := &objects{d: d, g: g, s: must(ferry.NewStream(g, nil))(t), device: must(ferry.Alloc[byte](g, n))(t), host: must(ferry.AllocHost[byte](g, n, nil))(t),
			pool: must(ferry.NewPinnedPool(g, nil))(t), data: make([]byte, n)}
		o.graph = must(o.s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, o.device, 1) }))(t)
		return o
	}
	for name := range places(nil) {
		again := func(o *objects) error { return places(o)[name].call(func() {}) }
		run := func(action string, act func(o *objects) error) {
			o := open()
			what, called := action+" in "+name, false
			var inside error
			at := places(o)[name]
			ends(t, what, func() { _ = at.call(func() { called, inside = true, act(o) }) })
			var want error
			switch captures := name == "Capture" || name == "Update"; {
			case strings.HasPrefix(action, "close"):
				if action == "close all" && (name == "Read" || name == "Write") {
					want = cu.ErrorNotReady
				}
			case at.hosted:
				want = cu.ErrorNotPermitted
			case captures && action == "do it again":
				want = cu.ErrorIllegalState
			case captures && action != "use the GPU" && action != "queue":
				want = cu.ErrorStreamCaptureUnsupported
			}
			if !called || !errors.Is(inside, want) {
				t.Errorf("%s: called %t, got %v, want %v", what, called, inside, want)
			}
			ends(t, what+": Close", func() {
				_ = errors.Join(o.device.Close(), o.host.Close(), o.graph.Close(), o.pool.Close(), o.s.Close(), o.g.Close())
			})
			eventually(t, what+": nothing is left", func() bool { return len(o.d.Live()) == 0 })
		}
		for action, act := range actions {
			run(action, act)
		}
		run("do it again", again)
	}
}

// TestNestedReaders: readers that copy from readers, more deeply than the staging ring has slots,
// and a reader that gets what another goroutine writes from the same GPU, all come to an end.
func TestNestedReaders(t *testing.T) {
	const n, depth = 10_000_000, 40
	const part = n / (depth + 1)
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	from, to := must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, n))(t)
	want := make([]byte, n)
	fillRandom(want)
	file := filepath.Join(t.TempDir(), "data")
	check(t, os.WriteFile(file, want[:part], 0o600))
	canEnd, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, ctx := range []context.Context{nil, canEnd} {
		var nest func(level int) error
		nest = func(level int) error {
			if level == 0 {
				return nil
			}
			var inner error
			user := &calling{f: func() { inner = nest(level - 1) }}
			if level%2 == 0 {
				_, err := ferry.CopyTo(ctx, s, user, from.Range(0, part))
				if err == nil && !bytes.Equal(user.data, want[:part]) {
					err = errors.New("other bytes were written")
				}
				return errors.Join(err, inner)
			}
			d := to.Range(level*part, (level+1)*part)
			user.data = want[:part]
			var reader io.Reader = user
			if level == 1 {
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				defer f.Close()
				reader = f
			}
			_, err := ferry.CopyFrom(ctx, s, d, reader)
			got, failed := ferry.Download(d)
			if failed == nil && !bytes.Equal(got, want[:part]) {
				failed = errors.New("other bytes were read")
			}
			return errors.Join(err, inner, failed)
		}
		copyInto(t, s, from, want)
		ends(t, "nested readers", func() {
			if err := nest(depth); err != nil {
				t.Error(err)
			}
		})
		ends(t, "a pipe", func() {
			r, w := io.Pipe()
			written := make(chan bool)
			go func() {
				defer close(written)
				_, err := ferry.CopyTo(ctx, s, w, from)
				_ = w.CloseWithError(err)
			}()
			check(t, last(ferry.CopyFrom(ctx, s, to, r)))
			<-written // CopyFrom has all bytes before CopyTo returns, which Close would not wait for
		})
		wantBytes(t, must(ferry.Download(to))(t), want)
	}
	closeAll(t, from, to, s)
}

// TestCloseBeforeReader: another goroutine closes the memory of a CopyFrom or CopyTo that waits for
// the stream and has not called its reader or writer yet. The copy goes on, and frees the memory.
func TestCloseBeforeReader(t *testing.T) {
	const n = 1 << 20
	want := make([]byte, n)
	for _, from := range []bool{true, false} {
		soft := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{})
		d := newHookDriver(soft)
		g := must(ferry.OpenDriver(d, 0))(t)
		s := must(ferry.NewStream(g, nil))(t)
		memory := lendables(t, g, s, n)
		for _, kind := range []string{"page-locked", "mapped", "registered", "pooled"} {
			c := memory[kind]
			fillRandom(want)
			copyInto(t, s, c.memory, want)
			d.during("StreamSynchronize", func() error {
				wantError(t, c.close(), cu.ErrorNotReady)
				return nil
			})
			user := &calling{}
			var k int64
			var err error
			if from {
				user.data = want
				k, err = ferry.CopyFrom(context.Background(), s, c.memory, user)
			} else if k, err = ferry.CopyTo(context.Background(), s, user, c.memory); !bytes.Equal(user.data, want) {
				t.Errorf("%s: other bytes were written", kind)
			}
			if err != nil || k != n {
				t.Errorf("%s, from a reader %t: %d bytes, %v", kind, from, k, err)
			}
		}
		for _, c := range memory {
			check(t, c.close())
			if c.rest != nil {
				closeAll(t, c.rest)
			}
		}
		closeAll(t, s, g)
		d.wantReleased(t, "after the copies")
		if live := soft.Live(); len(live) > 0 {
			t.Errorf("left %v", live)
		}
	}
}

// TestCloseInReaderContextEnds: a CopyFrom whose dst was closed returns when its context ends, also
// while the stream stands still. The memory is freed when the stream has reached that point.
func TestCloseInReaderContextEnds(t *testing.T) {
	soft := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{})
	g := must(ferry.OpenDriver(soft, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	device := must(ferry.Alloc[byte](g, 3<<20))(t)
	live := len(soft.Live())
	open := gate(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	user := &calling{data: make([]byte, 3<<20), f: func() {
		wantError(t, device.Close(), cu.ErrorNotReady)
		cancel()
	}}
	ends(t, "CopyFrom", func() {
		wantError(t, last(ferry.CopyFrom(ctx, s, device, user)), context.Canceled)
	})
	check(t, device.Close())
	open()
	closeAll(t, s, g)
	eventually(t, "nothing is left", func() bool { return len(soft.Live()) == 0 })
	if live == 0 {
		t.Error("the buffer was never live: the test is void")
	}
}
