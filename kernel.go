package ferry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/ptx"
)

// Kernel is a function of a module that can be launched. [Module.Kernel] finds it. It is
// valid until the module is closed, and safe for concurrent use.
type Kernel struct {
	m       *Module
	f       cu.Function
	name    string
	threads int // most threads per block; 0 if not known
	shared  int // static shared memory in bytes per block
	limits  launchLimits
	args    *kernelargs.Signature
	reads   []bool // by offset/8: parameters whose memory the kernel only reads
	bound   bool   // made by bind: the kernel writes to the other memory

	moreShared atomic.Bool // the driver allows more dynamic shared memory than the default
}

// newKernel reads the properties of a kernel. The caller has entered the module.
func newKernel(m *Module, f cu.Function, name string) (*Kernel, error) {
	k := &Kernel{m: m, f: f, name: name}
	var err error
	if k.threads, err = k.attribute(cu.FuncAttributeMaxThreadsPerBlock); err != nil {
		return nil, err
	}
	if k.shared, err = k.attribute(cu.FuncAttributeSharedSizeBytes); err != nil {
		return nil, err
	}
	if k.args, err = k.signature(); err != nil {
		return nil, err
	}
	k.limits = k.findLimits()
	return k, nil
}

// attribute reads a property of the kernel. It is 0 if the driver does not know the
// property.
func (k *Kernel) attribute(a cu.FunctionAttribute) (int, error) {
	v, err := k.m.g.driver.FuncGetAttribute(k.m.g.ctx, a, k.f)
	if errors.Is(err, cu.ErrorNotSupported) {
		return 0, nil
	}
	return int(v), err
}

// signature reads the parameters from the PTX, if there is any, otherwise from the driver.
func (k *Kernel) signature() (*kernelargs.Signature, error) {
	if k.m.parsed != nil {
		if f := k.m.parsed.Func(k.name); f != nil {
			s := kernelargs.NewSignature(f.ParamLayout())
			if k.m.g.watch != nil {
				s.Watch(func(param int, buffer string) { watchType(k.m.g.watch, k.name, param, buffer) })
			}
			return s, nil
		}
	}
	var params []ptx.Param
	size := 0
	for i := 0; ; i++ {
		offset, bytes, err := k.m.g.driver.FuncGetParamInfo(k.m.g.ctx, k.f, uintptr(i))
		switch {
		case errors.Is(err, cu.ErrorInvalidValue): // there are no more parameters
			return kernelargs.NewSignature(params, size), nil
		case errors.Is(err, cu.ErrorNotSupported):
			return kernelargs.UnknownSignature(), nil
		case err != nil:
			return nil, err
		}
		params = append(params, ptx.Param{Offset: int(offset), Size: int(bytes)})
		size = int(offset + bytes)
	}
}

// Name returns the name of the kernel.
func (k *Kernel) Name() string {
	if k == nil {
		return ""
	}
	return k.name
}

// GPU returns the GPU of the kernel.
func (k *Kernel) GPU() *GPU {
	if k == nil || k.m == nil {
		return nil
	}
	return k.m.g
}

// Handle returns the driver's handle of the kernel (a CUfunction), for launches by another
// library. Such a launch puts nothing in flight: launch in [Stream.External], with [Runs] for the
// module and a use for each buffer. The handle is dead when the module is closed: see
// [Stream.Handle].
func (k *Kernel) Handle() cu.Function {
	if k == nil {
		return 0
	}
	return k.f
}

// lend counts an operation as a user of the module, and lends it: see Use.acquire.
func (k *Kernel) lend(op *inflight.Op, st *streamState) ([]*inflight.Tracker, error) {
	if k.m == nil {
		return nil, refusal.Invalid("no kernel given: Module.Kernel finds one")
	}
	if err := k.mayRunOn(st); err != nil {
		return nil, err
	}
	if !op.Acquire(&k.m.tracker, inflight.Read, 0) {
		return nil, fmt.Errorf("kernel %s: %v: %w", k.name, k.m, ErrClosed)
	}
	return []*inflight.Tracker{op.Lend()}, nil
}

