// Package cu holds the words of the CUDA driver API as Go says them: the
// [Driver] interface, result codes, flags, handles and structs.
//
// Every method of Driver bears the name of the driver function without its
// "cu" prefix and takes the same arguments in the same order, with three
// changes. Out-parameters are results. The result code is the error. And the
// context, which the C API keeps in the calling thread, is the first argument
// of every call that needs one: goroutines move between threads, so a driver
// binds the context for the length of one call and leaves nothing behind.
//
// Two packages implement Driver: libcuda, on NVIDIA's library, and softgpu, in
// pure Go. Others wrap one. All of them are safe for concurrent use wherever
// the CUDA driver API is.
//
// What does not live here: anything that allocates, waits or decides. This
// package imports only the standard library and runs nothing.
package cu
