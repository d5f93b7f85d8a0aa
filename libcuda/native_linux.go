//go:build linux && (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"strings"
	"syscall"

	"github.com/ebitengine/purego"
)

// syscallN calls a C function. Memory that the arguments point to stays alive and in
// place until it returns.
//
//go:uintptrescapes
func syscallN(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// closedOnExec returns a descriptor that C has made, such that programs that this process starts do
// not get it. A process that starts a program meanwhile, in another goroutine, may still give it away.
func closedOnExec(fd int32, err error) (int32, error) {
	if err == nil {
		syscall.CloseOnExec(int(fd))
	}
	return fd, err
}

// newCallback makes a C function that calls fn, and returns its address. It is never
// freed; a process can make 2000.
func newCallback(fn func(uintptr)) uintptr { return purego.NewCallback(fn) }

// threadID returns the number of the operating-system thread.
func threadID() int { return syscall.Gettid() }

// mappedFile returns the file that an address of this process is mapped from, or "".
// maps is the text of /proc/self/maps.
func mappedFile(maps string, addr uintptr) string {
	for line := range strings.Lines(maps) {
		part := strings.Fields(line)
		if len(part) < 6 {
			continue
		}
		from, to, _ := strings.Cut(part[0], "-")
		if hex(from) <= addr && addr < hex(to) {
			return strings.Join(part[5:], " ")
		}
	}
	return ""
}
