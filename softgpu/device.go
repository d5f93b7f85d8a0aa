package softgpu

import (
	"fmt"
	"math"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/forked"
)

const maxDevices = 16

// device is one GPU.
type device struct {
	drv     *Driver
	ordinal int
	place   int // in the machine
	memory  deviceMemory
	engines *engines
	old     bool // it makes dependency checks

	*loss                       // shared with the driver
	primary       *contextState // nil while not active
	primaryHandle cu.Context    // the same for every primary context of the device; 0 before the first
	primaryRefs   int
	primaryFlags  cu.CtxFlags

	defaultPool, pool *pool
	graphPool         *pool // counts the memory of graphs, and keeps it until it is trimmed
	pools             []*pool
	streamFreed       []*region // freed in stream order, kept until the host synchronizes

	timeSlices timeSlices

	lastCopy copyStart // the last copy over the link
}

// loss is the fault that lost the devices. All devices and contexts share it:
// as on hardware, a fault loses every device for every context until the
// process is started anew. Here that is until another driver is opened.
type loss struct {
	poison error // the first fault, set when it happened in real time
	fault  error // the same fault, set when virtual time reaches it; every call reports it
	told   cu.Loss
}

// report returns the fault to the first call, and a [cu.Lost] to later calls. It returns nil
// if there was no fault.
func (l *loss) report() error {
	if l.fault == nil {
		return nil
	}
	return l.told.Report(l.fault)
}

// Loss remembers the fault that lost the devices; see [cu.Losing].
func (d *Driver) Loss() *cu.Loss {
	if d == nil {
		return nil
	}
	return &d.loss.told
}

func newDevice(d *Driver, ordinal, place int) *device {
	dev := &device{drv: d, ordinal: ordinal, place: place, loss: &d.loss}
	dev.memory.init(dev)
	dev.timeSlices.dev = dev
	dev.engines = newEngines(dev)
	dev.old = dev.checksDependencies()
	dev.defaultPool = &pool{dev: dev, isDefault: true}
	dev.defaultPool.handle = cu.MemPool(d.newHandle(dev.defaultPool))
	dev.defaultPool.reset()
	dev.graphPool = &pool{dev: dev, isDefault: true, threshold: math.MaxUint64}
	dev.graphPool.reset()
	dev.pool, dev.pools = dev.defaultPool, []*pool{dev.defaultPool, dev.graphPool}
	return dev
}

// attr returns the profile's value, or 0 if it has none.
func (dev *device) attr(a cu.DeviceAttribute) int {
	v, _ := dev.attribute(a)
	return int(v)
}

// attribute returns the profile's value. Where memory cannot be mapped twice, or devices have
// addresses of their own, no device has virtual memory, nor memory that processes share. The software
// GPU shares by file descriptors and handles, not by DMA-BUF or a fabric, and creates no memory of the
// host. In builds with the race detector device memory is on the Go heap, and cannot be shared.
func (dev *device) attribute(a cu.DeviceAttribute) (int32, bool) {
	v, ok := dev.drv.prof.Attribute(a)
	switch a {
	case cu.DeviceAttributeDMABufSupported, cu.DeviceAttributeHostNUMAVirtualMemoryManagementSupported:
		return 0, ok
	case cu.DeviceAttributeMempoolSupportedHandleTypes: // a set of them
		if !virtualMemory || !dev.drv.uva || raceBuild {
			return 0, ok
		}
		return v & int32(cu.MemHandleTypePosixFileDescriptor), ok
	case cu.DeviceAttributeIPCEventSupported:
		if !virtualMemory || !dev.drv.uva || raceBuild {
			return 0, ok
		}
	case cu.DeviceAttributeVirtualMemoryManagementSupported, cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported:
		if !virtualMemory || !dev.drv.uva {
			return 0, ok
		}
	}
	if a == cu.DeviceAttributeHostMemoryPoolsSupported || a == cu.DeviceAttributeHostNUMAMemoryPoolsSupported {
		v = 0 // see poolPlace
	}
	return v, ok
}

// lacks returns the error for something that the device cannot do because
// attribute a is 0.
func (dev *device) lacks(what string, a cu.DeviceAttribute) error {
	return refuse(cu.ErrorNotSupported, what, "device %d (%s) has %v = 0", dev.ordinal, dev.drv.prof.Title, a)
}

