//go:build amd64 || arm64

package clib

import (
	"runtime"

	"github.com/ebitengine/purego"
)

func open(path string) (uintptr, error) {
	runtime.LockOSThread() // the loader keeps its message for each thread
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// register makes f call the function of a library with a name. RegisterFunc converts the arguments
// by reflection. That takes less code than SyscallN, and 3 to 5 times the time.
func register(f any, handle uintptr, name string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	address, err := purego.Dlsym(handle, name)
	if err == nil {
		purego.RegisterFunc(f, address)
	}
	return err
}
