// Package bridge gives pipeline, dlpack, ferrybind and a benchmark access to what package ferry does
// not export.
//
// Package ferry sets the variables when it is initialised. Those packages import ferry, so
// they are set before their code runs. Values of ferry's types are passed as
// any, because this package cannot import ferry.
//
// The functions are not part of the public API for these reasons:
//   - [Describe]: a program knows the types of its buffers. Only code that takes any
//     buffer of any element type has to ask what it was given. Host.Slice cannot provide
//     the bytes of chunks: a software GPU counts all of them as just written by the CPU,
//     and the first copy of a chunk would take longer.
//   - [WaitInFlight]: Wait of a buffer also makes the memory ready for the CPU, which
//     migrates the pages of managed memory. A pipeline does not need that, because kernels
//     and copy engines use the memory.
//   - [Export] and [SetReadOnly]: what they do is public as package dlpack, which knows when the
//     hold ends.
//   - [PredictPin]: a benchmark of Ferry alone needs it. A program that must know whether
//     memory can be page-locked tries it, and gets a PinError before anything is allocated.
//   - [Bind]: only code that "ferry bind" writes knows what a kernel only reads.
//   - [AllocHost], [AllocPooled] and [HostRoom]: a program has ferry.AllocHost, Host.Alloc and
//     ferry.HostStats.
//   - [Profile], [Label] and [OwnsPool]: only decisions, error texts and checks of
//     arguments inside Ferry need them.
package bridge
