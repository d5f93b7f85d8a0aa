package libcuda_test

import (
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// capture records the operations that work puts into a stream.
func (g *gpu) capture(s cu.Stream, work func()) cu.Graph {
	g.Helper()
	status := func() cu.StreamCaptureStatus {
		status, err := g.StreamIsCapturing(g.ctx, s)
		g.must(err)
		return status
	}
	if got := status(); got != cu.StreamCaptureStatusNone {
		g.Fatalf("status %d before the capture", got)
	}
	g.must(g.StreamBeginCapture(g.ctx, s, cu.StreamCaptureModeRelaxed))
	if got := status(); got != cu.StreamCaptureStatusActive {
		g.Errorf("status %d during the capture", got)
	}
	work()
	graph, err := g.StreamEndCapture(g.ctx, s)
	g.must(err)
	g.cleanup(func() error { return g.GraphDestroy(graph) })
	return graph
}

func TestGPUGraph(t *testing.T) {
	g := newGPU(t)
	const n = 1000
	scale := g.kernel(g.module(testPTX), "scale")
	p, s := g.alloc(4*n), g.stream()
	in, inPtr := g.pinned(4*n, 0)
	out, outPtr := g.pinned(4*n, 0)
	grid, block := over(n)
	runs := 0
	step := func(k uint32) cu.Graph {
		return g.capture(s, func() {
			g.must(g.MemcpyHtoDAsync(g.ctx, p, inPtr, 4*n, s))
			g.must(g.LaunchKernel(g.ctx, scale, grid, block, 0, s, scaleParams(p, n, k)))
			g.must(g.MemcpyDtoHAsync(g.ctx, outPtr, p, 4*n, s))
			g.must(g.LaunchHostFunc(g.ctx, s, func() { runs++ }))
		})
	}
	graph := step(3)
	if runs != 0 {
		t.Error("a captured function ran")
	}
	nodes, err := g.GraphGetNodes(graph)
	g.must(err)
	var kinds []cu.GraphNodeType
	var kernel cu.GraphNode
	for _, node := range nodes {
		kind, err := g.GraphNodeGetType(node)
		g.must(err)
		kinds = append(kinds, kind)
		if kind == cu.GraphNodeTypeKernel {
			kernel = node
		}
	}
	slices.Sort(kinds)
	if want := []cu.GraphNodeType{cu.GraphNodeTypeKernel, cu.GraphNodeTypeMemcpy, cu.GraphNodeTypeMemcpy, cu.GraphNodeTypeHost}; !slices.Equal(kinds, want) {
		t.Errorf("node types %d, want %d", kinds, want)
	}
	exec, err := g.GraphInstantiate(g.ctx, graph, 0)
	g.must(err)
	g.cleanup(func() error { return g.GraphExecDestroy(exec) })

	launches := 0
	check := func(k uint32) {
		t.Helper()
		data := random(4 * n)
		copy(in, data)
		copy(out, random(4*n))
		g.must(g.GraphLaunch(g.ctx, exec, s))
		g.must(g.StreamSynchronize(g.ctx, s))
		g.same("graph", out, scaled(data, k, 7))
		if launches++; runs != launches {
			t.Errorf("the host function ran %d times in %d launches", runs, launches)
		}
	}
	check(3)
	check(3)
	g.must(g.GraphExecUpdate(g.ctx, exec, step(5)))
	check(5)
	g.must(g.GraphExecKernelNodeSetParams(g.ctx, exec, kernel, scale, grid, block, 0, scaleParams(p, n, 9)))
	check(9)

	other := g.capture(s, func() { g.must(g.MemsetD8Async(g.ctx, p, 1, 4*n, s)) })
	g.want(g.GraphExecUpdate(g.ctx, exec, other), cu.ErrorGraphExecUpdateFailure)
}

// TestGPUGraphPanic launches a captured host function that panics in its second run.
func TestGPUGraphPanic(t *testing.T) {
	g := newGPU(t)
	s := g.stream()
	runs := 0
	graph := g.capture(s, func() {
		g.must(g.LaunchHostFunc(g.ctx, s, func() {
			if runs++; runs == 2 {
				panic("second run")
			}
		}))
	})
	exec, err := g.GraphInstantiate(g.ctx, graph, 0)
	g.must(err)
	g.cleanup(func() error { return g.GraphExecDestroy(exec) })
	for run := 1; run <= 3; run++ {
		g.must(g.GraphLaunch(g.ctx, exec, s))
		err := g.StreamSynchronize(g.ctx, s)
		if (err != nil) != (run == 2) || runs != run {
			t.Errorf("run %d: %d runs, error %v", run, runs, err)
		}
	}
}

// TestGPUEmptyGraph asks a graph without nodes for its nodes.
func TestGPUEmptyGraph(t *testing.T) {
	g := newGPU(t)
	graph := g.capture(g.stream(), func() {})
	nodes, err := g.GraphGetNodes(graph)
	g.must(err)
	if len(nodes) != 0 {
		t.Errorf("%d nodes", len(nodes))
	}
}
