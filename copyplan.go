package ferry

import (
	"encoding/binary"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/tuning"
	"github.com/ferrygpu/ferry/kernels"
)

// copyPath is a way to make a copy.
type copyPath uint8

const (
	pathNone   copyPath = iota // no bytes, or the same bytes on both sides
	pathCPU                    // Go copies, when both sides are ready
	pathRing                   // pageable memory: through the staging ring or, if small, by the driver
	pathDriver                 // one driver call for each registration
)

// direction is the direction of a copy between host and device memory, across the link.
type direction uint8

const (
	hostToDevice direction = 1 + iota
	deviceToHost
)

// copyPlan says how a copy between two runs of memory is made. planKinds decides it for each pair
// of kinds, and planCopy completes it for two runs.
type copyPlan struct {
	path copyPath
	op   cu.Op     // the driver call of pathDriver and pathRing
	link direction // 0 if the copy is not between host memory and device memory
	long bool      // it waits for the CPU or for the stream, so it must be a long operation
	hold bool      // a side is pageable memory that must not be unregistered during the copy

	toHost, fromHost bool // the driver gets the host address of the side
	queued           bool // the driver can make it later: a batch and a graph can have it
	kernel           bool // a kernel may make it, if it has addresses for both sides
	far, peers       bool // far: no side is on the host, and they belong to two devices; peers: and none is managed
	comparable       bool // the sides can share bytes: their addresses are in one allocation, or registered
}

// plans has the plan of each pair of kinds: first the destination's, then the source's. The
// plan is complete but for what planCopy adds.
var plans = func() (all [managedMemory + 1][managedMemory + 1]copyPlan) {
	for to := range all {
		for from := range all[to] {
			all[to][from] = planKinds(kind(to), kind(from))
		}
	}
	return all
}()

// planKinds decides how a copy between two kinds of memory is made. The CPU copies from host
// memory to host memory if one side is pageable.
func planKinds(to, from kind) copyPlan {
	pageable := to == pageableMemory || from == pageableMemory
	p := copyPlan{path: pathDriver, op: cu.OpMemcpyAsync, toHost: to.onHost(), fromHost: from.onHost(), queued: true,
		kernel: to != managedMemory && from != managedMemory, comparable: to == registeredMemory && from == registeredMemory}
	switch {
	case p.toHost && p.fromHost:
		p.long = true
		if pageable {
			p.path, p.queued = pathCPU, false
		}
		return p
	case p.fromHost:
		p.op = cu.OpMemcpyHtoDAsync
		if to == deviceMemory {
			p.link = hostToDevice
		}
	case p.toHost:
		p.op = cu.OpMemcpyDtoHAsync
		if from == deviceMemory {
			p.link = deviceToHost
		}
	case to == deviceMemory && from == deviceMemory:
		p.op = cu.OpMemcpyDtoDAsync
	}
	if pageable {
		p.path, p.long, p.hold = pathRing, true, true
	}
	return p
}

// planOf returns the plan for the kinds of memory of two sides. It is the only place that asks
// for them. The plan of a nil span is that of device memory: its check comes when it is
// acquired.
func planOf(dst, src *span) *copyPlan {
	if dst == nil || src == nil {
		return &plans[deviceMemory][deviceMemory]
	}
	return &plans[dst.kind()][src.kind()]
}

// planCopy plans a copy between two runs that are each memory of one kind. It adds to the plan
// of their kinds what depends on the two runs and the stream.
func planCopy(st *streamState, dst, src *span) copyPlan {
	p := *planOf(dst, src)
	p.comparable = dst.a != nil && (p.comparable || dst.a == src.a || dst.a.wrap != nil && src.a != nil && src.a.wrap != nil)
	switch {
	case p.toHost && p.fromHost && !st.g.caps.Unified: // the driver cannot tell host addresses from others
		p.path, p.queued = pathCPU, false
	case !p.toHost && !p.fromHost && dst.a.g.device != src.a.g.device:
		p.far, p.peers = true, p.op == cu.OpMemcpyDtoDAsync
		if p.peers && st.capture != nil { // which cuMemcpyPeerAsync refuses
			p.op = cu.OpMemcpyAsync
		} else if p.peers {
			p.op = cu.OpMemcpyPeerAsync
		}
	}
	if dst.bytes == 0 || p.comparable && dst.address() == src.address() {
		p.path, p.hold = pathNone, false
	}
	return p
}

