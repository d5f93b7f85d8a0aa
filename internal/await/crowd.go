package await

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// crowd measures whether goroutines wait for a processor. A goroutine whose work is always
// done when it asks never sleeps: it keeps its processor for 10 ms, and other goroutines wait.
// So while goroutines wait for a processor, each such wait lets others run.
type crowd struct {
	waits   atomic.Uint32 // that ended without sleep
	yields  atomic.Bool   // each wait lets others run, because many goroutines wait
	turns   sync.Pool     // of *turn
	mu      sync.Mutex
	samples [1]metrics.Sample
}

// turn is when a processor of Go last ran another goroutine, or the same one anew. A sync.Pool keeps
// one for each processor.
type turn struct{ began time.Time }

// turnTime is how long a processor runs a goroutine whose waits do not sleep. After 10 ms Go's
// scheduler takes the processor away while the goroutine is in a driver call, and wakes a thread for
// it. If all processors of the machine are busy, that thread stops another goroutine.
const turnTime = 5 * time.Millisecond

// waitsPerLook is the number of waits from one reading of the number of goroutines that can
// run to the next. Reading takes 0.1 to 0.2 us.
const waitsPerLook = 64

// pass lets others run if there is a crowd, or if the processor's turn is over.
func (c *crowd) pass() {
	if c.waits.Add(1)%waitsPerLook == 0 {
		c.look()
	}
	if c.yields.Load() || c.over(time.Now()) {
		runtime.Gosched()
	}
}

// over reports whether the processor's turn is over, and begins the next one then.
func (c *crowd) over(now time.Time) bool {
	t, _ := c.turns.Get().(*turn)
	if t == nil {
		t = &turn{now}
	}
	over := now.Sub(t.began) >= turnTime
	if over {
		t.began = now
	}
	c.turns.Put(t)
	return over
}

// look returns how many goroutines could run if they had a processor. It returns 0 if
// another goroutine is looking. There is a crowd if half as many wait as processors exist.
func (c *crowd) look() (runnable uint64) {
	if !c.mu.TryLock() {
		return 0
	}
	defer c.mu.Unlock()
	s := c.samples[:]
	s[0].Name = "/sched/goroutines/runnable:goroutines"
	if metrics.Read(s); s[0].Value.Kind() == metrics.KindUint64 {
		runnable = s[0].Value.Uint64()
	}
	c.yields.Store(2*runnable >= uint64(runtime.GOMAXPROCS(0)))
	return runnable
}
