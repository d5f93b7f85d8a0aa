package bench

import (
	"sync"
	"testing"
)

// What fits into caches is written by one goroutine, whatever the machine has.
func TestSplit(t *testing.T) {
	for _, n := range []int{1, 1 << 20, 1 << 22, 1<<22 + 1} {
		var mu sync.Mutex
		calls, covered := 0, 0
		split(n, func(first, end int) {
			mu.Lock()
			defer mu.Unlock()
			calls, covered = calls+1, covered+end-first
		})
		if covered != n || n <= 1<<22 && calls != 1 {
			t.Errorf("%d elements: %d calls cover %d", n, calls, covered)
		}
	}
}
