// Package kernelargs converts Go values to the parameter bytes of a kernel.
//
// A [Signature] describes the parameters of a kernel, as far as they are known. A [Buffer]
// packs arguments into bytes. It checks their number, sizes and types against the
// signature, and writes their values in place. It also lists the memory arguments. The
// caller writes their addresses with [PutAddress], when it has acquired the memory.
//
// Padding of structures is zero in the bytes: Go does not define what it holds. The padding of
// a type is found once, as are the checks of element types ([ElementOf]).
//
// Packing allocates nothing: values are read through the words of the interface, so
// arguments do not escape. For each parameter a signature caches the type that it got last,
// so that a launch with the same types needs no check.
package kernelargs
