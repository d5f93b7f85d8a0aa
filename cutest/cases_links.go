package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const linkDoc = "Driver API: Peer Context Memory Access, "

// everyAtomic are the operations of CUatomicOperation.
func everyAtomic() (all []cu.AtomicOperation) {
	for o := cu.AtomicIntegerAdd; o <= cu.AtomicFloatMax; o++ {
		all = append(all, o)
	}
	return all
}

// anyAtomic reports whether one of the capabilities is not empty.
func anyAtomic(all []cu.AtomicCapabilities) bool {
	for _, c := range all {
		if c != 0 {
			return true
		}
	}
	return false
}

// peer returns another device, or skips the case.
func (c *trial) peer() cu.Device {
	n, err := c.d.DeviceGetCount()
	c.ok(err, "count devices")
	if n < 2 {
		c.skip("there is one device")
	}
	return (c.dev + 1) % cu.Device(n)
}

var peerLinkChecks = []check{
	{"links/host-atomics", "the atomic operations over the link to the host agree with the device's attributes",
		"Driver API: Device Management, cuDeviceGetHostAtomicCapabilities; CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED", 0, func(c *trial) {
			all, err := c.d.DeviceGetHostAtomicCapabilities(everyAtomic(), c.dev)
			c.ok(err, "get the capabilities")
			c.check(len(all) == len(everyAtomic()), "got %d capabilities for %d operations", len(all), len(everyAtomic()))
			native := c.attr(cu.DeviceAttributeHostNativeAtomicSupported) != 0 || c.attr(cu.DeviceAttributeOnlyPartialHostNativeAtomicSupported) != 0
			c.check(native == anyAtomic(all), "native host atomics are %t, and the operations have %v", native, all)
			c.observe("atomic operations over the link to the host", fmt.Sprint(all))
			one, err := c.d.DeviceGetHostAtomicCapabilities([]cu.AtomicOperation{cu.AtomicExchange}, c.dev)
			c.ok(err, "get the capabilities of one operation")
			c.check(len(one) == 1 && one[0] == all[cu.AtomicExchange], "alone the exchange has %v, in the list %v", one, all[cu.AtomicExchange])
		}},
	{"links/host-atomics-misuse", "an empty list and unknown operations are invalid values, and so is a device that does not exist",
		"Driver API: Device Management, cuDeviceGetHostAtomicCapabilities", 0, func(c *trial) {
			ask := func(dev cu.Device, operations ...cu.AtomicOperation) error {
				_, err := c.d.DeviceGetHostAtomicCapabilities(operations, dev)
				c.skipMissing(err)
				return err
			}
			c.want(ask(c.dev), "no operations", cu.ErrorInvalidValue)
			c.want(ask(c.dev, cu.AtomicIntegerAdd, 77), "operation 77", cu.ErrorInvalidValue)
			c.want(ask(99, cu.AtomicIntegerAdd), "device 99", cu.ErrorInvalidDevice)
		}},
	{"links/to-itself", "a device has no link to itself",
		linkDoc + "cuDeviceGetP2PAttribute, cuDeviceGetP2PAtomicCapabilities", 0, func(c *trial) {
			_, err := c.d.DeviceGetP2PAttribute(cu.P2PAttributeAccessSupported, c.dev, c.dev)
			c.want(err, "an attribute", cu.ErrorInvalidDevice)
			_, err = c.d.DeviceGetP2PAttribute(cu.P2PAttributeAccessSupported, c.dev, 99)
			c.want(err, "an attribute of the link to device 99", cu.ErrorInvalidDevice)
			_, err = c.d.DeviceGetP2PAtomicCapabilities(everyAtomic(), c.dev, c.dev)
			c.skipMissing(err)
			c.want(err, "atomic operations", cu.ErrorInvalidDevice)
		}},
	{"links/peer-access", "the attribute of the link agrees with cuDeviceCanAccessPeer",
		linkDoc + "cuDeviceGetP2PAttribute, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED", 0, func(c *trial) {
			to := c.peer()
			can, err := c.d.DeviceCanAccessPeer(c.dev, to)
			c.ok(err, "ask for peer access")
			for attribute, name := range map[cu.P2PAttribute]string{cu.P2PAttributePerformanceRank: "performance rank", cu.P2PAttributeAccessSupported: "access",
				cu.P2PAttributeNativeAtomicSupported: "native atomics", cu.P2PAttributeCUDAArrayAccessSupported: "arrays"} {
				v, err := c.d.DeviceGetP2PAttribute(attribute, c.dev, to)
				c.ok(err, name)
				c.observe("the link between two devices: "+name, v)
				c.check(attribute != cu.P2PAttributeAccessSupported || v == can, "the attribute is %d, cuDeviceCanAccessPeer %d", v, can)
			}
			_, err = c.d.DeviceGetP2PAttribute(77, c.dev, to)
			c.want(err, "attribute 77", cu.ErrorInvalidValue)
		}},
	{"links/peer-atomics", "the atomic operations over the link to a peer agree with its attributes",
		linkDoc + "cuDeviceGetP2PAtomicCapabilities; CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED", 0, func(c *trial) {
			to := c.peer()
			all, err := c.d.DeviceGetP2PAtomicCapabilities(everyAtomic(), c.dev, to)
			c.ok(err, "get the capabilities")
			native, err := c.d.DeviceGetP2PAttribute(cu.P2PAttributeNativeAtomicSupported, c.dev, to)
			c.ok(err, "native atomics")
			partial, err := c.d.DeviceGetP2PAttribute(cu.P2PAttributeOnlyPartialNativeAtomicSupported, c.dev, to)
			c.ok(err, "some native atomics")
			c.check(native|partial != 0 || !anyAtomic(all), "native atomics are %d, in part %d, and the operations have %v", native, partial, all)
			c.observe("atomic operations over the link to a peer", fmt.Sprint(all))
			_, err = c.d.DeviceGetP2PAtomicCapabilities(nil, c.dev, to)
			c.want(err, "no operations", cu.ErrorInvalidValue)
		}},
}
