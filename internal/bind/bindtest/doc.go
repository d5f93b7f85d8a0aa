// Package bindtest has kernels with parameters of all kinds, and the Go code that ferry bind
// writes for them. Its tests launch them on the software GPU.
package bindtest

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind kernels.cu
