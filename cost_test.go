package ferry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

// cost is something to copy and launch, on any GPU.
type cost struct {
	stream *ferry.Stream
	host   *ferry.Host[byte]
	device *ferry.Device[byte]
	add    *ferry.Kernel
	floats *ferry.Device[float32]
	event  *ferry.Event
}

func newCost(t testing.TB, g *ferry.GPU, bytes int) *cost {
	t.Helper()
	c := &cost{
		stream: must(ferry.NewStream(g, nil))(t),
		host:   must(ferry.AllocHost[byte](g, bytes, nil))(t),
		device: must(ferry.Alloc[byte](g, bytes))(t),
		floats: must(ferry.Alloc[float32](g, 1024))(t),
		event:  must(ferry.NewEvent(g, &ferry.EventOptions{NoTiming: true}))(t),
	}
	m := must(ferry.Load(g, []byte(kernels.PTX)))(t)
	c.add = must(m.Kernel("vector_add"))(t)
	t.Cleanup(func() { closeAll(t, c.stream, c.host, c.device, c.floats, c.event, m) })
	return c
}

func (c *cost) copy() error { return ferry.Copy(c.stream, c.device, c.host) }

func (c *cost) launch(n uint64) error {
	return c.stream.Launch(c.add, ferry.Grid(int(n), 256), c.floats, c.floats, c.floats, n)
}

// TestAllocations: a copy between buffers, a launch, of a graph too, an event and a
// batch allocate nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := newCost(t, openFake(t, newFake()), 4096)
	n := uint64(1000)
	graph := must(c.stream.Capture(func(*ferry.Stream) error { return errors.Join(c.copy(), c.launch(n)) }))(t)
	t.Cleanup(func() { closeAll(t, graph) })
	var fresh, again ferry.Batch
	check(t, c.list(&again))
	for name, f := range map[string]func() error{
		"Submit": func() error {
			fresh.Reset()
			return errors.Join(c.list(&fresh), c.stream.Submit(&fresh))
		},
		"Submit again": func() error { return c.stream.Submit(&again) },
		"Record":       func() error { return c.stream.Record(c.event) },
		"Copy":         c.copy,
		"Launch":       func() error { n ^= 1 << 9; return c.launch(n) },
		"Graph.Launch": func() error { return graph.Launch(c.stream) },
	} {
		if got := testing.AllocsPerRun(1000, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%s allocates %v times, want 0", name, got)
		}
	}
}

// every runs f and, every 256 times, waits.
func every(b *testing.B, c *cost, f func() error) {
	for n := 1; b.Loop(); n++ {
		if err := f(); err != nil {
			b.Fatal(err)
		}
		if n%256 == 0 {
			if err := c.stream.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
