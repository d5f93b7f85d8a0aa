// Package libcuda is [cu.Driver] on NVIDIA's driver library, libcuda.so.1, with
// no C compiler and no CUDA toolkit. [Open] finds the library while the program
// runs, so that one binary starts on machines with and without a GPU.
//
// Functions are looked up when first called, by cuGetProcAddress and with the
// CUDA version whose form of the function [cu.Driver] describes: a newer driver
// keeps that form. What a driver lacks is a [*cu.NotSupportedError].
//
// # Contexts
//
// A call with a context makes it current on the thread it happens to run on and
// then calls the function, in one piece. The context stays current on that
// thread afterwards. Nothing here relies on it, and no other goroutine sees it,
// since every call sets its own; but other code in the process that uses the
// CUDA library on threads of Go must set the context it wants as well. What names
// a stream or an event, such as a copy or a launch, is of that one's context
// whatever is current, so drivers for CUDA 13.0 and later are called at once, and
// asked again with the context if they want it. A zero
// context, and one that CtxDestroy has destroyed, is CUDA_ERROR_INVALID_CONTEXT
// without asking the driver.
//
// # Memory
//
// The driver sees Go memory only for the length of a call. Memory that an
// asynchronous copy goes on using belongs to the caller, who keeps it alive and
// in place (runtime.Pinner) until the stream has passed the copy.
//
// # Platforms
//
// Linux on amd64 and arm64 with glibc. Elsewhere the package builds and Open
// says why it cannot. It is the only package of Ferry that imports purego,
// which makes a binary dynamically linked even with CGO_ENABLED=0.
package libcuda