func (dev *device) concurrentManaged() bool {
	return dev.attr(cu.DeviceAttributeConcurrentManagedAccess) != 0
}

// pageable reports whether kernels of the device use ordinary host memory,
// through the host's own page tables.
func (dev *device) pageable() bool { return dev.attr(cu.DeviceAttributePageableMemoryAccess) != 0 }

// copySpacing returns the least time in ns that the copy o, which starts now, takes.
// The device begins copies one after the other, on any engine. The gap between two
// operations of a stream is a part of that time. Copies of several streams on one
// engine have no gap.
func (dev *device) copySpacing(o *op) float64 {
	queue := &dev.drv.prof.Queue
	before := dev.lastCopy
	dev.lastCopy = copyStart{o.start, o.on, o.stream}
	const rounding = 0.01 // absorbs the rounding of summed times
	switch {
	case o.start-before.at > queue.Copy.Value+rounding:
		return 0
	case before.on == o.on && before.stream != o.stream:
		return queue.Copy.Value
	}
	return queue.Copy.Value - queue.Gap.Value
}

// copyStart is the start of a copy over the link.
type copyStart struct {
	at     float64
	on     engineKind
	stream *streamState
}

// device returns the device with the given number.
func (d *Driver) device(dev cu.Device, what string) (*device, error) {
	if dev < 0 || int(dev) >= len(d.devices) {
		return nil, refuse(cu.ErrorInvalidDevice, what, "no device %d, there are %d", dev, len(d.devices))
	}
	return d.devices[dev], nil
}

// DriverGetVersion returns the profile's driver version.
func (d *Driver) DriverGetVersion() (int32, error) {
	if forked.Child() {
		return 0, forked.New("read the driver's version")
	}
	if d.hostFuncs.inside() {
		return 0, insideHostFunc("read the driver's version")
	}
	return int32(d.prof.Driver.Value), nil
}