// check returns an error for a copy that the driver would refuse or would not make
// correctly.
func (p *copyPlan) check(st *streamState, dst, src *span) error {
	switch {
	case dst.n != src.n:
		return refusal.Invalid("the destination, %v, has %d elements, and the source, %v, has %d: copy ranges of one length", dst, dst.n, src, src.n)
	case dst.a != nil && dst.a.readOnly.Load():
		return refusal.Invalid("%v is read-only", dst)
	case st.capture == nil || dst.bytes == 0:
	case dst.a == nil || src.a == nil:
		return refusal.Invalid("a graph would copy from %v to %v at every launch, but cannot keep pageable memory: capture with a buffer of AllocHost or Register", src, dst)
	case !p.queued:
		return refusal.Invalid("on this device the CPU copies from %v to %v, which a graph cannot do: capture copies through a Device buffer", src, dst)
	}
	if dst.a != nil && dst.a.g != st.g {
		if err := p.reaches(st, dst); err != nil {
			return err
		}
	}
	if src.a != nil && src.a.g != st.g {
		return p.reaches(st, src)
	}
	return nil
}

// reaches returns an error if the copy cannot use a side that belongs to another GPU. Copies
// between two GPUs need access to pools only in a capture.
func (p *copyPlan) reaches(st *streamState, r *span) error {
	g := st.g
	if err := r.reachableFrom(g); err != nil {
		return err
	}
	if r.farPool(g) && (st.capture != nil || !p.peers) && r.closedTo(g) {
		return refusal.Invalid("%v is memory of a pool that is not open to %s: use a stream of its own GPU, or call EnablePeer of %s first", r.String(), g.label, g.label)
	}
	return nil
}

// checkWhole is check, and refuses sides that begin at different addresses and share bytes.
func (p *copyPlan) checkWhole(st *streamState, dst, src *span) error {
	if err := p.check(st, dst, src); err != nil {
		return err
	}
	return p.checkShifted(dst, src)
}

// checkShifted refuses sides that begin at different addresses and share bytes.
func (p *copyPlan) checkShifted(dst, src *span) error {
	if a, b := dst.address(), src.address(); p.comparable && a != b && a < b+uint64(src.bytes) && b < a+uint64(dst.bytes) {
		return errOverlap(dst)
	}
	return nil
}

func errOverlap(dst *span) error {
	return refusal.Invalid("the source and the destination overlap within %v: copy through another buffer", dst.a)
}

// errCopiedByCPU is the error for a copy that cannot be queued, because the CPU makes it.
var errCopiedByCPU = refusal.Invalid("without unified addressing the CPU makes a copy from host to host memory: use Copy, or copy through a Device buffer")

// mustQueue reports whether the driver has something to copy, for copies that are queued
// together. It returns an error if the CPU must make the copy.
func (p *copyPlan) mustQueue() (bool, error) {
	switch p.path {
	case pathNone:
		return false, nil
	case pathCPU:
		return false, errCopiedByCPU
	}
	return true, nil
}

// call returns the driver call of the copy, or of a part of it that crosses no boundary
// between registrations.
func (p *copyPlan) call(st *streamState, dst, src *span) cu.Call {
	c := cu.Call{Op: p.op, Dst: dst.dev, Src: src.dev, Bytes: dst.bytes, Stream: st.handle}
	switch {
	case p.toHost && p.fromHost:
		c.Dst, c.Src = address.Device(dst.host), address.Device(src.host)
	case p.toHost:
		c.Host = dst.host
	case p.fromHost:
		c.Host = src.host
	case p.op == cu.OpMemcpyPeerAsync:
		c.DstCtx, c.SrcCtx = dst.a.g.ctx, src.a.g.ctx
	}
	return c
}

// do makes the driver call of the copy: see call.
func (p *copyPlan) do(st *streamState, dst, src *span) error {
	c := p.call(st, dst, src)
	err := c.Do(st.g.driver, st.g.ctx)
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return err
}

// host returns the side of the host, of a copy between the host and the device.
func (p *copyPlan) host(dst, src *span) *span {
	if p.fromHost {
		return src
	}
	return dst
}

// device returns the other side.
func (p *copyPlan) device(dst, src *span) *span {
	if p.fromHost {
		return dst
	}
	return src
}

