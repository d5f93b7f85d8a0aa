package pipeline

import (
	"runtime"
	"time"
)

// watcher notifies the goroutines of chunks in flight, in order, when their chunks are
// copied out. It runs between two chunks on the goroutine that queues chunks. If several
// threads called the driver, they would wait for each other, because a driver serves one
// call at a time. Such a wait sleeps for longer than a chunk takes.
type watcher struct {
	run        *run
	first, end int // the chunks that are queued and not notified: first to end-1
}

// watch watches until a chunk is full, and reports whether it can be queued. With nil it
// watches until all chunks are copied out.
func (w *watcher) watch(full <-chan bool) bool {
	t := &w.run.job.tuning.chunks
	begin := time.Now()
	for polls := 1; w.first < w.end; polls++ {
		since := time.Since(begin)
		switch {
		case w.notify():
			begin = time.Now()
		case since > t.PollTime:
			select {
			case ok := <-full:
				return ok
			case <-time.After(min(since/pausePart, maxPause)):
			}
		default:
			select {
			case ok := <-full:
				return ok
			default:
			}
			if polls%t.PollsPerYield == 0 {
				runtime.Gosched()
			}
		}
	}
	return full != nil && <-full
}

// notify notifies the goroutine of the oldest chunk, if that chunk is copied out. On an
// emulated GPU it notifies at once, and the goroutine waits for the chunk, because emulated
// time advances only while a goroutine waits.
func (w *watcher) notify() bool {
	c, ok := w.run.chunks[w.first%len(w.run.chunks)], true
	if !w.run.emulated {
		done, err := c.done.Done()
		if !done && err == nil {
			return false
		}
		ok = err == nil || c.await()
	}
	w.first++
	c.copiedOut <- ok
	runtime.Gosched() // lets the chunk's goroutine run here, as the other processors are busy
	return true
}
