// Package softlib builds the library that is libcuda.so.1 on the software GPU, keeps it in the
// user's cache, and finds out whether a program needs it.
//
// The library itself is cmd/libcuda, the only package of Ferry with C code. So the command needs
// Go, a C compiler and Ferry's sources. A library in the cache has the hash of these in its path.
package softlib
