package bench

import (
	"math"
	"strings"
	"sync"
	"testing"
)

func sums(n int, seed uint32) []float32 {
	a, b, c := make([]float32, n), make([]float32, n), make([]float32, n)
	writeInputs(a, b, seed)
	for i := range c {
		c[i] = a[i] + b[i]
	}
	return c
}

// TestInputsAreExact checks that sums are exact, so that == can compare them.
func TestInputsAreExact(t *testing.T) {
	for i := range 1 << 16 {
		a, b := inputs(77, i)
		if float64(a)+float64(b) != float64(a+b) || a < 0 || b < 0 {
			t.Fatalf("element %d: %g + %g", i, a, b)
		}
	}
}

// TestInputsChange checks that the inputs of consecutive samples have different sums, so
// that an old result is found.
func TestInputsChange(t *testing.T) {
	const n = 1 << 12
	before := sums(n, 1)
	for seed := uint32(2); seed < 50; seed++ {
		now := sums(n, seed)
		same := 0
		for i := range now {
			if now[i] == before[i] {
				same++
			}
		}
		if same > n/100 {
			t.Errorf("seed %d: %d of %d sums are those of the seed before", seed, same, n)
		}
		before = now
	}
}

func TestVerifyCatchesOneWrongResult(t *testing.T) {
	const n = 1<<17 + 5 // several ranges
	if err := verify(sums(n, 3), 3); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 1, n / 2, n - 1} {
		for name, spoil := range map[string]func(float32) float32{
			"one off":  func(v float32) float32 { return math.Nextafter32(v, 0) },
			"poison":   func(float32) float32 { return math.Float32frombits(poisonBits) },
			"negative": func(v float32) float32 { return -v },
		} {
			c := sums(n, 3)
			if c[at] == 0 {
				t.Fatalf("element %d is 0, which this test cannot spoil", at)
			}
			c[at] = spoil(c[at])
			err := verify(c, 3)
			if err == nil || !strings.Contains(err.Error(), "1 of ") {
				t.Errorf("%s at %d: got %v", name, at, err)
			}
		}
	}
	if err := verify(sums(n, 3), 4); err == nil || !strings.Contains(err.Error(), "c[0]") {
		t.Errorf("the results of other inputs: got %v", err)
	}
}

func TestPoisonIsEverywhere(t *testing.T) {
	c := sums(1<<17+1, 9)
	poison(c)
	for i, v := range c {
		if math.Float32bits(v) != poisonBits {
			t.Fatalf("element %d is %g", i, v)
		}
	}
}

// TestSplit checks that one goroutine writes vectors that fit into caches.
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
