package api

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// graphMemoryTest runs f on the test's GPU, and on software GPUs with each schedule.
func graphMemoryTest(t *testing.T, f func(t *testing.T, g *ferry.GPU, x *graphFixture)) {
	t.Run("gpu", func(t *testing.T) {
		gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing, cu.DeviceAttributeMemoryPoolsSupported)
		gputest.NeedsCall(t, "cuGraphInstantiateWithFlags", 11040)
		g := openTest(t)
		f(t, g, newGraphFixture(t, g))
	})
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		t.Run(fmt.Sprint(schedule), func(t *testing.T) {
			d := must(softgpu.Open(softgpu.Options{Schedule: schedule}))(t)
			g := openDriver(t, d)
			f(t, g, newGraphFixture(t, g))
			check(t, g.Wait(t.Context()))
			check(t, d.DeviceGraphMemTrim(0))
			if used := must(d.DeviceGetGraphMemAttribute(0, cu.GraphMemAttrUsedMemCurrent))(t); used != 0 {
				t.Errorf("graphs use %d bytes after all was closed", used)
			}
		})
	}
}

// wantPlus compares the output with the input and a sum.
func (x *graphFixture) wantPlus(t *testing.T, when string, sum float32) {
	t.Helper()
	for i, got := range x.out.Slice() {
		if want := x.in.ReadSlice()[i] + sum; got != want {
			t.Fatalf("%s: element %d is %v, want %v", when, i, got, want)
		}
	}
}

// queueOn queues a copy to vec, a kernel and a copy back.
func (x *graphFixture) queueOn(s *ferry.Stream, vec *ferry.Device[float32]) error {
	if err := ferry.Copy(s, vec, x.in); err != nil {
		return err
	}
	if err := s.Launch(x.k, ferry.Cover(graphFloats, 256), vec, uint64(graphFloats)); err != nil {
		return err
	}
	return ferry.Copy(s, x.out, vec)
}

// TestGraphScratch: a buffer that a capture allocates and closes is memory of the graph alone. Each
// launch has it, and nobody else can use it.
func TestGraphScratch(t *testing.T) {
	graphMemoryTest(t, func(t *testing.T, g *ferry.GPU, x *graphFixture) {
		var scratch *ferry.Device[float32]
		graph := must(x.s.Capture(func(s *ferry.Stream) (err error) {
			if scratch, err = ferry.AllocAsync[float32](s, graphFloats, nil); err != nil {
				return err
			}
			if err := x.queueOn(s, scratch); err != nil {
				return err
			}
			return scratch.Close()
		}))(t)
		for i := range 3 {
			x.setInput(float32(100 * i))
			check(t, graph.Launch(x.s))
			check(t, x.s.Wait(t.Context()))
			x.wantPlus(t, "from the scratch memory", 1)
		}
		wantError(t, ferry.Copy(x.s, x.out, scratch), ferry.ErrClosed)
		closeAll(t, graph, scratch)
	})
}

// TestGraphResult: a buffer that a capture allocates and does not close has memory from a launch on.
// Each launch writes it anew, also while nobody has freed it, and it outlives the graph.
func TestGraphResult(t *testing.T) {
	graphMemoryTest(t, func(t *testing.T, g *ferry.GPU, x *graphFixture) {
		var result *ferry.Device[float32]
		graph := must(x.s.Capture(func(s *ferry.Stream) (err error) {
			if result, err = ferry.AllocAsync[float32](s, graphFloats, nil); err != nil {
				return err
			}
			if err := ferry.Copy(s, result, x.in); err != nil {
				return err
			}
			return s.Launch(x.k, ferry.Cover(graphFloats, 256), result, uint64(graphFloats))
		}))(t)
		wantError(t, ferry.Copy(x.s, x.out, result), cu.ErrorInvalidValue, "launch the graph first")
		wantError(t, x.s.Launch(x.k, ferry.Cover(graphFloats, 256), result, uint64(graphFloats)), cu.ErrorInvalidValue, "launch the graph first")
		for i := range 3 {
			x.setInput(float32(1000 * i))
			check(t, graph.Launch(x.s))
			check(t, ferry.Copy(x.s, x.out, result))
			check(t, x.s.Wait(t.Context()))
			x.wantPlus(t, "after a launch", 1)
		}
		other := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		closeAll(t, graph)
		check(t, other.Launch(x.k, ferry.Cover(graphFloats, 256), result, uint64(graphFloats)))
		check(t, ferry.Copy(other, x.out, result))
		check(t, other.Wait(t.Context()))
		x.wantPlus(t, "after the graph", 2)
		closeAll(t, result, other)
	})
}

// TestGraphResultClosed: a closed buffer stays with its graph, which can be launched, and gives the
// memory back when it is closed, too.
func TestGraphResultClosed(t *testing.T) {
	graphMemoryTest(t, func(t *testing.T, g *ferry.GPU, x *graphFixture) {
		var result *ferry.Device[float32]
		pool := must(ferry.NewMemPool(g, &ferry.MemPoolOptions{Zero: true}))(t)
		graph := must(x.s.Capture(func(s *ferry.Stream) (err error) {
			if result, err = ferry.AllocAsync[float32](s, graphFloats, pool); err != nil {
				return err
			}
			if err := s.Launch(x.k, ferry.Cover(graphFloats, 256), result, uint64(graphFloats)); err != nil {
				return err
			}
			return ferry.Copy(s, x.out, result)
		}))(t)
		closeAll(t, pool)
		check(t, graph.Launch(x.s))
		check(t, result.Close())
		for range 2 {
			check(t, graph.Launch(x.s))
			check(t, x.s.Wait(t.Context()))
			if got := x.out.Slice()[7]; got != 1 {
				t.Errorf("%v, want 1: the pool clears the memory at each launch", got)
			}
			x.out.Slice()[7] = -1
		}
		wantError(t, ferry.Copy(x.s, x.out, result), ferry.ErrClosed)
		closeAll(t, graph)
	})
}

