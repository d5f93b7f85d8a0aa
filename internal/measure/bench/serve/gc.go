package serve

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry"
)

// node is an object of the heap of a cell with GC: 64 bytes of pointers.
type node [8]*node

const (
	nodeBytes = 64
	heapBytes = 2 << 30
	softBytes = 16 << 20 // for a software GPU, whose figures mean nothing anyway
)

// heapOf returns the size of the heap for a GPU.
func heapOf(g *ferry.GPU) int {
	if g.Emulated() {
		return softBytes
	}
	return heapBytes
}

// pointers makes a heap of some bytes of pointers. It returns the object from which all
// others can be reached. No garbage is collected meanwhile, which would take most of the time.
func pointers(bytes int) *node {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var recent [256]*node // a ring: node i points to nodes i-1, i-2, i-4 to i-128
	for i := range bytes / nodeBytes {
		n := new(node)
		for k := range n {
			n[k] = recent[(i-1<<k)&255]
		}
		recent[i&255] = n
	}
	return recent[(bytes/nodeBytes-1)&255]
}

// collect collects garbage again and again, at least once, until stop is called. stop waits
// for the last collection.
func collect() (stop func()) {
	var stopped atomic.Bool
	var ended sync.WaitGroup
	ended.Go(func() {
		for again := true; again; again = !stopped.Load() {
			runtime.GC()
		}
	})
	return func() {
		stopped.Store(true)
		ended.Wait()
	}
}
