// Package kernelargs turns Go values into the parameter bytes of a kernel.
//
// A [Signature] is what is known of a kernel's parameters. A [Buffer] packs
// arguments into bytes: it checks their number, sizes and types against the
// signature, writes values in place, and lists the memory arguments, whose addresses
// the caller writes with [PutAddress] once it has acquired the memory.
//
// Packing allocates nothing: values are read through the interface words, so
// arguments do not escape. A signature remembers which types its parameters took, so
// that a type is looked at once.
package kernelargs
