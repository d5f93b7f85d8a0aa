package softgpu

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/ferrygpu/ferry/cu"
)

// Advice of Linux 5.14: fault pages in, for reading or for writing.
const (
	madvPopulateRead  = 22
	madvPopulateWrite = 23
)

// populates says whether this system knows that advice.
var populates = sync.OnceValue(func() bool {
	b, err := reserve(os.Getpagesize())
	if err != nil {
		return false
	}
	defer b.release()
	return madvise(addressOf(pointerTo(b.data)), uintptr(len(b.data)), madvPopulateWrite) == 0
})

func madvise(addr uint64, n, advice uintptr) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(addr), n, advice)
	return errno
}

// probe faults the pages of n bytes at p in, as page-locking does, and fails if
// there are none or they may not be written. It changes no byte.
func probe(p cu.HostPtr, n uintptr, write bool) error {
	if !populates() {
		return nil
	}
	advice := uintptr(madvPopulateRead)
	if write {
		advice = madvPopulateWrite
	}
	page := uint64(os.Getpagesize())
	first := addressOf(p) &^ (page - 1)
	length := roundUp(addressOf(p)+uint64(n)-first, page)
	switch errno := madvise(first, uintptr(length), advice); {
	case errno == 0:
		return nil
	case errno == syscall.ENOMEM:
		return fmt.Errorf("there is no memory behind some of %d bytes at %p", n, p)
	case write:
		return fmt.Errorf("some of %d bytes at %p may not be written (%v): register them with MemHostRegisterReadOnly", n, p, errno)
	default:
		return fmt.Errorf("some of %d bytes at %p may not be read (%v)", n, p, errno)
	}
}
