package wrappers

import "sync"

// ending has what End must do.
var ending struct {
	mu  sync.Mutex
	all []func()
}

// AtEnd lets End call f, once. A wrapper gives f when it keeps what a program that ends without
// closing anything would lose.
func AtEnd(f func()) {
	ending.mu.Lock()
	defer ending.mu.Unlock()
	ending.all = append(ending.all, f)
}

// End calls what AtEnd was given, the latest first. A program in C closes nothing, so the library
// that it has loaded calls End when the process exits. Only the first of several calls does
// something.
func End() {
	ending.mu.Lock()
	all := ending.all
	ending.all = nil
	ending.mu.Unlock()
	for i := range all {
		all[len(all)-1-i]()
	}
}
