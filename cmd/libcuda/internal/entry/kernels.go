package entry

import "github.com/ferrygpu/ferry/cu"

// kernelFunction returns the function that a handle of a launch names: a function of a module, or
// a kernel of a library.
func kernelFunction(_ cu.Driver, _ cu.Context, fn cu.Function) (cu.Function, error) { return fn, nil }
