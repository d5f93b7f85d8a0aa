package ferry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestAllocations: a copy between buffers, a CopyAll of buffers, a launch of a kernel or a
// graph, Record and a batch allocate nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled || checked() {
		t.Skip("the race detector and FERRY_CHECK allocate")
	}
	c := newCallFixture(t, openDriver(t, newFake()), 4096)
	n := uint64(1000)
	graph := must(c.stream.Capture(func(*ferry.Stream) error { return errors.Join(c.copy(), c.launch(n)) }))(t)
	t.Cleanup(func() { closeAll(t, graph) })
	var fresh, again ferry.Batch
	check(t, c.list(&again))
	var pairs []ferry.Pair[byte]
	for i := range 20 {
		pairs = append(pairs, ferry.Pair[byte]{Dst: c.device.Range(i, i+1), Src: c.host.Range(i, i+1)})
	}
	for name, f := range map[string]func() error{
		"Submit": func() error {
			fresh.Reset()
			return errors.Join(c.list(&fresh), c.stream.Submit(&fresh))
		},
		"replay": func() error { return c.stream.Submit(&again) },
		"Record": func() error { return c.stream.Record(c.event) },
		"Copy":   c.copy,
		"CopyAll": func() error {
			return ferry.CopyAll(c.stream, pairs)
		},
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

// every runs f, and waits after every 256 times.
func every(b *testing.B, c *callFixture, f func() error) {
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

// BenchmarkTyped measures calls of the typed API. With driver=none, which does nothing, all
// of the time is Ferry's own.
func BenchmarkTyped(b *testing.B) {
	b.Run("driver=none", func(b *testing.B) { benchmarkTyped(b, openDriver(b, newFake())) })
	b.Run("driver=real", func(b *testing.B) { benchmarkTyped(b, openTest(b)) })
}

func benchmarkTyped(b *testing.B, g *ferry.GPU) {
	c := newCallFixture(b, g, 4096)
	var again, fresh ferry.Batch
	check(b, c.list(&again))
	for _, x := range []struct {
		op string
		f  func() error
	}{
		{"Copy", c.copy},
		{"Launch", func() error { return c.launch(1024) }},
		{"Record", func() error { return c.stream.Record(c.event) }},
		{"Step", c.step},
		{"Submit", func() error { return c.stream.Submit(&again) }},
		{"ListAndSubmit", func() error {
			fresh.Reset()
			if err := c.list(&fresh); err != nil {
				return err
			}
			return c.stream.Submit(&fresh)
		}},
	} {
		b.Run("op="+x.op, func(b *testing.B) {
			b.ReportAllocs()
			every(b, c, x.f)
		})
	}
}

// BenchmarkWait measures a short copy and the wait for it, with a context that can end and
// with one that cannot.
func BenchmarkWait(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, ctx := range map[string]context.Context{"none": context.Background(), "cancel": ctx} {
		b.Run("driver=real/size=4KiB/context="+name, func(b *testing.B) {
			c := newCallFixture(b, openTest(b), 4096)
			for b.Loop() {
				if err := errors.Join(c.copy(), c.stream.Wait(ctx)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
