// Package library is NVIDIA's NCCL behind the seam of nccl/internal/backend. It finds
// libnccl.so.2, calls it by package dl, without cgo, and turns results into errors.
//
// The lowest version is 2.23, the first whose ncclCommInitRankScalable takes unique ids by a
// pointer. Older functions take an id of 128 bytes by value: on the stack on amd64, by a pointer
// on arm64.
//
// Communicators block: a call returns when its work is in the stream. What can wait for other ranks
// for long, such as making a communicator, runs on a thread of its own, so that a context can
// end the wait.
package library
