//go:build (amd64 || arm64) && !android && !faketime

package bench

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// openLibrary opens a library of C functions, which is never closed. It is a variable so
// that tests can replace it.
var openLibrary = func(path string) (library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("open peer %s: %w", path, err)
	}
	return func(name string, args ...uintptr) (uintptr, error) {
		fn, err := purego.Dlsym(handle, name)
		if err != nil {
			return 0, fmt.Errorf("peer %s: %w", path, err)
		}
		r, _, _ := purego.SyscallN(fn, args...)
		return r, nil
	}, nil
}
