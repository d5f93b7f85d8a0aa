// Package racebuild says whether the race detector is on. It lets a sync.Pool drop objects at
// random, so that tests do not count allocations, and makes memory accesses ten times slower.
package racebuild
