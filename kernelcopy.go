package ferry

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// A copy engine serves one transfer at a time, in the order of arrival, whatever the
// priority of the stream: on an H200 a copy of 50 KiB waits 4.9 ms behind one of 256
// MiB in another stream. A kernel that copies shares the link instead, and is done in
// 0.03 ms. So a small copy that would wait behind a large one is made by a kernel. The
// same kernel makes many small copies in one launch: see CopyAll.

// copyKernel is the shipped kernel that copies many ranges at once. It is loaded when a
// GPU is opened: to load code can wait for all that runs in the context, for ever if
// that waits for the caller.
type copyKernel struct {
	module cu.Module
	f      cu.Function // 0 where the device does not take the kernel
}

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

// largeCopy is the large copy that was queued last in one direction. Its two words may
// belong to different copies for a moment, which does no harm: the stream is asked
// before anything is concluded.
type largeCopy struct {
	st     atomic.Pointer[streamState]
	number atomic.Uint64 // of the operation in st
}

// unfinished reports whether there is a copy of another stream, not known to be done.
func (m *largeCopy) unfinished(st *streamState) bool {
	large := m.st.Load()
	return large != nil && large != st && !large.Completed(m.number.Load())
}

// largestOf is the mark of a copy's direction, nil where none is kept.
func largestOf(g *GPU, dst, src *span) *largeCopy {
	to, from := dst.kind(), src.kind()
	switch {
	case to == deviceMemory && from.onHost():
		return &g.largest[0]
	case to.onHost() && from == deviceMemory:
		return &g.largest[1]
	}
	return nil
}

// noteLarge remembers a large copy that has been queued.
func noteLarge(st *streamState, dst, src *span) {
	if dst.bytes < st.g.largeCopy || st.capture != nil {
		return
	}
	if m := largestOf(st.g, dst, src); m != nil {
		m.st.Store(st)
		m.number.Store(st.Next())
	}
}

// behindLarge reports whether a copy would wait behind a large one of another stream,
// as far as that is known, and could be made by the kernel.
func behindLarge(st *streamState, dst, src *span) bool {
	if dst.bytes > st.g.tuning.copy.SmallBytes || st.capture != nil || st.g.copyKernel.f == 0 {
		return false
	}
	m := largestOf(st.g, dst, src)
	if m == nil {
		return false
	}
	return m.unfinished(st) && isBusy(m.st.Load())
}

// isBusy asks the driver whether a stream is at work, and notes what is done if not.
// Other answers the driver gives once: they are kept for Stream.Wait.
func isBusy(st *streamState) bool {
	if !st.Enter() {
		return false
	}
	defer st.Leave()
	n := st.Issued()
	err := st.g.driver.StreamQuery(st.g.ctx, st.handle)
	busy := errors.Is(err, cu.ErrorNotReady)
	switch {
	case err == nil:
		st.Complete(n)
	case !busy:
		st.pending.add(err)
	}
	return busy
}

// copyRange is a range to copy by device addresses.
type copyRange struct {
	dst, src cu.DevicePtr
	bytes    uintptr
}

// kernelParams has room for the parameters of a launch of one range.
var kernelParams = sync.Pool{New: func() any { return new([kernels.GatherParams]byte) }}

// copyByKernel makes a small copy by the kernel. It is false if the kernel cannot
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
	grid, block := packRanges(&st.g.tuning.copy, params[:], []copyRange{{to, from, dst.bytes}})
	err = st.g.driver.LaunchKernel(st.g.ctx, st.g.copyKernel.f, grid, block, 0, st.handle, params[:])
	return err == nil, err
}

// addressForKernel is the address that kernels of the stream's GPU have for memory that
// they read and write as fast as the copy engines do.
func addressForKernel(st *streamState, r *span) (cu.DevicePtr, bool) {
	if r.dev == 0 || r.a.g.device != st.g.device || r.kind() == managedMemory {
		return 0, false
	}
	p, err := r.addressOn(st.g)
	return p, err == nil
}

// appendKernelCopies appends launches that copy ranges. params is room, which must stay
// until the batch is submitted; it is returned as it is afterwards.
func appendKernelCopies(b *cu.Batch, st *streamState, ranges []copyRange, params []byte) []byte {
	for len(ranges) > 0 {
		n := min(len(ranges), kernels.GatherRanges)
		at := len(params)
		params = append(params, make([]byte, kernels.GatherParams)...)
		p := params[at:len(params):len(params)]
		grid, block := packRanges(&st.g.tuning.copy, p, ranges[:n])
		b.LaunchKernel(st.g.copyKernel.f, grid, block, 0, st.handle, p)
		ranges = ranges[n:]
	}
	return params
}

// packRanges lays the parameters of a launch out as struct Ranges of kernels.cu has
// them, and chooses the launch's grid.
func packRanges(t *copyTuning, to []byte, ranges []copyRange) (grid, block cu.Dim3) {
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
