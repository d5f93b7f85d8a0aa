package entry

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Lists and buffers are memory of the program, used during the call alone.

// put writes text and a zero byte to a buffer of C, and cuts what does not fit.
func put(buffer unsafe.Pointer, bytes int32, text string) error {
	if isNull(buffer) || bytes <= 0 {
		return cu.ErrorInvalidValue
	}
	to := unsafe.Slice((*byte)(buffer), int(bytes))
	to[copy(to[:len(to)-1], text)] = 0
	return nil
}

//c:call cuDeviceGetName (ptr name, i32 bytes, i32 dev)
func deviceName(d cu.Driver, f *Frame) error {
	name, err := d.DeviceGetName(cu.Device(f.In[2]))
	if err != nil {
		return err
	}
	return put(f.pointer(0), int32(f.In[1]), name)
}

//c:call cuDeviceGetPCIBusId (ptr id, i32 bytes, i32 dev)
func devicePCI(d cu.Driver, f *Frame) error {
	id, err := d.DeviceGetPCIBusId(cu.Device(f.In[2]))
	if err != nil {
		return err
	}
	return put(f.pointer(0), int32(f.In[1]), id)
}

//c:call cuDeviceGetByPCIBusId (*i32 dev, str id)
func deviceByPCI(d cu.Driver, f *Frame) error {
	n, err := d.DeviceGetCount()
	for dev := cu.Device(0); err == nil && dev < cu.Device(n); dev++ {
		var id string
		if id, err = d.DeviceGetPCIBusId(dev); err == nil && samePCI(id, f.text(0)) {
			f.Out[0] = uint64(dev)
			return nil
		}
	}
	if err != nil {
		return err
	}
	return cu.ErrorInvalidDevice
}

//c:call cuDeviceComputeCapability (*i32 major, *i32 minor, i32 dev)
func deviceCapability(d cu.Driver, f *Frame) (err error) {
	for i, a := range []cu.DeviceAttribute{cu.DeviceAttributeComputeCapabilityMajor, cu.DeviceAttributeComputeCapabilityMinor} {
		var v int32
		if v, err = d.DeviceGetAttribute(a, cu.Device(f.In[0])); err != nil {
			return err
		}
		f.Out[i] = uint64(v)
	}
	return nil
}

// properties are the attributes of CUdevprop in order.
var properties = [...]cu.DeviceAttribute{
	cu.DeviceAttributeMaxThreadsPerBlock,
	cu.DeviceAttributeMaxBlockDimX, cu.DeviceAttributeMaxBlockDimY, cu.DeviceAttributeMaxBlockDimZ,
	cu.DeviceAttributeMaxGridDimX, cu.DeviceAttributeMaxGridDimY, cu.DeviceAttributeMaxGridDimZ,
	cu.DeviceAttributeMaxSharedMemoryPerBlock, cu.DeviceAttributeTotalConstantMemory, cu.DeviceAttributeWarpSize,
	cu.DeviceAttributeMaxPitch, cu.DeviceAttributeMaxRegistersPerBlock, cu.DeviceAttributeClockRate,
	cu.DeviceAttributeTextureAlignment,
}

//c:call cuDeviceGetProperties (*[56] properties, i32 dev)
func deviceProperties(d cu.Driver, f *Frame) error {
	to := (*[len(properties)]int32)(unsafe.Pointer(&f.Out))
	for i, a := range properties {
		v, err := d.DeviceGetAttribute(a, cu.Device(f.In[0]))
		if err != nil {
			return err
		}
		to[i] = v
	}
	return nil
}

//c:call cuDeviceGetHostAtomicCapabilities (ptr capabilities, ptr operations, u32 count, i32 dev)
func hostAtomics(d cu.Driver, f *Frame) error {
	got, err := d.DeviceGetHostAtomicCapabilities(list[cu.AtomicOperation](f.pointer(1), f.In[2]), cu.Device(f.In[3]))
	return atomics(f, got, err)
}

//c:call cuDeviceGetP2PAtomicCapabilities (ptr capabilities, ptr operations, u32 count, i32 src, i32 dst)
func peerAtomics(d cu.Driver, f *Frame) error {
	got, err := d.DeviceGetP2PAtomicCapabilities(list[cu.AtomicOperation](f.pointer(1), f.In[2]), cu.Device(f.In[3]), cu.Device(f.In[4]))
	return atomics(f, got, err)
}

func atomics(f *Frame, got []cu.AtomicCapabilities, err error) error {
	if err != nil {
		return err
	}
	if isNull(f.pointer(0)) {
		return cu.ErrorInvalidValue
	}
	copy(list[cu.AtomicCapabilities](f.pointer(0), f.In[2]), got)
	return nil
}
