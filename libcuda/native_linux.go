//go:build linux && (amd64 || arm64) && !android && !faketime

package libcuda

import (
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ebitengine/purego"
	"github.com/ferrygpu/ferry/internal/dl"
)

const platformSupported = true

// syscallN calls a C function. Memory that the arguments point to stays alive and in
// place until it returns.
//
//go:uintptrescapes
func syscallN(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// dlopen opens a shared library that stays open.
func dlopen(path string) (library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return library{}, err
	}
	return library{path: path, symbol: func(name string) (uintptr, error) {
		return purego.Dlsym(handle, name)
	}}, nil
}

// newCallback makes a C function that calls fn, and returns its address. It is never
// freed; a process can make 2000.
func newCallback(fn func(uintptr)) uintptr { return purego.NewCallback(fn) }

// threadID returns the number of the operating-system thread.
func threadID() int { return syscall.Gettid() }

// libraryPaths lists where the driver library can be, the usual places first. The
// system's loader searches for the first two. If LD_LIBRARY_PATH has an element that is not
// an absolute path, the loader is not asked, and its absolute elements go first.
func libraryPaths() []string {
	paths := []string{"libcuda.so.1", "libcuda.so"}
	if dirs, safe := dl.SearchPath(); !safe {
		paths = nil
		for _, dir := range dirs {
			paths = append(paths, filepath.Join(dir, "libcuda.so.1"))
		}
	}
	for _, dir := range libraryDirs {
		paths = append(paths, dir+"/libcuda.so.1")
	}
	return paths
}

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
