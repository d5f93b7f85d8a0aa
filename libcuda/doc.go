// Package libcuda implements [cu.Driver] with NVIDIA's driver library, libcuda.so.1. It
// needs no C compiler and no CUDA toolkit. [Open] finds the library while the program
// runs, so that one binary starts on machines with and without a GPU. It takes the first
// library that starts, so that a stub or a broken one hides none that works.
//
// Functions are looked up when first called, with cuGetProcAddress and the CUDA
// version whose form of the function [cu.Driver] describes. A newer driver keeps
// that form. A function that the driver lacks is a [*cu.NotSupportedError].
//
// # Contexts
//
// A call with a context makes the context current on the thread it happens to run on.
// It then calls the function, without leaving C in between. The context stays current
// on that thread. Nothing here relies on that, and no other goroutine sees it, because
// every call sets its own context. Other code in the process that uses the CUDA library
// on threads of Go must also set the context that it wants.
//
// An operation on a stream or an event, such as a copy or a launch, runs in the
// context of that stream or event, whichever context is current. Drivers for CUDA
// 13.0 and later are therefore called at once, and again with the context if they
// need it.
//
// A zero context, and one that CtxDestroy has destroyed, is
// CUDA_ERROR_INVALID_CONTEXT without a call of the driver.
//
// # Errors
//
// An error wraps the result of the C function. Drivers from CUDA 12.9 on keep lines about
// failed calls (cuLogsDumpToMemory). They are read after a failure only, and the error ends
// in those of its own thread: "the driver says: Null address specified". If threads fail in
// the same function with the same result at once, each has the lines of one of them. A query
// of work that is not done, a batch and lost contexts have none.
//
// # Memory
//
// The driver uses Go memory only during a call. For an asynchronous copy the caller
// keeps the memory alive and in place (runtime.Pinner) until the stream has passed
// the copy.
//
// # Platforms
//
// The package works on Linux on amd64 and arm64 with glibc. Elsewhere it builds, and
// [Open] returns an error that names the platform. Besides internal/dl, which opens
// libraries, no other package imports purego. It makes a binary
// dynamically linked even with CGO_ENABLED=0.
package libcuda
