package softgpu

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const maxDevices = 16

// device is one GPU.
type device struct {
	drv     *Driver
	ordinal int
	memory  deviceMemory
	engines *engines

	*loss                       // the driver's
	primary       *contextState // nil while not active
	primaryHandle cu.Context    // every primary context of the device has it; 0 before the first
	primaryRefs   int
	primaryFlags  cu.CtxFlags

	defaultPool, pool *pool
	pools             []*pool
	parked            []*region // freed in stream order, and known until the host synchronises

	turns turns

	copied float64 // the virtual time when a copy over the link began last
}

// loss is the fault that a driver did not survive. Its devices and contexts share
// it: like on hardware, a fault loses every device for every context until the
// process, here the driver, is begun anew.
type loss struct {
	poison error // the first fault, when it really happened
	fault  error // the same, when virtual time has got there: every call returns it
}

func newDevice(d *Driver, ordinal int) *device {
	dev := &device{drv: d, ordinal: ordinal, loss: &d.loss}
	dev.memory.init(dev)
	dev.engines = newEngines(dev)
	dev.defaultPool = &pool{dev: dev, def: true}
	dev.defaultPool.handle = cu.MemPool(d.newHandle(dev.defaultPool))
	dev.defaultPool.reset()
	dev.pool, dev.pools = dev.defaultPool, []*pool{dev.defaultPool}
	return dev
}

// attr is the profile's answer, 0 where it has none.
func (dev *device) attr(a cu.DeviceAttribute) int {
	v, _ := dev.drv.prof.Attribute(a)
	return int(v)
}

// device finds the device of a number.
func (d *Driver) device(dev cu.Device, what string) (*device, error) {
	if dev < 0 || int(dev) >= len(d.devices) {
		return nil, refuse(cu.ErrorInvalidDevice, what, "no device %d, there are %d", dev, len(d.devices))
	}
	return d.devices[dev], nil
}

// DriverGetVersion is the profile's.
func (d *Driver) DriverGetVersion() (int32, error) {
	if d.hostFuncs.inside() {
		return 0, insideHostFunc("read the driver's version")
	}
	return int32(d.prof.Driver.Value), nil
}

// DeviceGetCount is the number of devices that Open was asked for.
func (d *Driver) DeviceGetCount() (int32, error) {
	if err := d.begin("count devices"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return int32(len(d.devices)), nil
}

// DeviceGet is the device of an ordinal.
func (d *Driver) DeviceGet(ordinal int32) (cu.Device, error) {
	_, err := deviceCall(d, cu.Device(ordinal), "get device", func(*device) (int, error) { return 0, nil })
	return cu.Device(ordinal), err
}

// DeviceGetName is the profile's title.
func (d *Driver) DeviceGetName(dev cu.Device) (string, error) {
	return deviceCall(d, dev, "get the device's name", func(*device) (string, error) {
		return d.prof.Title, nil
	})
}

// DeviceGetPCIBusId counts buses up from the profile's.
func (d *Driver) DeviceGetPCIBusId(dev cu.Device) (string, error) {
	return deviceCall(d, dev, "get the device's bus", func(dev *device) (string, error) {
		return fmt.Sprintf("%04x:%02x:%02x.0", dev.attr(cu.DeviceAttributePCIDomainID),
			dev.attr(cu.DeviceAttributePCIBusID)+dev.ordinal, dev.attr(cu.DeviceAttributePCIDeviceID)), nil
	})
}

// DeviceTotalMem is the profile's memory.
func (d *Driver) DeviceTotalMem(dev cu.Device) (uintptr, error) {
	return deviceCall(d, dev, "get the device's memory", func(*device) (uintptr, error) {
		return uintptr(d.prof.Memory.Value), nil
	})
}

// DeviceGetAttribute is the profile's; what the profile does not know its driver does not.
func (d *Driver) DeviceGetAttribute(a cu.DeviceAttribute, dev cu.Device) (int32, error) {
	return deviceCall(d, dev, "get a device attribute", func(dev *device) (int32, error) {
		v, ok := d.prof.Attribute(a)
		if !ok {
			return 0, refuse(cu.ErrorInvalidValue, "get a device attribute", "profile %s has no %v", d.prof.Name, a)
		}
		if a == cu.DeviceAttributePCIBusID {
			v += int32(dev.ordinal)
		}
		return v, nil
	})
}

// DeviceCanAccessPeer is 1 between different devices of a machine that has peer
// access, under unified addressing.
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

// deviceCall is a call about a device that needs no context.
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
