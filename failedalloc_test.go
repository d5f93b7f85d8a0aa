package ferry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/softgpu"
)

// books is what a program can read about the memory of a GPU.
type books struct {
	d       *fault.Driver
	g       *ferry.GPU
	s       *ferry.Stream
	current *ferry.MemPool
	pool    *ferry.MemPool
	pinned  *ferry.PinnedPool
	memory  []byte // ordinary
}

// openBooks opens a GPU whose nth call of the driver is refused. Its pools have used and
// unused memory.
func openBooks(t *testing.T, nth uint64) *books {
	t.Helper()
	d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{Nth: nth})
	b := &books{d: d, g: openDriver(t, d), memory: make([]byte, 3<<20)}
	b.s = must(ferry.NewStream(b.g, nil))(t)
	b.current = must(ferry.DefaultMemPool(b.g))(t)
	b.pool = must(ferry.NewMemPool(b.g, &ferry.MemPoolOptions{Keep: 1 << 40}))(t)
	b.pinned = must(ferry.NewPinnedPool(b.g, nil))(t)
	for _, p := range []*ferry.MemPool{b.current, b.pool} {
		must(ferry.AllocAsync[byte](b.s, 1<<20, p))(t)
		closeAll(t, must(ferry.AllocAsync[byte](b.s, 40<<20, p))(t))
	}
	must(ferry.AllocHost[byte](b.g, 4096, &ferry.HostOptions{Pool: b.pinned}))(t)
	check(t, b.s.Wait(t.Context()))
	return b
}

// read returns all counters as a text.
func (b *books) read(t *testing.T) string {
	t.Helper()
	free, total, err := b.g.MemInfo()
	check(t, err)
	pinned := b.pinned.Stats()
	pinned.DriverCalls, pinned.DriverTime = 0, 0 // a call that fails is a call
	return fmt.Sprintf("%d of %d free, default pool %+v, pool %+v, pinned pool %+v, live: %s", free, total,
		must(b.current.Stats())(t), must(b.pool.Stats())(t), pinned, strings.Join(b.d.Live(), ", "))
}

// TestFailedAllocationsChangeNoCounter refuses each driver call of each function that
// allocates, one after the other. After the error no counter is as if memory was there.
func TestFailedAllocationsChangeNoCounter(t *testing.T) {
	for what, alloc := range map[string]func(*books) error{
		"Alloc":              func(b *books) error { return last(ferry.Alloc[byte](b.g, 5<<20)) },
		"AllocPitched":       func(b *books) error { return last3(ferry.AllocPitched[[3]byte](b.g, 1000, 1000)) },
		"AllocAsync":         func(b *books) error { return last(ferry.AllocAsync[byte](b.s, 50<<20, nil)) },
		"AllocAsync, a pool": func(b *books) error { return last(ferry.AllocAsync[byte](b.s, 50<<20, b.pool)) },
		"AllocManaged":       func(b *books) error { return last(ferry.AllocManaged[byte](b.g, 5<<20, nil)) },
		"AllocHost, small":   func(b *books) error { return last(ferry.AllocHost[byte](b.g, 100, nil)) },
		"AllocHost, large": func(b *books) error {
			return last(ferry.AllocHost[byte](b.g, 300<<20, &ferry.HostOptions{Mapped: true}))
		},
		"AllocHost, a pool": func(b *books) error {
			return last(ferry.AllocHost[byte](b.g, 100<<20, &ferry.HostOptions{Pool: b.pinned}))
		},
		"Register": func(b *books) error {
			return last(ferry.Register(b.g, b.memory, &ferry.RegisterOptions{Mapped: true}))
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := openBooks(t, 0)
			b.read(t)
			calls := b.d.Calls()
			check(t, alloc(b))
			refused := 0
			for nth := calls + 1; ; nth++ {
				b := openBooks(t, nth)
				before := b.read(t)
				if b.d.Calls() != calls {
					t.Fatalf("%d calls so far, %d in the run before", b.d.Calls(), calls)
				}
				err := alloc(b)
				if b.d.Failed() == "" {
					break // all its calls have been refused
				}
				refused++
				if err == nil { // it can do without that call
					continue
				}
				if after := b.read(t); after != before {
					t.Errorf("call %d of %s refused, and counters have changed:\nbefore %s\nafter  %s", nth-calls, what, before, after)
				}
			}
			if refused == 0 {
				t.Error("no call was refused")
			}
		})
	}
}
