// Package racebuild says whether the race detector is on, or another detector of the compiler. It
// lets a sync.Pool drop objects at random, so that tests do not count allocations, and makes
// memory accesses ten times slower.
package racebuild

// Instrumented is true with the race detector, the address sanitizer and the memory sanitizer.
// With the sanitizers more objects are allocated, and memory accesses are three times slower.
const Instrumented = On || sanitized
