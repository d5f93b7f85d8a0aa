package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
)

// DeviceGetP2PAttribute describes the link between two devices. Profiles do not say whether it
// carries atomic operations, so it carries none: a program that relies on them must ask.
func (d *Driver) DeviceGetP2PAttribute(attrib cu.P2PAttribute, srcDevice, dstDevice cu.Device) (int32, error) {
	const what = "get an attribute of the link between two devices"
	return deviceCall(d, srcDevice, what, func(src *device) (int32, error) {
		if err := d.linked(src, dstDevice, what); err != nil {
			return 0, err
		}
		switch attrib {
		case cu.P2PAttributeAccessSupported:
			if d.peerAccess() {
				return 1, nil
			}
		case cu.P2PAttributePerformanceRank, cu.P2PAttributeNativeAtomicSupported, cu.P2PAttributeCUDAArrayAccessSupported:
		case cu.P2PAttributeOnlyPartialNativeAtomicSupported:
			if d.prof.Driver.Value < 13000 {
				return 0, refuse(cu.ErrorInvalidValue, what, "attribute %d needs a driver for CUDA 13.0", attrib)
			}
		default:
			return 0, refuse(cu.ErrorInvalidValue, what, "attribute %d is not known", attrib)
		}
		return 0, nil
	})
}

// DeviceGetHostAtomicCapabilities returns what kernels can do to host memory, if the profile has
// native host atomics, and nothing if it has not.
func (d *Driver) DeviceGetHostAtomicCapabilities(operations []cu.AtomicOperation, dev cu.Device) ([]cu.AtomicCapabilities, error) {
	const what = "get the atomic operations over the link to the host"
	if err := d.since("cuDeviceGetHostAtomicCapabilities", 13000); err != nil {
		return nil, err
	}
	return deviceCall(d, dev, what, func(dev *device) ([]cu.AtomicCapabilities, error) {
		return atomicsOver(operations, dev.attr(cu.DeviceAttributeHostNativeAtomicSupported) != 0, what)
	})
}

// DeviceGetP2PAtomicCapabilities returns nothing for each operation; see DeviceGetP2PAttribute.
func (d *Driver) DeviceGetP2PAtomicCapabilities(operations []cu.AtomicOperation, srcDevice, dstDevice cu.Device) ([]cu.AtomicCapabilities, error) {
	const what = "get the atomic operations over the link between two devices"
	if err := d.since("cuDeviceGetP2PAtomicCapabilities", 13000); err != nil {
		return nil, err
	}
	return deviceCall(d, srcDevice, what, func(src *device) ([]cu.AtomicCapabilities, error) {
		if err := d.linked(src, dstDevice, what); err != nil {
			return nil, err
		}
		return atomicsOver(operations, false, what)
	})
}

// linked fails unless there is a link from src to another device.
func (d *Driver) linked(src *device, dst cu.Device, what string) error {
	to, err := d.device(dst, what)
	if err == nil && to == src {
		err = refuse(cu.ErrorInvalidDevice, what, "device %d has no link to itself", dst)
	}
	return err
}

// atomicsOver returns what a link carries of each operation: all of it or nothing.
func atomicsOver(operations []cu.AtomicOperation, native bool, what string) ([]cu.AtomicCapabilities, error) {
	if len(operations) == 0 {
		return nil, refuse(cu.ErrorInvalidValue, what, "the list of operations is empty")
	}
	all := make([]cu.AtomicCapabilities, len(operations))
	for i, o := range operations {
		forms, known := atomicForms(o)
		if !known {
			return nil, refuse(cu.ErrorInvalidValue, what, "operation %d of the list, %d, is not known", i, uint32(o))
		}
		if native {
			all[i] = forms
		}
	}
	return all, nil
}

// atomicForms returns the forms of an operation that kernels of the software GPU have, by the PTX
// instructions atom and red.
func atomicForms(o cu.AtomicOperation) (forms cu.AtomicCapabilities, known bool) {
	const (
		words = cu.AtomicScalar32 | cu.AtomicScalar64
		signs = cu.AtomicSigned | cu.AtomicUnsigned
	)
	switch o {
	case cu.AtomicIntegerAdd, cu.AtomicIntegerMin, cu.AtomicIntegerMax:
		return signs | words | cu.AtomicReduction, true
	case cu.AtomicIntegerIncrement, cu.AtomicIntegerDecrement:
		return cu.AtomicUnsigned | cu.AtomicScalar32 | cu.AtomicReduction, true
	case cu.AtomicAnd, cu.AtomicOr, cu.AtomicXor:
		return cu.AtomicUnsigned | words | cu.AtomicReduction, true
	case cu.AtomicExchange, cu.AtomicCompareAndSwap:
		return cu.AtomicUnsigned | words, true
	case cu.AtomicFloatAdd:
		return cu.AtomicSigned | words | cu.AtomicReduction, true
	case cu.AtomicFloatMin, cu.AtomicFloatMax:
		return 0, true
	}
	return 0, false
}
