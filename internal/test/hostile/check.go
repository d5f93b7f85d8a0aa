package hostile

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// Limits of an input: its size in bytes, and the time and the bytes of memory to refuse it.
// Inputs have 1 MiB with FERRY_FULL=1. Without it size and time are an eighth, and memory is half:
// some buffers have one size for all inputs.
var (
	Bytes  = (1 << 20) / part
	Time   = 2 * time.Second / time.Duration(part)
	Memory = uint64(512<<20) / uint64(sample.Count(2, 1))
)

// part is by what sizes are divided: 1 with FERRY_FULL=1.
var part = sample.Count(8, 1)

// Strict is the environment variable that makes [Check] hold an input to [Time]. It is for
// a machine that does nothing else. Without it an input has five times as long: tests of
// other packages run at the same time, and memory that a virtual machine uses for the first
// time is slow. What costs more with the square of its length takes far longer than that.
const Strict = "FERRY_STRICT"

// Check runs f, which reads one input of at most [Bytes] bytes, and fails the test if it
// takes too long, see [Strict], or more than [Memory]. Time on a busy machine is that of the
// processors. Builds with the race detector or a sanitizer have ten times the time.
func Check(t testing.TB, what string, f func()) {
	t.Helper()
	limit := Time
	switch {
	case racebuild.Instrumented:
		limit *= 10
	case os.Getenv(Strict) == "":
		limit *= 5
	}
	check(t, what, f, limit)
}

func check(t testing.TB, what string, f func(), limit time.Duration) {
	t.Helper()
	c := measure(f)
	if c.took > limit {
		t.Errorf("%s: took %v, at most %v is allowed", what, c.took.Round(time.Millisecond), limit)
	}
	if c.most > Memory {
		t.Errorf("%s: took %d MiB of memory, at most %d are allowed", what, c.most>>20, Memory>>20)
	}
}

// cost is what a function took.
type cost struct {
	took time.Duration // or how long processors worked, if that is shorter
	most uint64        // bytes of the heap at once, at most
}

// short is for how long nobody looks at the memory of a function, because most functions
// end before.
const short = 2 * time.Millisecond

// fresh is how much garbage may be in the heap when f begins. What is collected while f runs
// would be subtracted from what f takes, so f can take as much more than [Memory] unseen.
const fresh = 32 << 20

// clean is the heap after the last collection here, or less if it became smaller since.
var clean atomic.Uint64

// sweep collects garbage if there may be more than fresh.
func sweep() {
	heap := read(objects)
	if heap > clean.Load()+fresh {
		runtime.GC()
		clean.Store(read(objects))
	} else if heap < clean.Load() {
		clean.Store(heap)
	}
}

// measure runs f. It looks at the memory every millisecond, while the garbage collector
// keeps to the limit as well as it can. For a short f it counts all that f allocates.
func measure(f func()) cost {
	sweep()
	before, allocated := read(objects), read(allocations)
	done, looked := make(chan struct{}), make(chan uint64, 1)
	timer := time.AfterFunc(short, func() { looked <- look(done, before) })
	worked, begin := processorTime(), time.Now()
	f()
	c := cost{took: min(time.Since(begin), processorTime()-worked)}
	close(done)
	if timer.Stop() {
		c.most = read(allocations) - allocated
		return c
	}
	c.most = min(<-looked, read(allocations)-allocated)
	return c
}

// look returns the most bytes of the heap that there are at once until done, besides those
// of before. It looks once more after done, because f may take all of its memory at its end.
func look(done <-chan struct{}, before uint64) (most uint64) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(before + Memory)))
	for ended := false; ; {
		now := read(objects)
		most = max(most, now-min(now, before))
		if ended {
			return most
		}
		select {
		case <-done:
			ended = true
		case <-time.After(time.Millisecond):
		}
	}
}

// Names of runtime metrics: the heap in use, with garbage, and all that was ever allocated.
const (
	objects     = "/memory/classes/heap/objects:bytes"
	allocations = "/gc/heap/allocs:bytes"
)

func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