// Params returns the parameters of the kernel: names and types if the module is PTX,
// otherwise sizes and offsets (cuFuncGetParamInfo). It returns nil if the driver is too
// old to report them. The caller owns the slice.
func (k *Kernel) Params() []ptx.Param {
	if k == nil || k.m == nil {
		return nil
	}
	return slices.Clone(k.args.Params())
}

// bind finds a kernel whose source is known: see ferrybind.Kernel.
func (m *Module) bind(name string, params []bridge.Param) (*Kernel, error) {
	k, err := m.Kernel(name)
	if err != nil {
		return nil, err
	}
	k.bound = true
	if !k.args.Known() {
		return k, nil
	}
	have := k.args.Params()
	if len(have) != len(params) {
		return nil, refusal.Invalid("bind kernel %q: it has %d parameters in the Go code and %d in the module%v: run ferry bind again", name, len(params), len(have), k.args)
	}
	for i, p := range params {
		if p.Size != have[i].Size {
			return nil, refusal.Invalid("bind kernel %q: argument %d (%s) is %s, %s, in the Go code and %s in the module: run ferry bind again",
				name, i+1, p.Name, p.Type, refusal.Size(uintptr(p.Size)), refusal.Size(uintptr(have[i].Size)))
		}
		if p.Reads {
			k.setReads(have[i].Offset)
		}
	}
	return k, nil
}

// setReads marks the parameter at an offset as one whose memory the kernel only reads.
func (k *Kernel) setReads(offset int) {
	for len(k.reads) <= offset/8 {
		k.reads = append(k.reads, false)
	}
	k.reads[offset/8] = true
}

// access returns what a launch does with the memory whose address is the parameter at an
// offset.
func (k *Kernel) access(offset int) inflight.Access {
	if i := offset / 8; i < len(k.reads) && k.reads[i] {
		return inflight.Read
	}
	return inflight.Write
}

// LaunchConfig is the configuration of a launch: Grid blocks of Block threads each. Y and
// Z may be 0, which means 1. The fields after SharedBytes ask for a special launch
// (cuLaunchKernelEx), which a [Batch] does not take.
type LaunchConfig struct {
	Grid, Block cu.Dim3
	SharedBytes int // dynamic shared memory in bytes per block; any size that the device has

	// Cooperative makes all blocks run at once, so that they can wait for each other, as
	// with this_grid().sync() of cooperative groups. More blocks than fit at once, see
	// [Kernel.Occupancy], are cu.ErrorCooperativeLaunchTooLarge.
	Cooperative bool
	// Programmatic lets the kernel begin before the kernel before it in the stream has
	// ended, if that kernel allows it (programmatic dependent launch). The software GPU
	// begins it when that kernel has ended.
	Programmatic bool
	// Cluster groups the blocks in clusters of this size, if X is not 0. It must divide
	// the grid. The software GPU runs clusters of at most 8 blocks.
	Cluster cu.Dim3
}

// special reports whether a launch needs attributes.
func (c *LaunchConfig) special() bool {
	return c.Cooperative || c.Programmatic || c.Cluster != cu.Dim3{}
}

// Cover returns a one-dimensional configuration that covers n elements with blocks of block
// threads. It has n/block blocks, rounded up, and at least one. [Stream.Launch] refuses it
// if n is negative or block is not positive.
func Cover(n, block int) LaunchConfig {
	if n < 0 || block <= 0 || int64(block) > math.MaxUint32 {
		return LaunchConfig{}
	}
	blocks := max(1, n/block)
	if n > block && n%block != 0 {
		blocks++
	}
	return LaunchConfig{
		Grid:  cu.Dim3{X: uint32(min(int64(blocks), math.MaxUint32)), Y: 1, Z: 1},
		Block: cu.Dim3{X: uint32(block), Y: 1, Z: 1},
	}
}

// Cover2D is [Cover] for width by height elements and blocks of blockX by blockY threads: X is
// along the width. The grid has blocks for a whole rectangle, so that the kernel must leave out
// the threads beyond the edges.
func Cover2D(width, height, blockX, blockY int) LaunchConfig {
	x, y := Cover(width, blockX), Cover(height, blockY)
	if x == (LaunchConfig{}) || y == (LaunchConfig{}) {
		return LaunchConfig{}
	}
	x.Grid.Y, x.Block.Y = y.Grid.X, y.Block.X
	return x
}

