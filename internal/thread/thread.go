// Package thread tells which thread makes a call of a driver. CUDA keeps some state for each thread:
// its default stream and its captures. A Go program's threads are its goroutines: package softgpu
// takes their numbers. In a library for C programs they are the threads of the system, whose
// goroutines are used again for other threads. Such a library says where their numbers come from.
package thread

import (
	"sync"
	"sync/atomic"
)

var (
	source atomic.Pointer[func() uint64]

	mu    sync.Mutex
	onEnd []func(id uint64)
)

// Use makes id the source of the numbers of threads, for the whole process. It is called before any
// driver is opened. The numbers are never used twice.
func Use(id func() uint64) { source.Store(&id) }

// ID returns the number of the calling thread, and whether numbers come from a source. Without a
// source the caller must use that of its goroutine.
func ID() (id uint64, ok bool) {
	if s := source.Load(); s != nil {
		return (*s)(), true
	}
	return 0, false
}

// OnEnd registers a function that is called with the number of each thread that has ended. Without
// a source no such call can come, and nothing is kept.
func OnEnd(f func(id uint64)) {
	if source.Load() == nil {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	onEnd = append(onEnd, f)
}

// End says that a thread has ended.
func End(id uint64) {
	mu.Lock()
	all := onEnd[:len(onEnd):len(onEnd)]
	mu.Unlock()
	for _, f := range all {
		f(id)
	}
}
