// Package cu is the CUDA driver API as a Go interface: [Driver], and its result
// codes, flags, handles and structs.
//
// A method of Driver has the name of the driver function without the prefix "cu".
// It takes the same arguments in the same order, with three changes. Out-parameters
// are results. The result code is the error. The context, which C keeps in the
// calling thread, is the first argument of every call that needs one. Goroutines
// move between threads, so a driver makes the context current for one call only, and
// no call depends on an earlier one.
//
// Two packages implement Driver: libcuda, on NVIDIA's library, and softgpu, in pure
// Go. Other types can wrap one. All are safe for concurrent use where the CUDA driver
// API is.
//
// This package imports only the standard library and contains no behaviour: nothing
// in it allocates device memory, waits or schedules.
package cu
