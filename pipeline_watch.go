package ferry

import (
	"runtime"
	"time"
)

// watch tells the slots whose chunks are in flight when these have gone out, in their
// order. It is done by the goroutine that queues chunks, in between: a driver serves one
// call at a time, and who has to wait for another's sleeps for longer than a chunk takes.
type watch struct {
	l          *line
	first, end int // the chunks that were queued, and of which no slot was told
}

// askTime is for how long it is asked again and again whether something is done before
// that is done with pauses: longer than a chunk takes where copies are all there is.
const askTime = time.Millisecond

// until watches until a chunk is full, and says whether it is. Where none is to come, nil,
// it watches until all have gone out.
func (w *watch) until(full <-chan bool) bool {
	begin := time.Now()
	for looks := 1; w.first < w.end; looks++ {
		since := time.Since(begin)
		switch {
		case w.tell():
			begin = time.Now()
		case since > askTime:
			select {
			case on := <-full:
				return on
			case <-time.After(min(since/16, time.Millisecond)):
			}
		default:
			select {
			case on := <-full:
				return on
			default:
			}
			if looks%16 == 0 {
				runtime.Gosched()
			}
		}
	}
	return full != nil && <-full
}

// tell asks for the oldest chunk and, if it has gone out, tells its slot. An emulated
// GPU's time goes on when somebody waits, and so the slot does.
func (w *watch) tell() bool {
	s, on := w.l.slots[w.first%len(w.l.slots)], true
	if w.l.g.emulated == nil {
		done, err := s.done.Done()
		if !done && err == nil {
			return false
		}
		on = err == nil || s.await()
	}
	w.first++
	s.gone <- on
	runtime.Gosched() // the slot goes on here, as the other processors are busy
	return true
}