// String returns the configuration as text: "grid 4x1x1, block 256x1x1".
func (c LaunchConfig) String() string {
	g, b := full(c.Grid), full(c.Block)
	text := fmt.Sprintf("grid %dx%dx%d, block %dx%dx%d", g.X, g.Y, g.Z, b.X, b.Y, b.Z)
	if c.SharedBytes != 0 {
		text += fmt.Sprintf(", %d bytes of shared memory", c.SharedBytes)
	}
	if c.Cooperative {
		text += ", cooperative"
	}
	if c.Programmatic {
		text += ", programmatic"
	}
	if d := full(c.Cluster); c.Cluster != (cu.Dim3{}) {
		text += fmt.Sprintf(", clusters of %dx%dx%d", d.X, d.Y, d.Z)
	}
	return text
}

// full replaces a Y or Z of 0 by 1.
func full(d cu.Dim3) cu.Dim3 { return cu.Dim3{X: d.X, Y: max(d.Y, 1), Z: max(d.Z, 1)} }

// launchLimits are the limits of a configuration that needs no further check. A limit that
// is not known is the largest number.
type launchLimits struct {
	grid, block [3]uint32
	threads     uint64 // per block
	shared      int    // dynamic shared memory that needs no askShared
}

func (k *Kernel) findLimits() launchLimits {
	c := &k.m.g.caps
	most := func(n [3]int) (m [3]uint32) {
		for i := range n {
			m[i] = uint32(min(uint64(n[i])-1, math.MaxUint32-1)) + 1
		}
		return m
	}
	l := launchLimits{grid: most(c.Grid), block: most(c.Block), threads: min(uint64(c.Threads)-1, uint64(k.threads)-1, math.MaxUint64-1) + 1}
	l.shared = c.Shared - k.shared
	if c.SharedMax > 0 {
		l.shared = min(l.shared, c.SharedMax-k.shared)
	}
	return l
}

// allow reports whether a configuration is within the limits. If not, checkConfig and
// askShared decide.
func (l *launchLimits) allow(c *LaunchConfig) bool {
	grid, block := full(c.Grid), full(c.Block)
	return grid.X != 0 && block.X != 0 && grid.X <= l.grid[0] && grid.Y <= l.grid[1] && grid.Z <= l.grid[2] &&
		block.X <= l.block[0] && block.Y <= l.block[1] && block.Z <= l.block[2] &&
		block.Count() <= l.threads && c.SharedBytes >= 0 && c.SharedBytes <= l.shared
}

// check returns an error for a kernel of another GPU, and for a configuration that the
// device or the kernel does not support.
func (k *Kernel) check(st *streamState, c *LaunchConfig) error {
	if err := k.mayRunOn(st); err != nil {
		return err
	}
	if k.limits.allow(c) {
		return nil
	}
	if err := k.checkConfig(c); err != nil {
		return err
	}
	return k.askShared(c.SharedBytes)
}

// mayRunOn returns an error for a kernel of another GPU than that of the stream.
func (k *Kernel) mayRunOn(st *streamState) error {
	if g := k.m.g; !g.sameContext(st.g) {
		return refusal.New(cu.ErrorInvalidHandle, "the kernel was loaded on %s: load its module on %s", g.label, st.g.label)
	}
	return nil
}

