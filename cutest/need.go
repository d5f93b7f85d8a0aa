package cutest

import "github.com/ferrygpu/ferry/cu"

// need is a set of capabilities.
type need uint32

const (
	needMapHost need = 1 << iota
	needUVA
	needRegister
	needHostPointer // registered memory has its host address on the device
	needManaged
	needConcurrentManaged
	needPools
	needVirtual
	needSharable
	needIPC
	needSharablePools
	needDMABuf
	needHostNUMA // memory of MemCreate on a NUMA node of the host
	needPriorities
	needConcurrentKernels
	needTwoDevices
	needPeer
	needEmulated         // undefined by the manuals; only an emulated device is tested
	needExclusiveManaged // an emulated device without concurrent access to managed memory
	needNoContext
	needOwnContext
	needIsolation      // the device is lost for good, so the case has a driver or process of its own
	needLaunchBlocking // a process with CUDA_LAUNCH_BLOCKING=1
)

// needShare is what sharing memory by descriptors needs.
const needShare = needVirtual | needSharable

// needTable has the name of each capability and the attribute that reports it.
var needTable = []struct {
	bit  need
	word string
	attr cu.DeviceAttribute // 0 if there is none
}{
	{needMapHost, "canMapHostMemory", cu.DeviceAttributeCanMapHostMemory},
	{needUVA, "unifiedAddressing", cu.DeviceAttributeUnifiedAddressing},
	{needRegister, "hostRegisterSupported", cu.DeviceAttributeHostRegisterSupported},
	{needHostPointer, "canUseHostPointerForRegisteredMem", cu.DeviceAttributeCanUseHostPointerForRegisteredMem},
	{needManaged, "managedMemory", cu.DeviceAttributeManagedMemory},
	{needConcurrentManaged, "concurrentManagedAccess", cu.DeviceAttributeConcurrentManagedAccess},
	{needPools, "memoryPoolsSupported", cu.DeviceAttributeMemoryPoolsSupported},
	{needVirtual, "virtualMemoryManagementSupported", cu.DeviceAttributeVirtualMemoryManagementSupported},
	{needSharable, "handleTypePosixFileDescriptorSupported", cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported},
	{needIPC, "ipcEventSupported", cu.DeviceAttributeIPCEventSupported},
	{needSharablePools, "mempoolSupportedHandleTypes", cu.DeviceAttributeMempoolSupportedHandleTypes},
	{needDMABuf, "dmaBufSupported", cu.DeviceAttributeDMABufSupported},
	{needHostNUMA, "hostNumaVirtualMemoryManagementSupported", cu.DeviceAttributeHostNUMAVirtualMemoryManagementSupported},
	{needPriorities, "streamPrioritiesSupported", cu.DeviceAttributeStreamPrioritiesSupported},
	{needConcurrentKernels, "concurrentKernels", cu.DeviceAttributeConcurrentKernels},
	{needTwoDevices, "two devices", 0},
	{needPeer, "peer access between devices 0 and 1", 0},
	{needEmulated, "an emulated device (the manual leaves this undefined)", 0},
	{needExclusiveManaged, "an emulated device with managedMemory and without concurrentManagedAccess (hardware would end the process)", 0},
}

// words returns the names of the capabilities in the set.
func (n need) words() []string {
	var words []string
	for _, row := range needTable {
		if n&row.bit != 0 {
			words = append(words, row.word)
		}
	}
	return words
}

// missing returns the reason why the suite's machine cannot run a case, or "".
func (s *suite) missing(n need) string {
	for _, row := range needTable {
		if n&row.bit != 0 && !s.has(row.bit, row.attr) {
			return "the device lacks " + row.word
		}
	}
	return ""
}

func (s *suite) has(bit need, attr cu.DeviceAttribute) bool {
	switch bit {
	case needTwoDevices:
		return len(s.devices) > 1
	case needPeer:
		if len(s.devices) < 2 {
			return false
		}
		can, err := s.d.DeviceCanAccessPeer(s.devices[0], s.devices[1])
		return err == nil && can == 1
	case needEmulated:
		return cu.AsEmulated(s.d) != nil
	case needExclusiveManaged:
		return cu.AsEmulated(s.d) != nil && s.has(0, cu.DeviceAttributeManagedMemory) && !s.has(0, cu.DeviceAttributeConcurrentManagedAccess)
	}
	v, err := s.d.DeviceGetAttribute(attr, s.devices[0])
	return err == nil && v != 0
}
