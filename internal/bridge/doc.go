// Package bridge gives package pipeline what package ferry knows and does not export.
//
// Package ferry sets the variables when it is initialised. Package pipeline imports
// ferry, so they are set before its code runs. Values of ferry's types are passed as
// any, because this package cannot import ferry.
//
// Why the entries are no public calls:
//   - [Describe]: a program knows the types of its buffers. Only code that takes any
//     buffer of any element type has to ask what it was given. Host.Slice is no way to
//     the bytes of chunks: a software GPU counts all of them as just written by the CPU,
//     and the first copy of a chunk would take longer.
//   - [WaitInFlight]: Host.Wait and its like also make the memory ready for the CPU,
//     which moves the pages of managed memory. That takes time that a pipeline, whose
//     kernels and copy engines use the memory, need not spend.
//   - [Profile], [Label] and [OwnsPool]: decisions, error texts and checks of arguments
//     inside Ferry need them, and nothing else does.
package bridge