// checkConfig says what is wrong with a configuration.
func (k *Kernel) checkConfig(c *LaunchConfig) error {
	caps := &k.m.g.caps
	grid, block := full(c.Grid), full(c.Block)
	if grid.X == 0 || block.X == 0 {
		return refusal.Invalid("%v: there must be at least one block and one thread", *c)
	}
	if err := checkExtent("grid", grid, caps.Grid, "blocks"); err != nil {
		return err
	}
	if err := checkExtent("block", block, caps.Block, "threads"); err != nil {
		return err
	}
	threads := block.Count()
	switch {
	case caps.Threads > 0 && threads > uint64(caps.Threads):
		return refusal.Invalid("a block of %d threads: the device takes %d at most", threads, caps.Threads)
	case k.threads > 0 && threads > uint64(k.threads):
		return k.tooManyThreads(threads)
	case c.SharedBytes < 0:
		return refusal.Invalid("%d bytes of shared memory: the number cannot be negative", c.SharedBytes)
	case caps.SharedMax > 0 && c.SharedBytes > caps.SharedMax-k.shared:
		return refusal.Invalid("%d bytes of dynamic shared memory and %d static bytes: the device has %d per block", c.SharedBytes, k.shared, caps.SharedMax)
	}
	return nil
}

// tooManyThreads is the error for a block with more threads than the kernel takes. The driver
// has one code for too few registers and another for a bound of the source.
func (k *Kernel) tooManyThreads(threads uint64) error {
	each, err := k.attribute(cu.FuncAttributeNumRegs)
	all, failed := k.m.g.Attribute(cu.DeviceAttributeMaxRegistersPerBlock)
	if err == nil && failed == nil && each > 0 && k.threads >= threadsByRegisters(each, all) {
		return refusal.New(cu.ErrorLaunchOutOfResources, "a block of %d threads: this kernel takes %d at most, because of the registers it uses (%d each)", threads, k.threads, each)
	}
	return refusal.Invalid("a block of %d threads: this kernel takes %d at most, because its source bounds it", threads, k.threads)
}

// threadsByRegisters returns how many threads of a block have registers: a thread gets a
// multiple of 8, and warps of 32 threads come in groups of four.
func threadsByRegisters(each, all int) int {
	warp := (each + 7) &^ 7 * 32
	return all / warp &^ 3 * 32
}

// checkExtent checks each dimension against its limit. A limit of 0 is not known.
func checkExtent(what string, d cu.Dim3, limit [3]int, of string) error {
	for i, n := range [3]uint32{d.X, d.Y, d.Z} {
		if limit[i] > 0 && uint64(n) > uint64(limit[i]) {
			return refusal.Invalid("a %s of %d %s along %c: the device takes %d at most", what, n, of, "xyz"[i], limit[i])
		}
	}
	return nil
}

// askShared makes the driver allow as much dynamic shared memory as the kernel can have
// (cuFuncSetAttribute). It does so once, when a launch needs more than the default.
func (k *Kernel) askShared(bytes int) error {
	if bytes <= k.m.g.caps.Shared-k.shared || k.moreShared.Load() {
		return nil
	}
	most := k.m.g.caps.SharedMax - k.shared
	if err := k.m.g.driver.FuncSetAttribute(k.m.g.ctx, k.f, cu.FuncAttributeMaxDynamicSharedBytes, int32(most)); err != nil {
		return fmt.Errorf("allow %d bytes of shared memory: %w", most, err)
	}
	k.moreShared.Store(true)
	return nil
}

// launch is the memory that one launch of a kernel or graph needs. It is reused: each
// stream has one for its short operation, and the pool launches has others.
type launch struct {
	op     inflight.Op
	args   kernelargs.Buffer[span]
	pooled bool // belongs to launches
}

var launches = sync.Pool{New: func() any { return &launch{pooled: true} }}

// beginLaunch starts the operation of a launch. l.done ends it.
func (s *Stream) beginLaunch(what string) (l *launch, st *streamState, err error) {
	if st := s.target(); st != nil && st.shortLaunch.op.BeginShort(&st.Stream) {
		return &st.shortLaunch, st, nil
	}
	l = launches.Get().(*launch)
	if st, err = s.begin(&l.op, what, false); err != nil {
		l.done()
	}
	return l, st, err
}

// done ends the operation and releases l for reuse.
func (l *launch) done() {
	l.args.Reset()
	pooled := l.pooled
	l.op.End() // if it was short, another goroutine may use l from here on
	if pooled {
		launches.Put(l)
	}
}

