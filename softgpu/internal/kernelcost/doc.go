// Package kernelcost computes what a kernel costs on the machine of a profile.
//
// [Launch.Model] describes the machine to the interpreter before a kernel runs. The interpreter follows some
// blocks and counts traffic and instructions. [Launch.Price] makes a time of these statistics afterwards, by
// parts: a function here has each term of docs/softgpu/time.md.
//
// The package knows nothing of streams, engines or virtual time. Package softgpu says which pages of managed
// memory were where, what their faults cost, and when kernels run beside each other.
//
//	cost.go   what a launch and its run are, and one function for each term
//	parts.go  the parts, and which of them run at once
//	cache.go  traffic: its counters, and what passes the first-level caches
//	model.go  latencies of the generations of GPUs, and the description for the interpreter
package kernelcost
