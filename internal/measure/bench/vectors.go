package bench

import (
	"fmt"
	"math"
	"sync"

	"github.com/ferrygpu/ferry/internal/workers"
)

// inputs returns elements i of a and b for one sample. They are integers below 2^23, so
// that their sum is an exact float32.
func inputs(seed uint32, i int) (a, b float32) {
	x := (uint32(i) + seed*0x85ebca6b) * 2654435761
	y := (x ^ seed) * 2246822519
	return float32(x >> 9), float32(y >> 9)
}

// split runs do over the range of n elements. It uses one goroutine if the vectors fit into
// caches, else all cores. If all cores wrote small vectors, the modified lines would be in
// the caches of all cores. The device reads such lines up to 2.6 times slower
// (docs/RATIONALE.md), so the times would depend on this program's threads.
func split(n int, do func(first, end int)) {
	if n <= 1<<22 {
		do(0, n)
		return
	}
	workers.For(n, do)
}

// writeInputs writes all of a and b.
func writeInputs(a, b []float32, seed uint32) {
	b = b[:len(a)]
	split(len(a), func(first, end int) {
		for i := first; i < end; i++ {
			a[i], b[i] = inputs(seed, i)
		}
	})
}

// poisonBits is a NaN, which is neither a sum of inputs nor an input.
const poisonBits = 0xffffffff

func poisonValue() float32 { return math.Float32frombits(poisonBits) }

// poison overwrites all of c.
func poison(c []float32) {
	bad := poisonValue()
	split(len(c), func(first, end int) {
		for i := first; i < end; i++ {
			c[i] = bad
		}
	})
}

// verify checks every element of c.
func verify(c []float32, seed uint32) error {
	var mu sync.Mutex
	wrong, first := 0, len(c)
	split(len(c), func(from, end int) {
		bad, lowest := check(c, seed, from, end)
		if bad == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		wrong, first = wrong+bad, min(first, lowest)
	})
	if wrong == 0 {
		return nil
	}
	a, b := inputs(seed, first)
	return fmt.Errorf("%d of %d results are wrong; the first, c[%d], is %g (%#x), not %g + %g = %g",
		wrong, len(c), first, c[first], math.Float32bits(c[first]), a, b, a+b)
}

// check counts the wrong elements of a range and finds the first.
func check(c []float32, seed uint32, first, end int) (wrong, lowest int) {
	for i := first; i < end; i++ {
		a, b := inputs(seed, i)
		if c[i] != a+b {
			if wrong == 0 {
				lowest = i
			}
			wrong++
		}
	}
	return wrong, lowest
}