// TestGraphMemoryBranches: Close in a capture frees behind the work of all streams of the capture.
func TestGraphMemoryBranches(t *testing.T) {
	graphMemoryTest(t, func(t *testing.T, g *ferry.GPU, x *graphFixture) {
		branch := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		fork, join := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
		graph := must(x.s.Capture(func(s *ferry.Stream) error {
			vec, err := ferry.AllocAsync[float32](s, graphFloats, nil)
			if err != nil {
				return err
			}
			check(t, s.Record(fork))
			check(t, branch.WaitEvent(fork))
			if err := x.queueOn(branch, vec); err != nil {
				return err
			}
			if err := vec.Close(); err != nil { // before s follows the branch
				return err
			}
			check(t, branch.Record(join))
			return s.WaitEvent(join)
		}))(t)
		for i := range 3 {
			x.setInput(float32(i))
			check(t, graph.Launch(x.s))
			check(t, x.s.Wait(t.Context()))
			x.wantPlus(t, "from the branch", 1)
		}
		closeAll(t, graph, branch, fork, join)
	})
}

// TestGraphMemoryOfBranch: a buffer that a branch allocates is closed after the branch was joined.
func TestGraphMemoryOfBranch(t *testing.T) {
	graphMemoryTest(t, func(t *testing.T, g *ferry.GPU, x *graphFixture) {
		branch := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		fork, join := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
		graph := must(x.s.Capture(func(s *ferry.Stream) error {
			check(t, s.Record(fork))
			check(t, branch.WaitEvent(fork))
			vec, err := ferry.AllocAsync[float32](branch, graphFloats, nil)
			if err != nil {
				return err
			}
			if err := x.queueOn(branch, vec); err != nil {
				return err
			}
			check(t, branch.Record(join))
			check(t, s.WaitEvent(join))
			return vec.Close()
		}))(t)
		for i := range 3 {
			x.setInput(float32(i))
			check(t, graph.Launch(x.s))
			check(t, x.s.Wait(t.Context()))
			x.wantPlus(t, "from the branch", 1)
		}
		closeAll(t, graph, branch, fork, join)
	})
}

// TestGraphMemoryElsewhere: a graph allocates the buffers of its own capture alone. It refuses those
// of a capture that has failed, and uses those of another graph when that was launched.
func TestGraphMemoryElsewhere(t *testing.T) {
	graphMemoryTest(t, func(t *testing.T, g *ferry.GPU, x *graphFixture) {
		var lost, other *ferry.Device[float32]
		_, err := x.s.Capture(func(s *ferry.Stream) (err error) {
			if lost, err = ferry.AllocAsync[float32](s, graphFloats, nil); err != nil {
				return err
			}
			return errNoGraph
		})
		wantError(t, err, errNoGraph)
		_, err = x.s.Capture(func(s *ferry.Stream) error { return x.queueOn(s, lost) })
		wantError(t, err, cu.ErrorInvalidValue, "allocate another buffer")
		maker := must(x.s.Capture(func(s *ferry.Stream) (err error) {
			if other, err = ferry.AllocAsync[float32](s, graphFloats, nil); err != nil {
				return err
			}
			return ferry.Copy(s, other, x.in)
		}))(t)
		user := must(x.s.Capture(func(s *ferry.Stream) error {
			if err := s.Launch(x.k, ferry.Cover(graphFloats, 256), other, uint64(graphFloats)); err != nil {
				return err
			}
			return ferry.Copy(s, x.out, other)
		}))(t)
		wantError(t, user.Launch(x.s), cu.ErrorInvalidValue, "launch the graph first")
		x.setInput(3)
		check(t, maker.Launch(x.s))
		check(t, user.Launch(x.s))
		check(t, x.s.Wait(t.Context()))
		x.wantPlus(t, "of the other graph", 1)
		closeAll(t, user, maker, lost, other)
	})
}

var errNoGraph = errors.New("no graph")

// TestGraphMemoryLost: buffers of a capture that fails have no memory, and can be closed. A graph
// that allocates cannot be updated.
func TestGraphMemoryLost(t *testing.T) {
	graphMemoryTest(t, func(t *testing.T, g *ferry.GPU, x *graphFixture) {
		var vec *ferry.Device[float32]
		capture := func(s *ferry.Stream) (err error) {
			if vec, err = ferry.AllocAsync[float32](s, graphFloats, nil); err != nil {
				return err
			}
			return x.queueOn(s, vec)
		}
		_, err := x.s.Capture(func(s *ferry.Stream) error {
			check(t, capture(s))
			return errNoGraph
		})
		wantError(t, err, errNoGraph, "no graph")
		wantError(t, ferry.Copy(x.s, x.out, vec), cu.ErrorInvalidValue, "allocate another buffer")
		closeAll(t, vec)
		graph := must(x.s.Capture(capture))(t)
		first := vec
		wantError(t, graph.Update(x.s, capture), cu.ErrorGraphExecUpdateFailure, "Capture makes a new graph")
		closeAll(t, vec)
		x.setInput(3)
		check(t, graph.Launch(x.s))
		check(t, x.s.Wait(t.Context()))
		x.wantPlus(t, "after the refused update", 1)
		closeAll(t, first, graph)
	})
}
