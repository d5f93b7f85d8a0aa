// Package virtual has memory of a GPU whose addresses are reserved apart from it: it grows where it
// is, and goes to other processes as a file descriptor. It knows the driver, but no buffers and no
// work in flight: the caller waits before it frees memory.
//
//	memory.go  addresses, what is mapped there, and which devices can use it
//	file.go    descriptors
package virtual