// latestLarge returns the largeCopy of the copy's direction, or nil for copies that do not
// cross the link.
func (p *copyPlan) latestLarge(g *GPU) *largeCopy {
	if p.link == 0 {
		return nil
	}
	return &g.largest[p.link-1]
}

// recordLarge records a copy that has been queued, if it is large.
func recordLarge(st *streamState, p *copyPlan, bytes uintptr) {
	if bytes < st.g.largeCopy || st.capture != nil {
		return
	}
	if m := p.latestLarge(st.g); m != nil {
		m.record(st)
	}
}

// behindLarge reports whether a copy is small and would wait behind a large copy of
// another stream, as far as that is known.
func behindLarge(st *streamState, p *copyPlan, bytes uintptr) bool {
	if bytes > st.g.tuning.Copy.SmallBytes || st.capture != nil || st.g.copyKernel.f == 0 {
		return false
	}
	m := p.latestLarge(st.g)
	return m != nil && m.unfinished(st) && isBusy(m.st.Load())
}

// registrations divides the two sides of a copy into parts that do not cross a boundary
// between registrations.
func registrations(dst, src *span) iter.Seq2[*span, *span] {
	return func(yield func(*span, *span) bool) {
		if !dst.crossesBoundary() && !src.crossesBoundary() {
			yield(dst, src)
			return
		}
		for off := uintptr(0); off < dst.bytes; {
			n := min(dst.toBoundary(off), src.toBoundary(off))
			to, from := dst.cut(off, n), src.cut(off, n)
			if !yield(&to, &from) {
				return
			}
			off += n
		}
	}
}

// listedCopies is the largest number of copies that the driver gets at once. It is a limit of
// cuMemcpyBatchAsync: with driver 580, one list of 51,828 copies is reported to crash and
// repeated ones to hang. On an H100, 60,000 copies of 64 KiB are 1.3 times as fast in lists of
// 4096. It also bounds the memory that a long list needs for its calls.
const listedCopies = 4096

// copyList is a list of copies that are checked and acquired.
type copyList struct {
	st     *streamState
	copies []listedCopy
	ranges []copyRange  // the copies by device address, complete if direct is set
	peers  []peerCopies // of copies between devices
	direct bool         // kernels can address all of the memory
	single bool         // the driver must get copies one by one: see copyPlan.peers
	bytes  uintptr
}

// listedCopy is a copy of a list. It has what differs among a list's calls of the driver, in a
// quarter of the memory of a cu.Call.
type listedCopy struct {
	dst, src cu.DevicePtr
	host     cu.HostPtr
	bytes    uintptr
	op       cu.Op
	peers    uint32 // of a copy between devices: an index in copyList.peers
}

// peerCopies are the contexts of copies between two devices.
type peerCopies struct{ dst, src cu.Context }

// begin empties the list for copies of a stream.
func (l *copyList) begin(st *streamState) {
	clear(l.copies)
	l.st, l.copies, l.ranges, l.peers, l.bytes = st, l.copies[:0], l.ranges[:0], l.peers[:0], 0
	l.direct, l.single = st != nil && st.g.caps.Unified, false
}

// reserve makes room for copies, so that a long list is not moved while it grows.
func (l *copyList) reserve(copies int) {
	l.copies = slices.Grow(l.copies, copies)
	if l.direct && copies >= l.st.g.tuning.Copy.KernelCopies {
		l.ranges = slices.Grow(l.ranges, copies)
	}
}

// plan checks a pair, acquires it with the function acquire, and plans its copy in p.
func (l *copyList) plan(p *copyPlan, dst, src *span, acquire func(*span, inflight.Access) error) error {
	if err := refusal.Join(dst.check(), src.check()); err != nil {
		return err
	}
	if err := acquire(dst, inflight.Write); err != nil {
		return err
	}
	if err := acquire(src, inflight.Read); err != nil {
		return err
	}
	*p = planCopy(l.st, dst, src)
	return p.checkWhole(l.st, dst, src)
}

// add adds a planned copy, which the driver makes.
func (l *copyList) add(p *copyPlan, dst, src *span) {
	for to, from := range registrations(dst, src) {
		l.addCall(p.call(l.st, to, from))
		l.single = l.single || p.peers && (to.farPool(l.st.g) || from.farPool(l.st.g)) // which a batch needs access to
		l.bytes += to.bytes
		l.addRange(p, to, from)
	}
}