// run implements Stream.Launch, once the operation has begun.
func (l *launch) run(st *streamState, k *Kernel, c *LaunchConfig, args []any) error {
	if k == nil || k.m == nil {
		return refusal.Invalid("launch on %v: no kernel given (nil)", st)
	}
	if !l.op.Acquire(&k.m.tracker, inflight.Read, 0) {
		return fmt.Errorf("launch %s on %v: %v: %w", k.name, st, k.m, ErrClosed)
	}
	err := k.check(st, c)
	if err == nil {
		err = l.args.Pack(k.args, args)
	}
	if err == nil {
		err = acquireMemory(&l.op, st, k, l.args.Bytes, l.args.Memory)
	}
	if err == nil {
		l.op.Queued() // also if the call fails: it can have queued the kernel
	}
	switch {
	case err != nil:
	case c.special():
		err = k.launchSpecial(st, c, l.args.Bytes)
	default:
		err = st.g.driver.LaunchKernel(st.g.ctx, k.f, full(c.Grid), full(c.Block), uint32(c.SharedBytes), st.handle, l.args.Bytes)
	}
	if err != nil {
		return fmt.Errorf("launch %s (%v) on %v: %w%s", k.name, *c, st, err, st.afterFault(err))
	}
	st.launched(&k.name)
	return nil
}

// launchSpecial launches with attributes (cuLaunchKernelEx).
func (k *Kernel) launchSpecial(st *streamState, c *LaunchConfig, params []byte) error {
	config := cu.LaunchConfig{Grid: full(c.Grid), Block: full(c.Block), SharedMemBytes: uint32(c.SharedBytes), Stream: st.handle}
	if c.Cooperative {
		if err := k.needs(cu.DeviceAttributeCooperativeLaunch, "cooperative launches"); err != nil {
			return err
		}
		config.Attrs = append(config.Attrs, cu.CooperativeLaunch())
	}
	if c.Programmatic {
		config.Attrs = append(config.Attrs, cu.ProgrammaticLaunch())
	}
	if c.Cluster != (cu.Dim3{}) {
		if err := k.checkCluster(c); err != nil {
			return err
		}
		config.Attrs = append(config.Attrs, cu.ClusterLaunch(full(c.Cluster)))
	}
	err := st.g.driver.LaunchKernelEx(st.g.ctx, &config, k.f, params)
	if errors.Is(err, cu.ErrorCooperativeLaunchTooLarge) && st.g.emulated == nil { // the software GPU says it itself
		err = fmt.Errorf("%w%s", err, k.howManyFit(c))
	}
	return err
}

// needs returns an error if the device lacks a capability. A driver that does not know
// the attribute is older than the capability.
func (k *Kernel) needs(a cu.DeviceAttribute, what string) error {
	g := k.m.g
	v, err := g.driver.DeviceGetAttribute(a, g.device)
	if err == nil && v == 0 || errors.Is(err, cu.ErrorInvalidValue) {
		return refusal.New(cu.ErrorNotSupported, "%s has no %s (%v is 0)", g.label, what, a)
	}
	return err
}

// checkCluster checks the clusters of a launch.
func (k *Kernel) checkCluster(c *LaunchConfig) error {
	d, grid := full(c.Cluster), full(c.Grid)
	switch {
	case d.X == 0:
		return refusal.New(cu.ErrorInvalidClusterSize, "clusters of %dx%dx%d blocks: X is 0", d.X, d.Y, d.Z)
	case grid.X%d.X != 0 || grid.Y%d.Y != 0 || grid.Z%d.Z != 0:
		return refusal.New(cu.ErrorInvalidClusterSize, "clusters of %dx%dx%d blocks do not divide a grid of %dx%dx%d: make the grid a multiple", d.X, d.Y, d.Z, grid.X, grid.Y, grid.Z)
	}
	return k.needs(cu.DeviceAttributeClusterLaunch, "clusters")
}

// howManyFit says how many blocks of a cooperative launch run at once.
func (k *Kernel) howManyFit(c *LaunchConfig) string {
	g, block := k.m.g, full(c.Block)
	n, err := g.driver.OccupancyMaxActiveBlocksPerMultiprocessor(g.ctx, k.f, int32(block.Count()), uintptr(c.SharedBytes), cu.OccupancyDefault)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": at most %d such blocks run at once, %d on each of %d multiprocessors", int(n)*g.caps.Processors, n, g.caps.Processors)
}

