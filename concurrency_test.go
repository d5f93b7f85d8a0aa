package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestManyGoroutines lets goroutines work on streams of their own and parts of
// shared buffers.
func TestManyGoroutines(t *testing.T) {
	t.Run("device=test", func(t *testing.T) { testManyGoroutines(t, openTest(t)) })
	t.Run("device=soft:h200/schedule=random", func(t *testing.T) { testManyGoroutines(t, openSoft(t, "h200", softgpu.Random)) })
}

func testManyGoroutines(t *testing.T, g *ferry.GPU) {
	const workers, rounds, size = 8, 20, 3000
	device := must(ferry.Alloc[byte](g, workers*size))(t)
	host := must(ferry.AllocHost[byte](g, workers*size, nil))(t)
	code, k := load(t, g, "copy")
	all := host.Slice()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			s, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: w%2 == 0})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			mine, there := host.Range(w*size, (w+1)*size), device.Range(w*size, (w+1)*size)
			part := all[w*size : (w+1)*size] // other parts are in flight: Slice would wait for them
			for range rounds {
				random(part)
				want := bytes.Clone(part)
				if err := errors.Join(
					ferry.Copy(s, there.Range(0, size/2), mine.Range(0, size/2)),
					s.Launch(k, ferry.Grid(size/2, 64), there.Range(size/2, size), there.Range(0, size/2), uint64(size/2)),
					ferry.Copy(s, mine.Range(size/2, size), there.Range(size/2, size)),
					s.Wait(context.Background()),
				); err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(part[size/2:], want[:size/2]) {
					t.Error("the bytes differ")
					return
				}
			}
		})
	}
	wg.Wait()
	closeAll(t, code, host, device)
}

// TestCloseRaces closes buffers, streams and events while others use them: all
// calls end well or with ErrClosed.
func TestCloseRaces(t *testing.T) {
	g := openTest(t)
	for range 50 {
		s := must(ferry.NewStream(g, nil))(t)
		e := must(ferry.NewEvent(g, nil))(t)
		host, device := must(ferry.AllocHost[byte](g, 256, nil))(t), must(ferry.Alloc[byte](g, 256))(t)
		var wg sync.WaitGroup
		var failed atomic.Pointer[error]
		use := func(f func() error) {
			wg.Go(func() {
				for {
					if err := f(); err != nil {
						if !errors.Is(err, ferry.ErrClosed) {
							failed.Store(&err)
						}
						return
					}
				}
			})
		}
		use(func() error { return ferry.Copy(s, device, host) })
		use(func() error { return errors.Join(ferry.Copy(s, host, device), host.Wait(context.Background())) })
		use(func() error { return errors.Join(s.Record(e), e.Wait(context.Background())) })
		for _, c := range []interface{ Close() error }{device, host, e, s} {
			for range 2 {
				wg.Go(func() {
					if err := c.Close(); err != nil {
						failed.Store(&err)
					}
				})
			}
		}
		wg.Wait()
		if err := failed.Load(); err != nil {
			t.Fatal(*err)
		}
	}
	check(t, g.Wait(context.Background()))
}

// TestEventTogether: an event that many record at once is of use afterwards, and
// what it stands for is known again once it is recorded alone.
func TestEventTogether(t *testing.T) {
	g := openTest(t)
	streams := []*ferry.Stream{must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)}
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device, streams[0], streams[1])
	together := func(n int, want error) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				var b ferry.Batch
				check(t, b.Record(e))
				for range n {
					for _, err := range []error{streams[i%2].Record(e), streams[i%2].Submit(&b), e.Wait(context.Background())} {
						if err != nil && !errors.Is(err, want) {
							t.Error(err)
						}
					}
				}
			})
		}
		if want != nil {
			closeAll(t, e)
		}
		all.Wait()
	}
	for range 3 {
		together(50, nil)
		check(t, ferry.Copy(streams[0], host, device))
		check(t, streams[0].Record(e))
		check(t, e.Wait(context.Background()))
		open := gate(t, streams[0])
		if host.Slice() == nil { // must return although the gate is shut
			t.Error("Slice is nil")
		}
		open()
	}
	together(50, ferry.ErrClosed)
	if err := streams[0].Record(e); !errors.Is(err, ferry.ErrClosed) {
		t.Errorf("error %v, want that the event is closed", err)
	}
	closeAll(t, e)
}
