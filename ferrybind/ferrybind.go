// Package ferrybind has what the Go files that "ferry bind" writes call. A program calls the
// functions of such a file and not this package: it has a method with typed parameters for
// each kernel.
//
// A kernel of this package knows more than one of [ferry.Module.Kernel]: which parameters its
// source only reads. What a program needs to launch kernels by hand is in package ferry:
// [ferry.Stream.Launch] and [ferry.Batch.Launch].
package ferrybind

import (
	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Param is what the source of a kernel says about a parameter.
type Param struct {
	Name string // "x"
	Type string // in C: "const float *"
	Size int    // bytes
	// Reads is set for a pointer to const. Launches count the memory as read and not as
	// written, so ReadSlice does not wait for them.
	Reads bool
}

// Kernel is [ferry.Module.Kernel] for a kernel whose source is known. It compares the
// parameters with those of the module. An error names the first one whose size differs.
//
// A launch of the kernel counts memory for a parameter with Reads as only read. For other
// parameters it refuses memory that was registered with ReadOnly. The const of C is a
// promise of the kernel's author. If the kernel breaks it by a cast, then ReadSlice may
// return while the kernel still writes. Kernel is safe for concurrent use.
func Kernel(m *ferry.Module, name string, params ...Param) (*ferry.Kernel, error) {
	list := make([]bridge.Param, len(params))
	for i, p := range params {
		list[i] = bridge.Param(p)
	}
	k, err := bridge.Bind(m, name, list)
	if err != nil {
		return nil, err
	}
	return k.(*ferry.Kernel), nil
}

// Launch adds a launch of a kernel to a stream or a batch: see [ferry.Stream.Launch] and
// [ferry.Batch.Launch]. Unlike Launch of the interface [ferry.Queue], it allocates nothing.
// It is safe for concurrent use if the queue is.
func Launch(k *ferry.Kernel, q ferry.Queue, c ferry.LaunchConfig, args ...any) error {
	switch q := q.(type) {
	case *ferry.Stream:
		return q.Launch(k, c, args...)
	case *ferry.Batch:
		return q.Launch(k, c, args...)
	}
	return refusal.Invalid("launch %s: no stream or batch given (nil)", k.Name())
}
