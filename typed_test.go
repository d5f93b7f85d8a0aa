package ferry_test

import (
	"testing"

	"github.com/ferrygpu/ferry"
)

// BenchmarkTyped is what calls of the typed API cost: with driver=none, which
// answers at once, all of it is Ferry's own.
func BenchmarkTyped(b *testing.B) {
	b.Run("driver=none", func(b *testing.B) { benchmarkTyped(b, openFake(b, newFake())) })
	b.Run("driver=real", func(b *testing.B) { benchmarkTyped(b, openTest(b)) })
}

func benchmarkTyped(b *testing.B, g *ferry.GPU) {
	c := newCost(b, g, 4096)
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

// step is copy in, launch, copy out, event. It calls the stream itself: called
// by way of an interface, Launch has its list of arguments allocated.
func (c *cost) step() error {
	if err := c.copy(); err != nil {
		return err
	}
	if err := c.launch(1024); err != nil {
		return err
	}
	if err := ferry.Copy(c.stream, c.host, c.device); err != nil {
		return err
	}
	return c.stream.Record(c.event)
}

// list puts a step on a batch.
func (c *cost) list(q *ferry.Batch) error {
	if err := ferry.Copy(q, c.device, c.host); err != nil {
		return err
	}
	if err := q.Launch(c.add, ferry.Grid(1024, 256), c.floats, c.floats, c.floats, uint64(1024)); err != nil {
		return err
	}
	if err := ferry.Copy(q, c.host, c.device); err != nil {
		return err
	}
	return q.Record(c.event)
}
