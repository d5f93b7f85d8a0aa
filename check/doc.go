// Package check finds wrong uses of asynchronous memory. [Wrap] returns a [cu.Driver] that
// watches the calls of another one. It models what CUDA orders: each stream, events, the
// default stream, waits of the host. Two operations that use the same bytes without an
// order are a finding, under every schedule and on a machine of any speed. So are frees of
// memory in flight, uses after a free, wrong frees and copies past the end of memory.
//
// Set FERRY_CHECK=memory, or 1 for all checks, to watch any program that uses package
// ferry. "ferry check -- PROGRAM" does that, and reports. docs/check.md has what is found
// and what is not.
//
// The methods are generated from cu.Driver. Hooks beside them (functions named before...,
// after... and done...) say what each call uses and orders.
package check