// DeviceGetCount returns the number of devices given to Open.
func (d *Driver) DeviceGetCount() (int32, error) {
	if err := d.begin("count devices"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return int32(len(d.devices)), nil
}

// DeviceGet returns the device with the given ordinal.
func (d *Driver) DeviceGet(ordinal int32) (cu.Device, error) {
	_, err := deviceCall(d, cu.Device(ordinal), "get device", func(*device) (int, error) { return 0, nil })
	return cu.Device(ordinal), err
}

// DeviceGetName returns the profile's title.
func (d *Driver) DeviceGetName(dev cu.Device) (string, error) {
	return deviceCall(d, dev, "get the device's name", func(*device) (string, error) {
		return d.prof.Title, nil
	})
}

// DeviceGetPCIBusId numbers the buses from the profile's bus upwards.
func (d *Driver) DeviceGetPCIBusId(dev cu.Device) (string, error) {
	return deviceCall(d, dev, "get the device's bus", func(dev *device) (string, error) {
		return fmt.Sprintf("%04x:%02x:%02x.0", dev.attr(cu.DeviceAttributePCIDomainID),
			dev.attr(cu.DeviceAttributePCIBusID)+dev.place, dev.attr(cu.DeviceAttributePCIDeviceID)), nil
	})
}

// DeviceTotalMem returns the profile's memory.
func (d *Driver) DeviceTotalMem(dev cu.Device) (uintptr, error) {
	return deviceCall(d, dev, "get the device's memory", func(*device) (uintptr, error) {
		return uintptr(d.prof.Memory.Value), nil
	})
}

// DeviceGetAttribute returns the profile's value. An attribute that the profile
// lacks is an invalid value.
func (d *Driver) DeviceGetAttribute(a cu.DeviceAttribute, dev cu.Device) (int32, error) {
	return deviceCall(d, dev, "get a device attribute", func(dev *device) (int32, error) {
		v, ok := dev.attribute(a)
		if !ok {
			return 0, refuse(cu.ErrorInvalidValue, "get a device attribute", "profile %s has no %v", d.prof.Name, a)
		}
		if a == cu.DeviceAttributePCIBusID {
			v += int32(dev.place)
		}
		return v, nil
	})
}

// DeviceCanAccessPeer returns 1 for two different devices of a machine with
// peer access and unified addressing.
func (d *Driver) DeviceCanAccessPeer(dev, peerDev cu.Device) (int32, error) {
	return deviceCall(d, dev, "ask for peer access", func(dev *device) (int32, error) {
		peer, err := d.device(peerDev, "ask for peer access")
		if err != nil || peer == dev || !d.peerAccess() {
			return 0, err
		}
		return 1, nil
	})
}

func (d *Driver) peerAccess() bool { return d.uva && d.prof.Link.PeerAccess.Value != 0 }

// deviceCall runs a call about a device that needs no context.
func deviceCall[T any](d *Driver, h cu.Device, what string, f func(*device) (T, error)) (T, error) {
	var zero T
	if err := d.begin(what); err != nil {
		return zero, err
	}
	defer d.mu.Unlock()
	dev, err := d.device(h, what)
	if err != nil {
		return zero, err
	}
	return f(dev)
}

// DevicePrimaryCtxRetain takes a reference to the primary context.
func (d *Driver) DevicePrimaryCtxRetain(h cu.Device) (cu.Context, error) {
	return deviceCall(d, h, "retain the primary context", func(dev *device) (cu.Context, error) {
		if dev.fault != nil {
			return 0, dev.report()
		}
		if dev.primary == nil {
			dev.beginPrimary()
		}
		dev.primaryRefs++
		return dev.primary.handle, nil
	})
}

// beginPrimary makes the primary context. It has the same handle as earlier
// primary contexts of the device.
func (dev *device) beginPrimary() {
	d := dev.drv
	c := d.newContext(dev, dev.primaryFlags)
	c.primary = true
	if dev.primaryHandle == 0 {
		dev.primaryHandle = cu.Context(d.newHandle(c))
	}
	c.handle = dev.primaryHandle
	d.handles[uintptr(c.handle)] = c
	dev.primary = c
}

// DevicePrimaryCtxRelease drops a reference. The last one destroys the context.
// References survive a reset.
func (d *Driver) DevicePrimaryCtxRelease(h cu.Device) error {
	_, err := deviceCall(d, h, "release the primary context", func(dev *device) (int, error) {
		if dev.primaryRefs == 0 {
			return 0, refuse(cu.ErrorInvalidContext, "release the primary context", "it has no references")
		}
		dev.primaryRefs--
		if dev.primaryRefs == 0 {
			dev.endPrimary()
		}
		return 0, nil
	})
	return err
}

// endPrimary destroys the primary context if there is one.
func (dev *device) endPrimary() {
	c := dev.primary
	dev.primary = nil
	if c != nil {
		c.destroy()
	}
}

// DevicePrimaryCtxSetFlags sets the flags, also of an active context. With
// unified addressing host memory is always mapped, so CtxMapHost is refused.
func (d *Driver) DevicePrimaryCtxSetFlags(h cu.Device, flags cu.CtxFlags) error {
	const what = "set flags of the primary context"
	_, err := deviceCall(d, h, what, func(dev *device) (int, error) {
		if err := checkFlags(flags, what); err != nil {
			return 0, err
		}
		if d.uva && flags&cu.CtxMapHost != 0 {
			return 0, refuse(cu.ErrorInvalidValue, what, "CtxMapHost is not allowed with unified addressing, which maps host memory for the primary context without it")
		}
		if dev.primary != nil && !d.uva && (dev.primary.flags^flags)&cu.CtxMapHost != 0 {
			return 0, refuse(cu.ErrorPrimaryContextActive, what, "CtxMapHost cannot change while the context is active")
		}
		dev.primaryFlags = flags
		if dev.primary != nil {
			dev.primary.flags = flags
		}
		return 0, nil
	})
	return err
}

// DevicePrimaryCtxGetState returns the flags, and whether the context is
// active.
func (d *Driver) DevicePrimaryCtxGetState(h cu.Device) (cu.CtxFlags, int32, error) {
	var active int32
	flags, err := deviceCall(d, h, "read the primary context's state", func(dev *device) (cu.CtxFlags, error) {
		if dev.primary != nil {
			active = 1
		}
		return dev.primaryFlags, nil
	})
	return flags, active, err
}

// DevicePrimaryCtxReset destroys the primary context, whatever its reference
// count is.
func (d *Driver) DevicePrimaryCtxReset(h cu.Device) error {
	_, err := deviceCall(d, h, "reset the primary context", func(dev *device) (int, error) {
		dev.endPrimary()
		return 0, nil
	})
	return err
}
