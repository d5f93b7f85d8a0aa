// Package serve measures a GPU that many goroutines use at once, like a server. Each
// goroutine has a stream and buffers of its own. It makes requests, one after the other:
// copy in, launch a small kernel, copy out, wait for the stream.
//
// [Run] measures one [Cell], which is a kind of memory, a size and a number of goroutines.
// Buffers and streams are made, and the first requests served, before the clock starts. The
// first and the last element of each request are checked, and every element of the last
// request of each goroutine. Latencies go into a histogram for each goroutine, without locks
// and allocations.
//
// The peer in C++ is internal/measure/bench/peer/serve.cu. The command internal/measure/bench/serve/cell
// measures cells in a process of their own, and has the same command line as the peer. The
// script internal/measure/bench/peer/serve.py runs both in turns. Times are those of the wall clock,
// so those of a software GPU say nothing about a GPU.
//
// Only api.go depends on names of Ferry that have changed, so that the package can be
// copied to older commits.
package serve
