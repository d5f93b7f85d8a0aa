// Package compile turns CUDA C++ into PTX, which package ferry loads on a GPU and on the
// software GPU alike. It implements "ferry compile".
//
// It has no compiler of its own. It uses NVRTC, NVIDIA's compiler library, where
// libnvrtc is installed, and clang otherwise. For clang it brings the header
// kernels/ferry.h, so that neither needs a CUDA toolkit. Errors have one form,
// whichever compiler reports them. [Link] links PTX and object code with nvJitLink.
//
// Compilers and libraries are found in absolute directories only, never in the working
// directory: PATH and LD_LIBRARY_PATH are used without their relative and empty elements.
//
// # Files
//
//   - compile.go: Options, Result, Source, File; find.go chooses the compiler
//   - arch.go: names of architectures, and what PTX version each needs
//   - clang.go, clangfind.go, clanglog.go: clang
//   - nvrtc.go, nvrtclog.go: NVRTC
//   - link.go: nvJitLink
//   - diagnostic.go, error.go: what is wrong with a source, and why nothing compiled it
package compile
