package ferry

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/tuning"
	"github.com/ferrygpu/ferry/kernels"
)

// A copy engine makes one transfer at a time, in the order of arrival, whatever the
// priority of the stream. On an H200 a copy of 50 KiB waits 4.9 ms behind a copy of 256 MiB
// in another stream. A kernel that copies shares the link with the copy engine instead,
// and is done in 0.03 ms. So a kernel makes a small copy that would wait behind a large
// one. The same kernel makes many small copies in one launch: see CopyAll.

// copyKernel is the shipped kernel that copies many ranges at once. It is loaded when a
// GPU is opened, because loading code can wait for all work of the context. Later it would
// wait forever, if that work waits for the calling goroutine.
type copyKernel struct {
	module cu.Module
	f      cu.Function // 0 if the device cannot run the kernel
}

// load loads the kernel. Without it, copies only take longer, so errors are dropped.
func (x *copyKernel) load(d cu.Driver, ctx cu.Context) {
	m, err := d.ModuleLoadData(ctx, []byte(kernels.PTX))
	if err != nil {
		return
	}
	x.module = m
	if f, err := d.ModuleGetFunction(ctx, m, "gather"); err == nil {
		x.f = f
	}
}

func (x *copyKernel) unload(d cu.Driver, ctx cu.Context) error {
	if x.module == 0 {
		return nil
	}
	return d.ModuleUnload(ctx, x.module)
}

// largeCopy is the large copy that was queued last in one direction. For a moment its two
// fields may belong to different copies. That does no harm, because isBusy asks the stream
// before a copy takes the kernel copy path.
type largeCopy struct {
	st     atomic.Pointer[streamState]
	number atomic.Uint64 // of the operation in st
}

// unfinished reports whether the large copy belongs to another stream and is not known to
// be done.
func (m *largeCopy) unfinished(st *streamState) bool {
	large := m.st.Load()
	return large != nil && large != st && !large.Completed(m.number.Load())
}

// record records the copy that was queued last in a stream.
func (m *largeCopy) record(st *streamState) {
	m.st.Store(st)
	m.number.Store(st.Next())
}

// isBusy asks the driver whether a stream has unfinished work.
func isBusy(st *streamState) bool {
	if !st.Enter() {
		return false
	}
	defer st.Leave()
	return errors.Is(st.askKeeping(), cu.ErrorNotReady)
}

// copyRange is a copy by device address.
type copyRange struct {
	dst, src cu.DevicePtr
	bytes    uintptr
}

// kernelParams has the parameters of launches that copy one range.
var kernelParams = sync.Pool{New: func() any { return new([kernels.GatherParams]byte) }}

// copyByKernel makes a small copy with the kernel. queued is false if the kernel cannot
// address the memory.
func copyByKernel(st *streamState, dst, src *span) (queued bool, err error) {
	to, ok := addressForKernel(st, dst)
	from, also := addressForKernel(st, src)
	if !ok || !also {
		return false, nil
	}
	params := kernelParams.Get().(*[kernels.GatherParams]byte)
	defer kernelParams.Put(params)
	clear(params[:])
	grid, block := packRanges(&st.g.tuning.Copy, params[:], []copyRange{{to, from, dst.bytes}})
	err = st.g.driver.LaunchKernel(st.g.ctx, st.g.copyKernel.f, grid, block, 0, st.handle, params[:])
	return true, err
}

// addressForKernel returns the address of memory in kernels of the stream's GPU. It
// returns false if kernels cannot address the memory, or access it more slowly than the
// copy engines do. For managed memory the plan says so: see copyPlan.kernel.
func addressForKernel(st *streamState, r *span) (cu.DevicePtr, bool) {
	if r.dev == 0 || r.a.g.device != st.g.device {
		return 0, false
	}
	p, err := r.addressOn(st.g)
	return p, err == nil
}

// appendKernelCopies appends launches that copy ranges. It appends their parameters to
// params, and returns that. The parameters must not change until the batch is submitted.
func appendKernelCopies(b *cu.Batch, st *streamState, ranges []copyRange, params []byte) []byte {
	for len(ranges) > 0 {
		n := min(len(ranges), kernels.GatherRanges)
		at := len(params)
		params = append(params, make([]byte, kernels.GatherParams)...)
		p := params[at:len(params):len(params)]
		grid, block := packRanges(&st.g.tuning.Copy, p, ranges[:n])
		b.LaunchKernel(st.g.copyKernel.f, grid, block, 0, st.handle, p)
		ranges = ranges[n:]
	}
	return params
}

// packRanges writes the parameters of a launch in the layout of struct Ranges in
// kernels.cu, and chooses the grid.
func packRanges(t *tuning.Copy, to []byte, ranges []copyRange) (grid, block cu.Dim3) {
	const n = kernels.GatherRanges
	most := uintptr(0)
	for i, r := range ranges {
		binary.LittleEndian.PutUint64(to[8*i:], uint64(r.dst))
		binary.LittleEndian.PutUint64(to[8*(n+i):], uint64(r.src))
		binary.LittleEndian.PutUint32(to[16*n+4*i:], uint32(r.bytes))
		most = max(most, r.bytes)
	}
	blocks := uint32(min(max((most+t.KernelBlockBytes-1)/t.KernelBlockBytes, 1), uintptr(t.KernelBlocks)))
	binary.LittleEndian.PutUint32(to[20*n:], blocks)
	return cu.Dim3{X: uint32(len(ranges)) * blocks, Y: 1, Z: 1}, cu.Dim3{X: uint32(t.KernelThreads), Y: 1, Z: 1}
}
