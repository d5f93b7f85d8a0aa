// Package compile turns CUDA C++ into PTX, which package ferry loads on a GPU and on the
// software GPU alike. It implements "ferry compile".
//
// It has no compiler of its own. It uses NVRTC, NVIDIA's compiler library, where
// libnvrtc is installed, and clang otherwise. For clang it brings the header
// kernels/ferry.h, so that neither needs a CUDA toolkit. Errors have one form,
// whichever compiler reports them.
package compile
