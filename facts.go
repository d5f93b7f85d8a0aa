package ferry

import (
	"errors"
	"fmt"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Name is the device's product name, "NVIDIA H200". Software that plays it has
// the same name: see [GPU.Emulated].
func (g *GPU) Name() string { return g.name }

// String is what was opened, "cuda:0 (NVIDIA H200)" or "soft:h200 (software,
// predicts NVIDIA H200)".
func (g *GPU) String() string {
	if g.emulated != nil {
		return g.label + " (software, predicts " + g.name + ")"
	}
	return g.label + " (" + g.name + ")"
}

// Emulated says whether the GPU is software.
func (g *GPU) Emulated() bool { return g.emulated != nil }

// Profile names the machine that a software GPU plays, "h200". It is empty on
// hardware.
func (g *GPU) Profile() string {
	if g.emulated == nil {
		return ""
	}
	return g.emulated.Profile()
}

// Fallback is why Open("") took the software GPU: what was tried and found. It
// is nil for a GPU that was asked for by name, and on hardware.
func (g *GPU) Fallback() error { return g.fallback }

// Driver is the driver behind the GPU, for calls that this package lacks.
// Work queued past this package is unknown to the buffers it uses.
func (g *GPU) Driver() cu.Driver { return g.driver }

// Context is the device's primary context, to be used with [GPU.Driver]. It is
// valid until Close.
func (g *GPU) Context() cu.Context { return g.ctx }

// Ordinal is the device's number with its driver, from 0.
func (g *GPU) Ordinal() int { return int(g.device) }

// Attribute is one number about the device (cuDeviceGetAttribute). An attribute
// that the driver is too old for is cu.ErrorInvalidValue.
func (g *GPU) Attribute(a cu.DeviceAttribute) (int, error) {
	v, err := g.driver.DeviceGetAttribute(a, g.device)
	if err != nil {
		return 0, fmt.Errorf("read %v of %s: %w", a, g.label, err)
	}
	return int(v), nil
}

// MemInfo is the device's free and total memory in bytes (cuMemGetInfo).
func (g *GPU) MemInfo() (free, total int, err error) {
	if err := g.enter("read memory sizes"); err != nil {
		return 0, 0, err
	}
	defer g.leave()
	f, t, err := g.driver.MemGetInfo(g.ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read memory sizes of %s: %w", g.label, err)
	}
	return int(f), int(t), nil
}

// Now is a clock that only goes forward: on hardware the time since Open, on the
// software GPU its virtual time, which advances with what calls and waits would
// cost on the machine it plays. Measure with the difference of two.
func (g *GPU) Now() time.Duration {
	if g.emulated != nil {
		return g.emulated.Now()
	}
	return time.Since(g.born)
}

// caps is what the device can do, as its attributes say.
type caps struct {
	unified, mapping, register, registerReadOnly, registeredAddress bool
	managed, concurrentManaged, pools                               bool
	batchCopies                                                     bool // cuMemcpyBatchAsync is there

	processors        int
	threads           int
	block, grid       [3]int
	shared, sharedMax int // bytes a block: by default, and when asked for
	pitch             int // bytes from row to row of a copy; 0 if not known
}

// probe reads the attributes that decide what is allowed.
func (g *GPU) probe() error {
	var failed error
	read := func(a cu.DeviceAttribute, unknown int) int {
		v, err := g.driver.DeviceGetAttribute(a, g.device)
		switch {
		case err == nil:
			return int(v)
		case errors.Is(err, cu.ErrorInvalidValue): // the driver is older than the attribute
			return unknown
		}
		failed = errors.Join(failed, fmt.Errorf("%v: %w", a, err))
		return unknown
	}
	has := func(a cu.DeviceAttribute, unknown int) bool { return read(a, unknown) != 0 }
	c := &g.caps
	c.unified = has(cu.DeviceAttributeUnifiedAddressing, 0)
	c.mapping = has(cu.DeviceAttributeCanMapHostMemory, 0)
	c.register = has(cu.DeviceAttributeHostRegisterSupported, 1)
	c.registerReadOnly = has(cu.DeviceAttributeReadOnlyHostRegisterSupported, 0)
	c.registeredAddress = has(cu.DeviceAttributeCanUseHostPointerForRegisteredMem, 0)
	c.managed = has(cu.DeviceAttributeManagedMemory, 0)
	c.concurrentManaged = has(cu.DeviceAttributeConcurrentManagedAccess, 0)
	c.pools = has(cu.DeviceAttributeMemoryPoolsSupported, 0)
	if version, err := g.driver.DriverGetVersion(); err == nil {
		c.batchCopies = c.unified && version >= 12080
	}
	c.processors = read(cu.DeviceAttributeMultiprocessorCount, 0)
	c.threads = read(cu.DeviceAttributeMaxThreadsPerBlock, 0)
	c.block = [3]int{read(cu.DeviceAttributeMaxBlockDimX, 0), read(cu.DeviceAttributeMaxBlockDimY, 0), read(cu.DeviceAttributeMaxBlockDimZ, 0)}
	c.grid = [3]int{read(cu.DeviceAttributeMaxGridDimX, 0), read(cu.DeviceAttributeMaxGridDimY, 0), read(cu.DeviceAttributeMaxGridDimZ, 0)}
	c.shared = read(cu.DeviceAttributeMaxSharedMemoryPerBlock, 0)
	c.pitch = read(cu.DeviceAttributeMaxPitch, 0)
	c.sharedMax = max(c.shared, read(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin, 0))
	return failed
}
