package nccl

import (
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
)

// idle is a library that does nothing.
type idle struct{ backend.Library }

func (idle) Name() string                { return "idle" }
func (idle) Submit([]backend.Item) error { return nil }

// idleComm is a communicator of idle.
type idleComm struct{ backend.Comm }

func (idleComm) Err() error   { return nil }
func (idleComm) Abort() error { return nil }

// TestAllocations: a call, and a group that is used again, allocate nothing beside the library.
func TestAllocations(t *testing.T) {
	if racebuild.Instrumented {
		t.Skip("the race detector allocates")
	}
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ferry.Alloc[float32](g, 100)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newComm(g, idle{}, idleComm{}, rendezvous.Local(1)[0], Options{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	var group Group
	for name, call := range map[string]func() error{
		"call": func() error { return AllReduce(c, s, m, m, Sum) },
		"group": func() error {
			for range 3 {
				if err := AllReduce(group.For(c), s, m, m, Sum); err != nil {
					return err
				}
			}
			return group.Submit()
		},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkCall is what a call costs beside the library.
func BenchmarkCall(b *testing.B) {
	g, err := ferry.Open("soft")
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		b.Fatal(err)
	}
	m, err := ferry.Alloc[float32](g, 100)
	if err != nil {
		b.Fatal(err)
	}
	c, err := newComm(g, idle{}, idleComm{}, rendezvous.Local(1)[0], Options{Name: "one"})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Abort()
	b.ReportAllocs()
	for b.Loop() {
		if err := AllReduce(c, s, m, m, Sum); err != nil {
			b.Fatal(err)
		}
	}
}
