//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package dl

import (
	"fmt"
	"runtime"
	"sync"

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

// Callback makes a C function with one argument and no result that calls f, on the thread that
// calls it, which may be one that Go did not start. It is never freed, and a process can make 2000:
// make one and keep it.
func Callback(f func(uintptr)) (uintptr, error) { return purego.NewCallback(f), nil }

// heap has the addresses of calloc and free.
var heap = sync.OnceValues(func() (fns [2]uintptr, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i, name := range []string{"calloc", "free"} {
		if fns[i], err = purego.Dlsym(purego.RTLD_DEFAULT, name); err != nil {
			return fns, fmt.Errorf("the C library has no function %s: %w", name, err)
		}
	}
	return fns, nil
})

// Allocate returns n bytes of C's heap, all zero, at an address that is a multiple of 16. They stay
// until [Free].
func Allocate(n uintptr) (uintptr, error) {
	fns, err := heap()
	if err != nil {
		return 0, err
	}
	p := Call(fns[0], 1, n)
	if p == 0 {
		return 0, fmt.Errorf("calloc of %d bytes returned NULL", n)
	}
	return p, nil
}

// Free gives memory of [Allocate] back.
func Free(p uintptr) {
	if fns, err := heap(); err == nil {
		Call(fns[1], p)
	}
}
