// Package parallel divides loops over memory among the processors.
package parallel

import (
	"runtime"
	"sync"
)

// worthwhile is the elements below which one more goroutine costs more than it
// saves.
const worthwhile = 1 << 16

// For calls work for ranges that together are 0 to n, at once, and returns when
// all are done.
func For(n int, work func(first, end int)) {
	workers := min(runtime.GOMAXPROCS(0), n/worthwhile+1)
	if workers == 1 {
		work(0, n)
		return
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() { work(part(n, w, workers), part(n, w+1, workers)) })
	}
	all.Wait()
}

// part is where range w of workers begins.
func part(n, w, workers int) int { return n/workers*w + min(w, n%workers) }