// addCall adds a copy by its call.
func (l *copyList) addCall(c cu.Call) {
	x := listedCopy{op: c.Op, dst: c.Dst, src: c.Src, host: c.Host, bytes: c.Bytes}
	if c.Op == cu.OpMemcpyPeerAsync {
		peers := peerCopies{c.DstCtx, c.SrcCtx}
		if n := len(l.peers); n == 0 || l.peers[n-1] != peers {
			l.peers = append(l.peers, peers)
		}
		x.peers = uint32(len(l.peers) - 1)
	}
	l.copies = append(l.copies, x)
}

// call returns the call of a copy.
func (l *copyList) call(x *listedCopy) cu.Call {
	c := cu.Call{Op: x.op, Dst: x.dst, Src: x.src, Host: x.host, Bytes: x.bytes, Stream: l.st.handle}
	if x.op == cu.OpMemcpyPeerAsync {
		c.DstCtx, c.SrcCtx = l.peers[x.peers].dst, l.peers[x.peers].src
	}
	return c
}

// inLists calls f for each list of at most most copies: copies from to end-1. It stops at an error.
func (l *copyList) inLists(most int, f func(from, end int) error) error {
	for from := 0; from < len(l.copies); from += most {
		if err := f(from, min(from+most, len(l.copies))); err != nil {
			return err
		}
	}
	return nil
}

// addQueued plans and adds a copy that the CPU must not make.
func (l *copyList) addQueued(dst, src *span, acquire func(*span, inflight.Access) error) error {
	var p copyPlan
	if err := l.plan(&p, dst, src, acquire); err != nil {
		return err
	}
	some, err := p.mustQueue()
	if some {
		l.add(&p, dst, src)
	}
	return err
}

// addRange adds a copy by device address. It clears direct if kernels cannot address the
// memory.
func (l *copyList) addRange(p *copyPlan, dst, src *span) {
	if l.direct = l.direct && p.kernel; !l.direct {
		return
	}
	to, ok := addressForKernel(l.st, dst)
	from, also := addressForKernel(l.st, src)
	if l.direct = ok && also; l.direct {
		l.ranges = append(l.ranges, copyRange{to, from, dst.bytes})
	}
}

// byKernel reports whether the kernel is the fastest method.
func (l *copyList) byKernel() bool {
	t, n := &l.st.g.tuning.Copy, len(l.copies)
	return l.st.g.copyKernel.f != 0 && l.direct && n >= t.KernelCopies && l.bytes/uintptr(n) <= t.KernelCopyBytes
}

// byBatch reports whether cuMemcpyBatchAsync is the fastest method.
func (l *copyList) byBatch() bool {
	return !l.byKernel() && !l.single && len(l.copies) > 1 && l.st.g.caps.BatchCopies && l.st.capture == nil && l.st.number != 0
}

// appendTo appends the calls that make copies from to end-1: launches of the kernel, or one call per
// copy. params is memory for the parameters of launches: see appendKernelCopies.
func (l *copyList) appendTo(b *cu.Batch, from, end int, kernel bool, params []byte) []byte {
	if kernel {
		return appendKernelCopies(b, l.st, l.ranges[from:end], params)
	}
	for i := from; i < end; i++ {
		b.Append(l.call(&l.copies[i]))
	}
	return params
}

// addPiece adds a copy between a slot of the ring and a part of device memory.
func (l *copyList) addPiece(slot cu.HostPtr, at cu.DevicePtr, bytes uintptr, p *copyPlan, device *span) {
	l.bytes += bytes
	call, r := cu.Call{Op: cu.OpMemcpyDtoHAsync, Src: at, Host: slot, Bytes: bytes, Stream: l.st.handle}, copyRange{address.Device(slot), at, bytes}
	if p.fromHost {
		call.Op, call.Dst, call.Src = cu.OpMemcpyHtoDAsync, at, 0
		r.dst, r.src = r.src, r.dst
	}
	l.addCall(call)
	if _, ok := addressForKernel(l.st, device); !ok || !p.kernel {
		l.direct = false
	}
	if l.direct {
		l.ranges = append(l.ranges, r)
	}
}

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
