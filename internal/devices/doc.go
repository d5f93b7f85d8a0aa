// Package devices has the names of devices, makes the software machines that they stand for, and
// wraps drivers as the environment asks for it.
//
// Package ferry opens devices by it, and so does the library that is libcuda.so.1 on the software
// GPU. So names and variables mean the same in Go programs and in C programs.
//
// The package stands below both: it does not know package ferry, nor NVIDIA's driver, nor purego.
// NVIDIA GPUs are opened by package ferry alone.
package devices
