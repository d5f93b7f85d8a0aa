//go:build (amd64 || arm64) && !android && !faketime

package dl

import (
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

// Supported reports whether this platform can open libraries.
const Supported = true

// open opens a library by its path, or by a name that the system's loader looks up.
func open(path string) (*Library, error) {
	runtime.LockOSThread() // the loader keeps its message for each thread
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	return &Library{path: path, handle: handle}, nil
}

// Symbol returns the address of a function or a variable.
func (l *Library) Symbol(name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fn, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return 0, fmt.Errorf("library %s has no function %s", l.path, name)
	}
	return fn, nil
}

// Call calls a C function by its address. It returns the whole result register; the
// caller truncates it to the type of the result. Memory that arguments point to stays
// alive and in place until Call returns, if the call has the form
// uintptr(unsafe.Pointer(p)) for them.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
