//go:build linux && (amd64 || arm64) && !android && !faketime

package libcuda

import (
	"strings"
	"syscall"

	"github.com/ebitengine/purego"
)

const platformSupported = true

// syscallN calls a C function. What the arguments point to stays alive and in
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

// newCallback is the C address of fn. It is never given back, and a process has
// 2000 of them.
func newCallback(fn func(uintptr)) uintptr { return purego.NewCallback(fn) }

// threadID names the operating system's thread.
func threadID() int { return syscall.Gettid() }

// libraryPaths are the places of the driver library, most usual first. The first
// two leave the search to the system's loader.
func libraryPaths() []string {
	paths := []string{"libcuda.so.1", "libcuda.so"}
	for _, dir := range libraryDirs {
		paths = append(paths, dir+"/libcuda.so.1")
	}
	return paths
}

// mappedFile is the file that an address of this process is mapped from, "" if
// there is none or the system does not tell. maps is /proc/self/maps.
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
