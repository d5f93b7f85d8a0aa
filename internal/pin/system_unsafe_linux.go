package pin

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Unsafe: System calls get memory that this package has reserved, with its length, and
// local variables in the argument list.

// linux is the system that runs the program.
type linux struct{}

func hostSystem() system { return linux{} }

// Advice and policies of Linux, the same on amd64 and arm64.
const (
	madvHugepage   = 14
	madvNoHugepage = 15
	mpolPreferred  = 1
)

func (linux) machine() *Machine { return ReadMachine(os.DirFS("/")) }

func (linux) reserve(bytes, align uintptr) (*reservation, error) {
	const flags = syscall.MAP_ANON | syscall.MAP_PRIVATE | syscall.MAP_NORESERVE
	b, err := syscall.Mmap(-1, 0, int(bytes+align), syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		return nil, err
	}
	return &reservation{startOf(b, align), func() error { return syscall.Munmap(b) }}, nil
}

func (linux) advise(p address, bytes uintptr, huge bool) {
	advice := madvNoHugepage
	if huge {
		advice = madvHugepage
	}
	_ = syscall.Madvise(unsafe.Slice((*byte)(p), bytes), advice) // the system may ignore advice
}

// maxNode is more than the nodes that Linux can have.
const maxNode = 1024

func (linux) prefer(p address, bytes uintptr, node Node) error {
	var mask [maxNode / 64]uint64
	if node.ID >= maxNode {
		return syscall.EINVAL
	}
	mask[node.ID/64] = 1 << (node.ID % 64)
	_, _, errno := syscall.Syscall6(syscall.SYS_MBIND, uintptr(p), bytes, mpolPreferred, uintptr(unsafe.Pointer(&mask)), maxNode, 0)
	if errno != 0 && errno != syscall.ENOSYS { // ENOSYS is a kernel without nodes
		return errno
	}
	return nil
}

func (linux) resident(p address) bool {
	var state byte
	page := uintptr(os.Getpagesize())
	_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(p)&^(page-1), page, uintptr(unsafe.Pointer(&state)))
	return errno == 0 && state&1 != 0
}

// cpuSet is a set of processors in the layout of Linux.
type cpuSet [128]uint64

// call calls sched_getaffinity or sched_setaffinity for this thread.
func (s *cpuSet) call(trap uintptr) bool {
	_, _, errno := syscall.RawSyscall(trap, 0, unsafe.Sizeof(*s), uintptr(unsafe.Pointer(s)))
	return errno == 0
}

// runOn restores the thread in the end, because the driver may know it.
func (linux) runOn(cpus []int) (undo func()) {
	runtime.LockOSThread()
	var old, set cpuSet
	for _, c := range cpus {
		if c < len(set)*64 {
			set[c/64] |= 1 << (c % 64)
		}
	}
	moved := old.call(syscall.SYS_SCHED_GETAFFINITY) && set.call(syscall.SYS_SCHED_SETAFFINITY)
	return func() {
		if moved {
			old.call(syscall.SYS_SCHED_SETAFFINITY)
		}
		runtime.UnlockOSThread()
	}
}
