// Package everyone has one program in several languages, for docs/everyone.md: a kernel increments
// numbers in page-locked memory. None of them needs a CUDA toolkit. They run on NVIDIA's driver and
// on the software GPU.
package everyone
