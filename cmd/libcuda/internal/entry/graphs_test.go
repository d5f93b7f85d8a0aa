package entry

import (
	"runtime"
	"testing"
	"weak"
)

// TestClone: a clone keeps nothing of a graph that is destroyed, and the parameters of its kernels are its own.
func TestClone(t *testing.T) {
	g := newBuiltGraph()
	kernel := &kernelOp{bytes: []byte{1, 2}}
	original := weak.Make(g.add(kernel, nil))
	first := g.clone()
	second := first.clone()
	kernel.bytes[0] = 9
	if got := second.nodes[0].op.(*kernelOp).bytes[0]; got != 1 {
		t.Errorf("after a change of the original the clone has %d, want 1", got)
	}
	g.destroy()
	g, kernel = nil, nil
	runtime.GC()
	if original.Value() != nil {
		t.Error("a clone keeps the node that it was copied from")
	}
	first.destroy()
	second.destroy()
}
