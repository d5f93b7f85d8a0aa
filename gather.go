package ferry

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// gatherer is the shipped kernel that copies many ranges at once. It is loaded when
// a GPU is opened: to load code can wait for all that runs in the context, for
// ever if that waits for the caller.
type gatherer struct {
	module cu.Module
	f      cu.Function // 0 where the device does not take the kernel
}

func (x *gatherer) load(g *GPU) {
	m, err := g.driver.ModuleLoadData(g.ctx, []byte(kernels.PTX))
	if err != nil {
		return
	}
	x.module = m
	if f, err := g.driver.ModuleGetFunction(g.ctx, m, "gather"); err == nil {
		x.f = f
	}
}

// unload is for the end of the context.
func (x *gatherer) unload(g *GPU) error {
	if x.module == 0 {
		return nil
	}
	return g.driver.ModuleUnload(g.ctx, x.module)
}

// Of a launch of the kernel: threads a block, the bytes of a range for which
// another block is worth it, and how many blocks a range has at most. Measured on
// an H200: docs/PERFORMANCE.md.
const (
	gatherThreads = 256
	gatherShare   = 16 << 10
	gatherBlocks  = 8
)

// gather appends launches that copy ranges by device addresses. params is room,
// which must stay until the batch is submitted; what it is afterwards is returned.
func gather(b *cu.Batch, f cu.Function, stream cu.Stream, ranges []span64, params []byte) []byte {
	need := (len(ranges) + kernels.GatherRanges - 1) / kernels.GatherRanges * kernels.GatherParams
	if cap(params) < need {
		params = make([]byte, need)
	}
	params = params[:need]
	for at := 0; len(ranges) > 0; at += kernels.GatherParams {
		n := min(len(ranges), kernels.GatherRanges)
		blocks := packGather(params[at:at+kernels.GatherParams], ranges[:n])
		b.LaunchKernel(f, cu.Dim3{X: uint32(n) * blocks, Y: 1, Z: 1}, cu.Dim3{X: gatherThreads, Y: 1, Z: 1}, 0, stream, params[at:at+kernels.GatherParams])
		ranges = ranges[n:]
	}
	return params
}

// span64 is a range to copy by device addresses.
type span64 struct {
	dst, src cu.DevicePtr
	bytes    uintptr
}

// packGather lays the parameters of a launch out as struct Ranges of kernels.cu
// has them, and says how many blocks a range gets.
func packGather(to []byte, ranges []span64) (blocks uint32) {
	const n = kernels.GatherRanges
	most := uintptr(0)
	for i, r := range ranges {
		binary.LittleEndian.PutUint64(to[8*i:], uint64(r.dst))
		binary.LittleEndian.PutUint64(to[8*(n+i):], uint64(r.src))
		binary.LittleEndian.PutUint32(to[16*n+4*i:], uint32(r.bytes))
		most = max(most, r.bytes)
	}
	blocks = uint32(min(max((most+gatherShare-1)/gatherShare, 1), gatherBlocks))
	binary.LittleEndian.PutUint32(to[20*n:], blocks)
	return blocks
}
