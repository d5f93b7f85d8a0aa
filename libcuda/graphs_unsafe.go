package libcuda

import (
	"errors"
	"fmt"
	"structs"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// GraphGetNodes calls cuGraphGetNodes, once for the count and once for the nodes;
// see [cu.Graphs].
func (d *Driver) GraphGetNodes(graph cu.Graph) ([]cu.GraphNode, error) {
	var count uintptr
	err := d.call3(procGraphGetNodes, uintptr(graph), 0, uintptr(unsafe.Pointer(&count)))
	if err != nil || count == 0 {
		return nil, err
	}
	nodes := make([]cu.GraphNode, count)
	err = d.call3(procGraphGetNodes, uintptr(graph), uintptr(unsafe.Pointer(&nodes[0])), uintptr(unsafe.Pointer(&count)))
	if err != nil {
		return nil, err
	}
	return nodes[:min(count, uintptr(len(nodes)))], nil
}

// updateInfo is the reason why an update failed (CUgraphExecUpdateResultInfo).
type updateInfo struct {
	_        structs.HostLayout
	result   uint32
	node     cu.GraphNode
	fromNode cu.GraphNode
}

// updateReasons has the meaning of updateInfo.result (CUgraphExecUpdateResult).
var updateReasons = map[uint32]string{
	2: "the graph has other nodes or dependencies",
	3: "a node is of another kind",
	4: "a kernel node has another function",
	5: "parameters changed that cannot change",
	6: "a node is of a kind that cannot be updated",
	7: "a kernel node has a function of another context or kind",
	8: "attributes changed that cannot change",
}

// GraphExecUpdate calls cuGraphExecUpdate; see [cu.Graphs].
func (d *Driver) GraphExecUpdate(ctx cu.Context, exec cu.GraphExec, graph cu.Graph) error {
	info := new(updateInfo)
	err := d.bound3(procGraphExecUpdate, ctx, uintptr(exec), uintptr(graph), uintptr(unsafe.Pointer(info)))
	if reason := updateReasons[info.result]; err != nil && reason != "" {
		return fmt.Errorf("cuGraphExecUpdate: %s (node %#x): %w", reason, uintptr(info.node), err)
	}
	return err
}

// kernelNodeParams is CUDA_KERNEL_NODE_PARAMS_v2.
type kernelNodeParams struct {
	_              structs.HostLayout
	f              cu.Function
	grid, block    cu.Dim3
	sharedMemBytes uint32
	kernelParams   *unsafe.Pointer
	extra          *launchParams
	kernel         uintptr
	ctx            cu.Context
}

// GraphExecKernelNodeSetParams calls cuGraphExecKernelNodeSetParams; see [cu.Graphs]. The
// driver refuses a packed buffer for a node of a cooperative launch, so a refused call is
// made again with pointers to the parameters.
func (d *Driver) GraphExecKernelNodeSetParams(ctx cu.Context, exec cu.GraphExec, node cu.GraphNode, f cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, params []byte) error {
	n := &kernelNodeParams{f: f, grid: grid, block: block, sharedMemBytes: sharedMemBytes}
	if len(params) > 0 {
		n.extra = new(launchParams)
		n.extra.set(params)
	}
	set := func() error {
		return d.bound3(procGraphExecKernelNodeSetParams, ctx, uintptr(exec), uintptr(node), uintptr(unsafe.Pointer(n)))
	}
	err := set()
	if !errors.Is(err, cu.ErrorInvalidValue) || n.extra == nil {
		return err
	}
	pointers, unknown := d.paramPointers(ctx, f, params)
	if unknown != nil || len(pointers) == 0 {
		return err
	}
	n.extra, n.kernelParams = nil, &pointers[0]
	return set()
}