// acquireMemory counts a launch as a user of its memory arguments, and writes their
// addresses into the parameters.
func acquireMemory(op *inflight.Op, st *streamState, k *Kernel, bytes []byte, memory []kernelargs.Memory[span]) error {
	for i := range memory {
		m := &memory[i]
		p, err := acquireForKernel(op, st, &m.M, k, k.access(m.At))
		if err != nil {
			return fmt.Errorf("%s: %w", k.args.Describe(m.At), err)
		}
		kernelargs.PutAddress(bytes[m.At:], p)
	}
	return nil
}

// acquireForKernel counts a launch as a user of memory, and returns the address for the
// kernel.
func acquireForKernel(op *inflight.Op, st *streamState, r *span, k *Kernel, access inflight.Access) (cu.DevicePtr, error) {
	a, g := r.a, st.g
	switch {
	case r.bad != nil:
		return 0, r.bad
	case a == nil:
		return acquirePageable(op, st, r, k, access)
	case k.bound && a.readOnly.Load() && access == inflight.Write:
		return 0, refusal.Invalid("%v is read-only, and the kernel's pointer is not to const: use memory that may be written", r.String())
	case !op.Acquire(&a.Tracker, access, r.generation):
		return 0, a.errClosed()
	case a.g == g && r.dev != 0 && a.kind != managedMemory && a.BornOn() == nil: // the usual case
		return r.dev, nil
	case r.bytes > 0 && r.dev == 0:
		return 0, r.unmapped()
	}
	if err := r.reachableFrom(st.g); err != nil {
		return 0, err
	}
	if err := waitForAllocation(&r.a.Tracker, st); err != nil {
		return 0, err
	}
	switch {
	case r.bytes == 0:
		return r.dev, nil
	case a.kind == managedMemory && !g.caps.ConcurrentManaged:
		return r.dev, a.usableBy(st)
	case a.g == g || a.kind == managedMemory || a.g.device == g.device:
		return r.dev, nil
	case a.kind.onHost():
		return r.addressOn(g)
	case r.closedTo(g):
		return 0, refusal.New(cu.ErrorPeerAccessNotEnabled, "%v is memory of another GPU: call EnablePeer of %s first, or Copy", r.String(), g.label)
	}
	return r.dev, nil
}

// acquirePageable is acquireForKernel for a pageable span. If the device has no access to
// such memory it returns an error. The parts of the span that are in buffers count as in
// flight, and the slice stays alive until the launch is done.
func acquirePageable(op *inflight.Op, st *streamState, r *span, k *Kernel, access inflight.Access) (cu.DevicePtr, error) {
	g := st.g
	has, err := g.driver.DeviceGetAttribute(cu.DeviceAttributePageableMemoryAccess, g.device)
	switch {
	case err != nil && !errors.Is(err, cu.ErrorInvalidValue): // that is a driver older than the attribute
		return 0, err
	case has == 0, !g.caps.Unified, g.caps.Register && !g.caps.RegisteredAddress: // else parts may have another address
		lacks := cu.DeviceAttributePageableMemoryAccess
		if has != 0 {
			lacks = cu.DeviceAttributeCanUseHostPointerForRegisteredMem
		}
		return 0, refusal.Invalid("%v cannot be used by kernels (%v is 0): Register it, or Copy it to a buffer", r.String(), lacks)
	case st.capture != nil:
		return 0, refusal.New(cu.ErrorStreamCaptureUnsupported, "a graph cannot keep %v: capture with a buffer of AllocHost or Register", r.String())
	}
	for off := uintptr(0); off < r.bytes; {
		part, err := runAt(g, r, off)
		if err != nil {
			return 0, err
		}
		if part.a != nil {
			p, err := acquireForKernel(op, st, &part, k, access)
			if err != nil || part.bytes == r.bytes {
				return p, err
			}
		}
		off += part.bytes
	}
	g.keptSlices.Add(op, access, r.host)
	return address.Device(r.host), nil
}
