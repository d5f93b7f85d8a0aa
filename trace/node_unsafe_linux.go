package trace

import (
	"syscall"
	"unsafe"
)

// Unsafe: The address of a local variable is converted in the system call. The address
// that is asked for is only a number.

// The flags of get_mempolicy that ask for the node of the page at an address.
const nodeOfAddress = 1<<0 | 1<<1 // MPOL_F_NODE | MPOL_F_ADDR

// nodeAt returns the NUMA node of the page at an address, or NoNode.
func nodeAt(address uint64) int {
	node := int32(NoNode)
	_, _, errno := syscall.Syscall6(syscall.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&node)), 0, 0, uintptr(address), nodeOfAddress, 0)
	if errno != 0 {
		return NoNode
	}
	return int(node)
}
