package ferry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/ptx"
)

// Kernel is a function of a module that streams launch. [Module.Kernel] finds it. It
// is good until its module's Close, and safe for concurrent use.
type Kernel struct {
	m       *Module
	f       cu.Function
	name    string
	threads int // most in a block; 0 if not known
	shared  int // static shared memory, bytes a block
	limits  launchLimits
	args    *kernelargs.Signature

	moreShared atomic.Bool // the driver was asked for dynamic shared memory beyond the default
}

// newKernel looks at a kernel of a module that is in use.
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

// attribute reads a property of the kernel; 0 from drivers that do not know it.
func (k *Kernel) attribute(a cu.FunctionAttribute) (int, error) {
	v, err := k.m.g.driver.FuncGetAttribute(k.m.g.ctx, a, k.f)
	if errors.Is(err, cu.ErrorNotSupported) {
		return 0, nil
	}
	return int(v), err
}

// signature learns the parameters from the PTX, else from the driver.
func (k *Kernel) signature() (*kernelargs.Signature, error) {
	if k.m.parsed != nil {
		if f := k.m.parsed.Func(k.name); f != nil {
			return kernelargs.NewSignature(f.ParamLayout()), nil
		}
	}
	var params []ptx.Param
	size := 0
	for i := 0; ; i++ {
		offset, bytes, err := k.m.g.driver.FuncGetParamInfo(k.m.g.ctx, k.f, uintptr(i))
		switch {
		case errors.Is(err, cu.ErrorInvalidValue): // past the last
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

// Name is the kernel's name.
func (k *Kernel) Name() string { return k.name }

// Params is the kernel's parameters: names and types where the module is PTX, else
// sizes and offsets, and nothing when the driver is too old to tell. The slice belongs
// to the caller.
func (k *Kernel) Params() []ptx.Param { return slices.Clone(k.args.Params()) }

// LaunchConfig is how many threads a launch has: Grid blocks of Block threads each. Y
// and Z may be left 0 for 1.
type LaunchConfig struct {
	Grid, Block cu.Dim3
	SharedBytes int // dynamic shared memory, bytes a block
}

// Grid is the configuration of one dimension that covers n elements with blocks of
// block threads: n/block blocks, rounded up, and at least one.
func Grid(n, block int) LaunchConfig {
	if n < 0 || block <= 0 || int64(block) > math.MaxUint32 {
		return LaunchConfig{} // which Launch refuses
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

// String is the configuration as "grid 4x1x1, block 256x1x1".
func (c LaunchConfig) String() string {
	g, b := full(c.Grid), full(c.Block)
	text := fmt.Sprintf("grid %dx%dx%d, block %dx%dx%d", g.X, g.Y, g.Z, b.X, b.Y, b.Z)
	if c.SharedBytes != 0 {
		text += fmt.Sprintf(", %d bytes of shared memory", c.SharedBytes)
	}
	return text
}

// full has 1 for what was left 0 in Y and Z.
func full(d cu.Dim3) cu.Dim3 { return cu.Dim3{X: d.X, Y: max(d.Y, 1), Z: max(d.Z, 1)} }

// launchLimits is the most that a launch of a kernel can have without asking the
// driver for anything. What is not known is no limit.
type launchLimits struct {
	grid, block [3]uint32
	threads     uint64 // of a block
	shared      int
}

func (k *Kernel) findLimits() launchLimits {
	c := &k.m.g.caps
	most := func(n [3]int) (m [3]uint32) {
		for i := range n {
			m[i] = uint32(min(uint64(n[i])-1, math.MaxUint32-1)) + 1
		}
		return m
	}
	l := launchLimits{grid: most(c.grid), block: most(c.block), threads: min(uint64(c.threads)-1, uint64(k.threads)-1, math.MaxUint64-1) + 1}
	l.shared = c.shared - k.shared
	if c.sharedMax > 0 {
		l.shared = min(l.shared, c.sharedMax-k.shared)
	}
	return l
}

// allow reports whether a configuration is within the limits. Otherwise check and
// askShared decide.
func (l *launchLimits) allow(c *LaunchConfig) bool {
	grid, block := full(c.Grid), full(c.Block)
	return grid.X != 0 && block.X != 0 && grid.X <= l.grid[0] && grid.Y <= l.grid[1] && grid.Z <= l.grid[2] &&
		block.X <= l.block[0] && block.Y <= l.block[1] && block.Z <= l.block[2] &&
		block.Count() <= l.threads && c.SharedBytes >= 0 && c.SharedBytes <= l.shared
}

// check refuses a kernel of another GPU and a configuration that the device or the
// kernel cannot have.
func (k *Kernel) check(st *streamState, c *LaunchConfig) error {
	if g := k.m.g; !g.sameContext(st.g) {
		return refusal.New(cu.ErrorInvalidHandle, "the kernel was loaded on %s: load the module on %s, too", g.label, st.g.label)
	}
	if k.limits.allow(c) {
		return nil
	}
	if err := k.checkConfig(c); err != nil {
		return err
	}
	return k.askShared(c.SharedBytes)
}

// checkConfig says what is wrong with a configuration.
func (k *Kernel) checkConfig(c *LaunchConfig) error {
	caps := &k.m.g.caps
	grid, block := full(c.Grid), full(c.Block)
	if grid.X == 0 || block.X == 0 {
		return refusal.Invalid("%v: there must be at least one block and one thread", *c)
	}
	if err := checkExtent("grid", grid, caps.grid, "blocks"); err != nil {
		return err
	}
	if err := checkExtent("block", block, caps.block, "threads"); err != nil {
		return err
	}
	threads := block.Count()
	switch {
	case caps.threads > 0 && threads > uint64(caps.threads):
		return refusal.Invalid("a block of %d threads: the device takes %d at most", threads, caps.threads)
	case k.threads > 0 && threads > uint64(k.threads):
		return refusal.Invalid("a block of %d threads: this kernel takes %d at most, for the registers it uses", threads, k.threads)
	case c.SharedBytes < 0:
		return refusal.Invalid("%d bytes of shared memory: the number cannot be negative", c.SharedBytes)
	case caps.sharedMax > 0 && c.SharedBytes > caps.sharedMax-k.shared:
		return refusal.Invalid("%d bytes of shared memory and %d of the kernel's own: the device has %d a block", c.SharedBytes, k.shared, caps.sharedMax)
	}
	return nil
}

// checkExtent checks each dimension against its limit; 0 is one that is not known.
func checkExtent(what string, d cu.Dim3, limit [3]int, of string) error {
	for i, n := range [3]uint32{d.X, d.Y, d.Z} {
		if limit[i] > 0 && uint64(n) > uint64(limit[i]) {
			return refusal.Invalid("a %s of %d %s along %c: the device takes %d at most", what, n, of, "xyz"[i], limit[i])
		}
	}
	return nil
}

// askShared asks the driver for all the shared memory that the kernel can have, the
// first time that a launch needs more than the default.
func (k *Kernel) askShared(bytes int) error {
	if bytes <= k.m.g.caps.shared-k.shared || k.moreShared.Load() {
		return nil
	}
	most := k.m.g.caps.sharedMax - k.shared
	if err := k.m.g.driver.FuncSetAttribute(k.m.g.ctx, k.f, cu.FuncAttributeMaxDynamicSharedBytes, int32(most)); err != nil {
		return fmt.Errorf("allow %d bytes of shared memory: %w", most, err)
	}
	k.moreShared.Store(true)
	return nil
}

// launch is the room that a launch of a kernel or of a graph needs. It is reused: each
// stream has one for its short operation, and launches has others.
type launch struct {
	op     inflight.Op
	args   kernelargs.Buffer[span]
	pooled bool
}

var launches = sync.Pool{New: func() any { return &launch{pooled: true} }}

// beginLaunch starts a launch. l.done ends it.
func (s *Stream) beginLaunch(what string) (l *launch, st *streamState, err error) {
	if st := s.target(); st != nil && st.room.op.BeginShort(&st.Stream) {
		return &st.room, st, nil
	}
	l = launches.Get().(*launch)
	if st, err = s.begin(&l.op, what, false); err != nil {
		l.done()
	}
	return l, st, err
}

// done ends the operation and gives the room back.
func (l *launch) done() {
	l.args.Reset()
	pooled := l.pooled
	l.op.End() // after which another goroutine may have the room
	if pooled {
		launches.Put(l)
	}
}

// run is Stream.Launch, once the operation has begun.
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
		err = st.g.driver.LaunchKernel(st.g.ctx, k.f, full(c.Grid), full(c.Block), uint32(c.SharedBytes), st.handle, l.args.Bytes)
	}
	if err != nil {
		return fmt.Errorf("launch %s (%v) on %v: %w", k.name, *c, st, err)
	}
	l.op.Queued()
	st.launched(&k.name)
	return nil
}

// acquireMemory counts a launch as a user of its memory arguments, and writes their
// addresses.
func acquireMemory(op *inflight.Op, st *streamState, k *Kernel, bytes []byte, memory []kernelargs.Memory[span]) error {
	for i := range memory {
		m := &memory[i]
		p, err := acquireForKernel(op, st, &m.M)
		if err != nil {
			return fmt.Errorf("%s: %w", k.args.Describe(m.At), err)
		}
		kernelargs.PutAddress(bytes[m.At:], p)
	}
	return nil
}

// acquireForKernel counts a launch as a user of the memory, and is the address that
// the kernel gets.
func acquireForKernel(op *inflight.Op, st *streamState, r *span) (cu.DevicePtr, error) {
	a, g := r.a, st.g
	switch {
	case r.bad != nil:
		return 0, r.bad
	case a == nil:
		return 0, refusal.Invalid("%v cannot be used by kernels: Register it, or Copy it to a buffer", r.String())
	case !op.Acquire(&a.Tracker, inflight.Write, r.generation):
		return 0, a.errClosed()
	case a.g == g && r.dev != 0 && a.kind != managedMemory && a.BornOn() == nil: // nearly always
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
	case a.kind == managedMemory && !g.caps.concurrentManaged:
		return r.dev, a.usableBy(st)
	case a.g == g || a.kind == managedMemory || a.g.device == g.device:
		return r.dev, nil
	case a.kind.onHost():
		return r.addressOn(g)
	case !g.shared.mayUse(g, a.g):
		return 0, refusal.New(cu.ErrorPeerAccessNotEnabled, "%v is memory of another GPU: EnablePeer of %s to it first, or Copy", r.String(), g.label)
	}
	return r.dev, nil
}
