package check

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// hostFuncs has the goroutines that run host functions.
type hostFuncs struct {
	count  atomic.Int64
	queued atomic.Int64 // functions that have not ended, outside of graphs
	mu     sync.Mutex
	on     map[uint64]int
}

// any reports whether a host function runs.
func (h *hostFuncs) any() bool { return h.count.Load() > 0 }

// is reports whether the calling goroutine runs a host function.
func (h *hostFuncs) is() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.on[goroutine()] > 0
}

// run runs a host function.
func (h *hostFuncs) run(fn func()) {
	id := goroutine()
	h.mu.Lock()
	if h.on == nil {
		h.on = map[uint64]int{}
	}
	h.on[id]++
	h.mu.Unlock()
	h.count.Add(1)
	defer func() { // also when fn panics
		h.count.Add(-1)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.on[id]--; h.on[id] == 0 {
			delete(h.on, id)
		}
	}()
	fn()
}

// goroutine returns the number of the calling goroutine.
func goroutine() uint64 {
	var buf [64]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	end := bytes.IndexByte(text, ' ')
	n, _ := strconv.ParseUint(string(text[:max(end, 0)]), 10, 64)
	return n
}
