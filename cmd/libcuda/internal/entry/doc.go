// Package entry makes the calls of C programs on a [cu.Driver]. A stub of the library packs the
// arguments of a call into a [Frame], and [Call] unpacks it. There is no cgo here.
//
// Each function that C can call has a line above it, or above its method in cu/driver.go:
//
//	//c:call NAME (ARGUMENTS)
//	//c:hand NAME
//
// NAME is the function in C. From //c:call internal/gen writes the stub; with //c:hand it is
// written in C, or NAME is no function of CUDA. An argument is a type and a name. The types are:
//
//	i32, u32, u64, u8, u16, f32, size   numbers
//	ptr                                 an address or a handle
//	str                                 text: two words, its address and its length
//	stream                              a stream, which NAME_ptsz replaces by that of the thread
//	loc                                 a place, which C passes by value
//	ipc                                 the address of a handle that C passes by value
//	[N]                                 the address of a struct of N bytes, which the stub copies
//
// A star marks a result, and ? a result whose address may be NULL. Arguments are in Frame.In in
// order, results in Frame.Out.
package entry
