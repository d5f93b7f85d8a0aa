package callsite

import (
	"fmt"
	"testing"
)

// BenchmarkFind measures what the line of a call takes when it has a number already, by the
// number of frames between the call and the outermost function.
func BenchmarkFind(b *testing.B) {
	for _, depth := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprint("depth=", depth), func(b *testing.B) {
			var f Finder
			b.ReportAllocs()
			below(depth, func() {
				for b.Loop() {
					f.Find(0, nil)
				}
			})
		})
	}
}

//go:noinline
func below(depth int, f func()) {
	if depth == 0 {
		f()
		return
	}
	below(depth-1, f)
}

// BenchmarkGoroutine measures what the number of the goroutine takes.
func BenchmarkGoroutine(b *testing.B) {
	for b.Loop() {
		Goroutine()
	}
}
