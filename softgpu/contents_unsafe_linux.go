//go:build amd64 || arm64

package softgpu

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Unsafe: The name is a constant with a last zero. The addresses are those of the backing's own
// mapping, which is replaced whole.

// memfdCreate is the number of a system call that package syscall lacks.
var memfdCreate = map[string]uintptr{"amd64": 319, "arm64": 279}[runtime.GOARCH]

// patternFile returns an empty file in memory, or nil.
func patternFile() *os.File {
	name, closeOnExec := []byte("ferry-pattern\x00"), uintptr(1)
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&name[0])), closeOnExec, 0)
	if errno != 0 {
		return nil
	}
	return os.NewFile(fd, "pattern")
}

// mapOver replaces the pages of b by private ones of the pattern's file, which the system
// copies when they are written. It returns false if there is not even a first mapping. Then b still
// has all of its pages. If there are too many mappings for all of b, the rest stays zero.
func (c *contents) mapOver(b *backing) bool {
	if !c.grow(min(len(b.data), patternBytes)) {
		return false
	}
	const flags = syscall.MAP_PRIVATE | syscall.MAP_FIXED | syscall.MAP_NORESERVE
	base := addressOf(pointerTo(b.data))
	for off := 0; off < len(b.data); off += patternBytes {
		if !takeMapping() {
			break
		}
		n := min(patternBytes, len(b.data)-off)
		at, _, errno := syscall.Syscall6(syscall.SYS_MMAP, uintptr(base)+uintptr(off), uintptr(n), syscall.PROT_READ|syscall.PROT_WRITE, flags, c.file.Fd(), 0)
		if errno != 0 || uint64(at) != base+uint64(off) {
			patternMappings.Add(-1)
			break
		}
		b.patterns++
	}
	return b.patterns > 0
}

// privateBytes returns how many bytes of the pages of data are the process's own copies, of
// memory that mapOver has changed.
func privateBytes(data []byte) uint64 {
	const present, swapped, shared = 1 << 63, 1 << 62, 1 << 61
	file, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return 0
	}
	defer file.Close()
	page := uint64(os.Getpagesize())
	first, end := addressOf(pointerTo(data))/page, (addressOf(pointerTo(data))+uint64(len(data))+page-1)/page
	n, entries := uint64(0), make([]byte, 64<<10)
	for at := first; at < end; {
		part := entries[:min(uint64(len(entries)), 8*(end-at))]
		if _, err := file.ReadAt(part, int64(8*at)); err != nil {
			return 0
		}
		for i := 0; i < len(part); i += 8 {
			if e := binary.LittleEndian.Uint64(part[i:]); e&swapped != 0 || e&present != 0 && e&shared == 0 {
				n++
			}
		}
		at += uint64(len(part) / 8)
	}
	return min(n*page, uint64(len(data)))
}
