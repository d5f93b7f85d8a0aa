// Package dlpack hands memory of Ferry to other libraries as DLPack tensors, and takes tensors of
// theirs as memory of Ferry. Nothing is copied. DLPack is what PyTorch, CuPy, JAX, NumPy and others
// exchange arrays by (https://dmlc.github.io/dlpack).
//
// A [Tensor] is the address of a DLManagedTensorVersioned, which C and C++ libraries in the same
// process take and give. [Export] makes a tensor that has the memory of a buffer. [Import] makes a
// buffer that has the memory of a tensor.
//
// Python runs in another process. [Send] sends it a file descriptor of the memory, and [Receive]
// receives one. In that process the module python/ferry_dlpack.py of this package makes DLPack
// tensors of the memory. It is for CPython, and needs no compiler.
//
// A tensor says where the memory is, and who gives it back. It orders no work: the library and the
// program wait for each other, or use one stream (ferry.Stream.External, ferry.WrapStream).
//
// The package needs C's heap, so tensors work on Linux on amd64 and arm64. Elsewhere it builds, and
// returns errors that wrap cu.ErrorNotSupported.
package dlpack
