// Package dl opens shared libraries of C functions and calls them, without cgo. It is for
// libraries that a program can do without: NVIDIA's driver, the compiler and the linker of
// the CUDA toolkit, and the peers of measurements. Package libcuda finds and opens the
// driver library here, and calls it in its own way, which is faster.
//
// A [Search] tries one library after the other until one is accepted, so that a broken one
// hides none that works. It returns what was tried, each with its reason.
//
// A library is found in directories with absolute paths only, never in the working
// directory. The loader of the system would search the working directory for an empty or
// relative element of LD_LIBRARY_PATH. So this package reads LD_LIBRARY_PATH itself.
// What a library itself needs is found by the system's loader, in its own way.
//
// The package works on Linux on amd64 and arm64 with glibc. Elsewhere and with the build tag
// ferrysoft, which makes programs static, it builds, and opening returns [ErrPlatform].
package dl
