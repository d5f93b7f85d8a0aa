//go:build amd64 || arm64

package clib

import "github.com/ebitengine/purego"

func open(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// register makes f call the function of a library with a name.
func register(f any, handle uintptr, name string) error {
	address, err := purego.Dlsym(handle, name)
	if err == nil {
		purego.RegisterFunc(f, address)
	}
	return err
}
