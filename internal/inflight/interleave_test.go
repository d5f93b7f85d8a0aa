package inflight

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// litmusTime is how long a litmus test runs threads at the same time. Where other
// programs use the processors the threads seldom run at the same time, and errors are
// found by TestExplore only.
const litmusTime = 60 * time.Millisecond

// litmus runs a few threads at the same time, again and again. In each round, prepare
// makes the threads and a check that follows them. All goroutines are awake when a round
// begins, and each delays its thread by a random time, so that the rounds go through
// many offsets between them. In TestExplore, another litmus runs all interleavings.
func litmus(t *testing.T, prepare func() (threads []func(), check func())) {
	t.Helper()
	var started, ended atomic.Int64
	var delays []int
	threads, check := prepare() // started and ended guard them; nil threads end the goroutines
	for i := range threads {
		if i == 0 {
			continue
		}
		go func() {
			for n := int64(1); ; n++ {
				await(&started, n)
				if threads == nil {
					return
				}
				spin(delays[i])
				threads[i]()
				ended.Add(1)
			}
		}()
	}
	delays = make([]int, len(threads))
	others := int64(len(threads) - 1)
	for begin := time.Now(); time.Since(begin) < litmusTime && !t.Failed(); threads, check = prepare() {
		longest := 8 << rand.IntN(8)
		for i := range delays {
			delays[i] = rand.IntN(longest)
		}
		n := started.Add(1)
		spin(delays[0])
		threads[0]()
		await(&ended, n*others)
		check()
	}
	threads = nil
	started.Add(1)
}

// await spins until a number is reached. It yields now and then, for machines with fewer
// processors than threads.
func await(number *atomic.Int64, n int64) {
	for i := 1; number.Load() < n; i++ {
		if i%256 == 0 {
			runtime.Gosched()
		}
	}
}

var spun atomic.Int64

// spin takes about n nanoseconds, or a few times that.
func spin(n int) {
	for range n {
		spun.Load()
	}
}

// seen reports whether f is true within a moment.
func seen(f func() bool) bool {
	for range 300 {
		if f() {
			return true
		}
	}
	return false
}
