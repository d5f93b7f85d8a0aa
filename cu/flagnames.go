package cu

import (
	"strconv"
	"strings"
)

// flagName is CUDA's name of one flag, or of several together.
type flagName struct {
	bits uint32
	name string
}

// flagText returns the names of the flags in v, joined by "|". Bits without a name follow
// in hexadecimal. names has the names with more bits first. If v is 0, the text is the name
// that names has for 0, or "0" if it has none.
func flagText(v uint32, names []flagName) string {
	var parts []string
	rest := v
	for _, n := range names {
		if rest&n.bits == n.bits && (n.bits != 0 || v == 0) {
			parts = append(parts, n.name)
			rest &^= n.bits
		}
	}
	switch {
	case rest != 0:
		parts = append(parts, "0x"+strconv.FormatUint(uint64(rest), 16))
	case len(parts) == 0:
		return "0"
	}
	return strings.Join(parts, "|")
}

// String returns CUDA's names of the flags, joined by "|", such as
// "CU_CTX_SCHED_SPIN|CU_CTX_MAP_HOST". Bits without a name follow in hexadecimal: "0x80".
// 0 is "CU_CTX_SCHED_AUTO".
func (f CtxFlags) String() string { return flagText(uint32(f), ctxFlagNames) }

var ctxFlagNames = []flagName{
	{uint32(CtxSchedMask), "CU_CTX_SCHED_MASK"},
	{uint32(CtxSchedSpin), "CU_CTX_SCHED_SPIN"},
	{uint32(CtxSchedYield), "CU_CTX_SCHED_YIELD"},
	{uint32(CtxSchedBlockingSync), "CU_CTX_SCHED_BLOCKING_SYNC"},
	{uint32(CtxMapHost), "CU_CTX_MAP_HOST"},
	{uint32(CtxLmemResizeToMax), "CU_CTX_LMEM_RESIZE_TO_MAX"},
	{uint32(CtxSchedAuto), "CU_CTX_SCHED_AUTO"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "0".
func (f MemHostAllocFlags) String() string { return flagText(uint32(f), memHostAllocFlagNames) }

var memHostAllocFlagNames = []flagName{
	{uint32(MemHostAllocPortable), "CU_MEMHOSTALLOC_PORTABLE"},
	{uint32(MemHostAllocDeviceMap), "CU_MEMHOSTALLOC_DEVICEMAP"},
	{uint32(MemHostAllocWriteCombined), "CU_MEMHOSTALLOC_WRITECOMBINED"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "0".
func (f MemHostRegisterFlags) String() string { return flagText(uint32(f), memHostRegisterFlagNames) }

var memHostRegisterFlagNames = []flagName{
	{uint32(MemHostRegisterPortable), "CU_MEMHOSTREGISTER_PORTABLE"},
	{uint32(MemHostRegisterDeviceMap), "CU_MEMHOSTREGISTER_DEVICEMAP"},
	{uint32(MemHostRegisterIOMemory), "CU_MEMHOSTREGISTER_IOMEMORY"},
	{uint32(MemHostRegisterReadOnly), "CU_MEMHOSTREGISTER_READ_ONLY"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "0".
func (f MemAttachFlags) String() string { return flagText(uint32(f), memAttachFlagNames) }

var memAttachFlagNames = []flagName{
	{uint32(MemAttachGlobal), "CU_MEM_ATTACH_GLOBAL"},
	{uint32(MemAttachHost), "CU_MEM_ATTACH_HOST"},
	{uint32(MemAttachSingle), "CU_MEM_ATTACH_SINGLE"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "CU_STREAM_DEFAULT".
func (f StreamFlags) String() string { return flagText(uint32(f), streamFlagNames) }

var streamFlagNames = []flagName{
	{uint32(StreamNonBlocking), "CU_STREAM_NON_BLOCKING"},
	{uint32(StreamDefault), "CU_STREAM_DEFAULT"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "CU_EVENT_DEFAULT".
func (f EventFlags) String() string { return flagText(uint32(f), eventFlagNames) }

var eventFlagNames = []flagName{
	{uint32(EventBlockingSync), "CU_EVENT_BLOCKING_SYNC"},
	{uint32(EventDisableTiming), "CU_EVENT_DISABLE_TIMING"},
	{uint32(EventInterprocess), "CU_EVENT_INTERPROCESS"},
	{uint32(EventDefault), "CU_EVENT_DEFAULT"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "CU_EVENT_RECORD_DEFAULT".
func (f EventRecordFlags) String() string { return flagText(uint32(f), eventRecordFlagNames) }

var eventRecordFlagNames = []flagName{
	{uint32(EventRecordExternal), "CU_EVENT_RECORD_EXTERNAL"},
	{uint32(EventRecordDefault), "CU_EVENT_RECORD_DEFAULT"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "CU_EVENT_WAIT_DEFAULT".
func (f EventWaitFlags) String() string { return flagText(uint32(f), eventWaitFlagNames) }

var eventWaitFlagNames = []flagName{
	{uint32(EventWaitExternal), "CU_EVENT_WAIT_EXTERNAL"},
	{uint32(EventWaitDefault), "CU_EVENT_WAIT_DEFAULT"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "CU_STREAM_WRITE_VALUE_DEFAULT".
func (f StreamWriteValueFlags) String() string { return flagText(uint32(f), streamWriteValueFlagNames) }

var streamWriteValueFlagNames = []flagName{
	{uint32(StreamWriteValueNoMemoryBarrier), "CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER"},
	{uint32(StreamWriteValueDefault), "CU_STREAM_WRITE_VALUE_DEFAULT"},
}

// String returns the flags as text, such as
// "CU_STREAM_WAIT_VALUE_EQ|CU_STREAM_WAIT_VALUE_FLUSH".
func (f StreamWaitValueFlags) String() string { return flagText(uint32(f), streamWaitValueFlagNames) }

var streamWaitValueFlagNames = []flagName{
	{uint32(StreamWaitValueFlush), "CU_STREAM_WAIT_VALUE_FLUSH"},
	{uint32(StreamWaitValueNOR), "CU_STREAM_WAIT_VALUE_NOR"},
	{uint32(StreamWaitValueAND), "CU_STREAM_WAIT_VALUE_AND"},
	{uint32(StreamWaitValueEQ), "CU_STREAM_WAIT_VALUE_EQ"},
	{uint32(StreamWaitValueGEQ), "CU_STREAM_WAIT_VALUE_GEQ"},
}

// String returns the flags as text: see [CtxFlags.String]. 0 is "CU_MEM_ACCESS_FLAGS_PROT_NONE".
func (f MemAccessFlags) String() string { return flagText(uint32(f), memAccessFlagNames) }

var memAccessFlagNames = []flagName{
	{uint32(MemAccessProtReadWrite), "CU_MEM_ACCESS_FLAGS_PROT_READWRITE"},
	{uint32(MemAccessProtRead), "CU_MEM_ACCESS_FLAGS_PROT_READ"},
	{uint32(MemAccessProtNone), "CU_MEM_ACCESS_FLAGS_PROT_NONE"},
}

// String returns the flags as text: see [CtxFlags.String].
func (f IpcMemFlags) String() string { return flagText(uint32(f), ipcMemFlagNames) }

var ipcMemFlagNames = []flagName{{uint32(IpcMemLazyEnablePeerAccess), "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"}}

// String returns the flags as text: see [CtxFlags.String].
func (f MemRangeFlags) String() string { return flagText(uint32(f), memRangeFlagNames) }

var memRangeFlagNames = []flagName{{uint32(MemRangeFlagDMABufMappingTypePCIe), "CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE"}}

// String returns the flags as text: see [CtxFlags.String]. 0 is "CU_OCCUPANCY_DEFAULT".
func (f OccupancyFlags) String() string { return flagText(uint32(f), occupancyFlagNames) }

var occupancyFlagNames = []flagName{
	{uint32(OccupancyDisableCachingOverride), "CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE"},
	{uint32(OccupancyDefault), "CU_OCCUPANCY_DEFAULT"},
}
