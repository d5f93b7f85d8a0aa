package softgpu

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/room"
)

// hostMemory returns how much memory this process may have at most: the machine's, or less
// in a control group or below one.
var hostMemory = sync.OnceValue(func() uint64 {
	return min(math.MaxInt64, room.Read(os.DirFS("/")).Most())
})

// knowsMappings says that mappingAt finds every mapping.
const knowsMappings = true

// mappingAt returns the mapping of this process that contains addr, if it can
// be read. Mappings of the kernel, such as [vvar], are left out.
func mappingAt(addr uint64) (mapping, bool) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return mapping{}, false
	}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		low, high, _ := strings.Cut(fields[0], "-")
		base, err1 := strconv.ParseUint(low, 16, 64)
		end, err2 := strconv.ParseUint(high, 16, 64)
		if err1 != nil || err2 != nil || addr < base || addr >= end {
			continue
		}
		if len(fields) > 5 && strings.HasPrefix(fields[5], "[v") || fields[1][0] != 'r' {
			return mapping{}, false
		}
		return mapping{base, end, strings.Contains(fields[1], "w")}, true
	}
	return mapping{}, false
}

// hugePages reports whether this computer now uses huge pages for all of [base,
// end).
func hugePages(base, end uint64) bool {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return false
	}
	within := false
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			continue
		}
		if low, high, ok := strings.Cut(fields[0], "-"); ok {
			from, err1 := strconv.ParseUint(low, 16, 64)
			to, err2 := strconv.ParseUint(high, 16, 64)
			within = err1 == nil && err2 == nil && from <= base && end <= to
		}
		if within && fields[0] == "AnonHugePages:" && len(fields) > 1 {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			return err == nil && kib<<10 >= end-base
		}
	}
	return false
}

// Advice of Linux 5.14 that faults pages in, for reading or for writing.
const (
	madvPopulateRead  = 22
	madvPopulateWrite = 23
)

// populates reports whether the system supports that advice.
var populates = sync.OnceValue(func() bool {
	b, err := reserve(os.Getpagesize())
	if err != nil {
		return false
	}
	defer b.unmap()
	return madvise(addressOf(pointerTo(b.data)), uintptr(len(b.data)), madvPopulateWrite) == 0
})

// resident returns how many bytes of the pages of data this computer provides now.
func resident(data []byte) uint64 {
	page := uint64(os.Getpagesize())
	first := addressOf(pointerTo(data)) &^ (page - 1)
	length := roundUp(addressOf(pointerTo(data))+uint64(len(data))-first, page)
	pages := make([]byte, length/page)
	_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(first), uintptr(length), uintptr(addressOf(pointerTo(pages))))
	runtime.KeepAlive(pages)
	if errno != 0 {
		return 0
	}
	n := uint64(0)
	for _, p := range pages {
		n += uint64(p & 1)
	}
	return min(n*page, uint64(len(data)))
}

func madvise(addr uint64, n, advice uintptr) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(addr), n, advice)
	return errno
}

// probe faults in the pages of n bytes at p, as page-locking does. It fails if
// there is no memory or if it may not be written. It changes no byte.
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
		return fmt.Errorf("some of %d bytes at %p are not mapped", n, p)
	case !write:
		return fmt.Errorf("some of %d bytes at %p may not be read (%v): allow that first, with mprotect", n, p, errno)
	case madvise(first, uintptr(length), madvPopulateRead) != 0: // so that read-only would fail, too
		return fmt.Errorf("some of %d bytes at %p may be neither read nor written (%v): allow both first, with mprotect", n, p, errno)
	default:
		return fmt.Errorf("some of %d bytes at %p may not be written (%v): register them with MemHostRegisterReadOnly", n, p, errno)
	}
}
