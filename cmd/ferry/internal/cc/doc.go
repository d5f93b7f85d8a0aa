// Package cc compiles CUDA C++ to programs, by clang alone: "ferry cc".
//
// Each .cu file is compiled twice. The first time clang makes PTX of its device code. The second time
// it makes an object file of its host code, in which the PTX lies. The programs are linked with a
// small library, which is the CUDA runtime API on the driver API. It opens libcuda.so.1 when the
// program runs, so the same program runs on the software GPU and on a real driver.
//
// The sources of that library stand in the folder runtime. It is compiled once, by the user's clang,
// and kept in the user's cache.
//
//   - args.go: the command line, with the flags of clang and the usual ones of nvcc
//   - build.go: the compilations and the link; messages.go: what clang prints
//   - library.go: headers and the runtime library in the cache
//   - run.go: programs in the cache
package cc
