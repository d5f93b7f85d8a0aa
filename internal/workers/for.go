package workers

import (
	"runtime"
	"sync"
)

// elementsPerWorker is how many elements of a loop are worth one more goroutine.
const elementsPerWorker = 1 << 16

// For calls work for ranges that together cover 0 to n, each in a goroutine of its own,
// and returns when all calls have returned. The goroutines end with the call: For has
// no [Pool], because callers do not call it often.
func For(n int, work func(first, end int)) {
	workers := min(runtime.GOMAXPROCS(0), n/elementsPerWorker+1)
	if workers == 1 {
		work(0, n)
		return
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() { work(rangeStart(n, w, workers), rangeStart(n, w+1, workers)) })
	}
	all.Wait()
}

// rangeStart returns where range w of the given number of workers begins.
func rangeStart(n, w, workers int) int { return n/workers*w + min(w, n%workers) }
