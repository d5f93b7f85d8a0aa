package accesspath

import (
	"iter"

	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// Agent is the unit that accesses memory.
type Agent uint8

// The agents.
const (
	Kernel     Agent = iota // a thread of a kernel
	CopyEngine              // a copy of the driver
	CPU                     // the host
)

// Access is one access to memory.
type Access struct {
	Agent  Agent
	Device int // of the kernel or copy engine
	Addr   uint64
	Write  bool

	Target *Owner // the memory at the address; nil if the driver knows none
	Name   string // of that memory, for reports
	Denied string // why the agent must not access it; "" if it may
}

// Machine is a machine with its memory, as one context sees it.
type Machine struct {
	Profile    *profile.Profile
	Devices    int
	Unified    bool   // it has unified addressing
	Window     uint64 // the first address of the memory of the device
	HostOffset uint64 // bytes behind it, from which on host memory is mapped without unified addressing

	// Ranges has all addresses that the driver knows, in ascending order.
	Ranges iter.Seq[Range]
	// Near describes what is near an address that has no memory.
	Near func(addr uint64) string
	// Mapping reports whether the process has memory at an address, and whether that is writable.
	// If not KnowsMappings, it may not find all.
	Mapping       func(addr uint64) (writable, mapped bool)
	KnowsMappings bool
	// HugePages reports whether the system uses huge pages for all of [base, end).
	HugePages func(base, end uint64) bool
	// DeviceFaults and HostFaults are the prices of faults on managed memory.
	DeviceFaults, HostFaults uvm.Price
}

// Range is a range of addresses with one owner.
type Range struct {
	Base      uint64
	Alias     bool // it is the device's address of host memory
	ForDevice bool // the device maps its owner from here on, for the agent
	Owner     *Owner
}

// Owner is an allocation, a registration or a variable.
type Owner struct {
	Key        any // the same in each walk
	Base, Size uint64
	OnHost     bool // the CPU can read it
	ReadOnly   bool
	Managed    *uvm.Range // nil if it is not managed memory

	// Of device memory:
	Device int
	Pages  Pages
}

func (o *Owner) end() uint64 { return o.Base + o.Size }

// Pages are whole pages of device memory. Small allocations share them.
type Pages struct {
	Key   any // the same in each walk
	Base  uint64
	Bytes uint64
}

// Walk describes how one access reaches memory when nothing is cached.
type Walk struct {
	What  string // description of the memory
	Path  string // name of the path, such as "zero-copy"
	Steps []Step
	Fault string // the reason why the access fails, or "" if it succeeds

	Ns   float64            // the sum of the steps
	Sure profile.Confidence // of the least sure step
}

// Step is one step of a walk.
type Step struct {
	Unit string // "GPU MMU", "IOMMU", "CPU MMU", "link", "driver" or "memory"
	Text string // description of the entry that is read, or of another event

	// Of an entry of a page table:
	Level string // "PDE0"; "" for other steps
	Index int
	Page  uint64 // bytes of the page, if the entry is a page
	Frame uint64 // the page's physical address
	Ns    float64
}

func roundUp(n, step uint64) uint64 { return (n + step - 1) / step * step }
