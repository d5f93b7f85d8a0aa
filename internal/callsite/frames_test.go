package callsite

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// shapes call f in ways that make different stacks.
var shapes = []func(f func()){
	func(f func()) { f() },
	func(f func()) { defer f() },
	func(f func()) { below(3, f) },
	func(f func()) { below(60, f) },
	func(f func()) { grow(100, f) },
	func(f func()) { reflect.ValueOf(f).Call(nil) },
	func(f func()) { inlined(f) },
	func(f func()) { inlined(func() { inlined(f) }) },
	func(f func()) {
		for range func(yield func(int) bool) { yield(1) } {
			f()
		}
	},
	func(f func()) {
		defer func() { _ = recover() }()
		defer f()
		panic("for the test")
	},
	func(f func()) {
		done := make(chan bool)
		go func() {
			defer close(done)
			f()
		}()
		<-done
	},
}

func inlined(f func()) { f() }

// grow has a frame of 4 KiB, so that deep calls move the stack.
//
//go:noinline
func grow(depth int, f func()) {
	var frame [4096]byte
	if depth == 0 {
		f()
	} else {
		grow(depth-1, f)
	}
	runtime.KeepAlive(&frame)
}

// TestFramePointers: the addresses are return addresses of the stack, the innermost first.
// runtime.Callers has all of them in the same order, but those in wrappers that the compiler has
// made, and others between them for inlined calls.
func TestFramePointers(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("functions have no frame pointers on " + runtime.GOARCH)
	}
	for i, shape := range shapes {
		shape(func() {
			var chain [maxDepth]uintptr
			all := make([]uintptr, 200)
			n := framePointers(&chain)
			all = all[:runtime.Callers(1, all)]
			if n < 2 || n > maxDepth {
				t.Errorf("shape %d: %d addresses, and Callers has %d", i, n, len(all))
			}
			known := 0
			for j, pc := range chain[1:n] { // the first one is after the call of framePointers
				name := runtime.FuncForPC(pc).Name()
				if strings.Contains(name, "wrap") || strings.HasPrefix(name, "runtime.reflectcall") {
					continue
				}
				at := slices.Index(all[known:], pc)
				if at < 0 {
					t.Errorf("shape %d: address %d of %d, %#x in %s, is not in its place on the stack", i, j+1, n, pc, name)
					break
				}
				known += at + 1
			}
		})
	}
}

// TestGoroutine: a goroutine keeps its number while its stack moves, and goroutines that live at the
// same time have different ones.
func TestGoroutine(t *testing.T) {
	const goroutines = 1000
	numbers, end := make(chan uintptr), make(chan bool)
	for range goroutines {
		go func() {
			first := Goroutine()
			grow(50, func() {
				if now := Goroutine(); now != first {
					t.Errorf("a goroutine has the numbers %#x and %#x", first, now)
				}
			})
			runtime.Gosched()
			if now := Goroutine(); now != first {
				t.Errorf("a goroutine has the numbers %#x and %#x", first, now)
			}
			numbers <- first
			<-end
		}()
	}
	all := map[uintptr]bool{Goroutine(): true}
	for range goroutines {
		all[<-numbers] = true
	}
	close(end)
	if len(all) != goroutines+1 || all[0] {
		t.Errorf("%d goroutines have %d numbers; one is 0: %v", goroutines+1, len(all), all[0])
	}
}

// TestFindKnown: a stack that is known has the line that Callers finds, however it was called.
func TestFindKnown(t *testing.T) {
	var f Finder
	for round := range 3 {
		for i, shape := range shapes {
			shape(func() {
				stack := make([]uintptr, maxDepth)
				got := f.Place(f.Find(0, nil))
				want := foreign(stack[:runtime.Callers(1, stack)])
				if got.Line+1 != want.Line || got.Func != want.Func || got.File != want.File {
					t.Errorf("round %d, shape %d: found %v in %s, want the line before %v in %s", round, i, got, got.Func, want, want.Func)
				}
			})
		}
	}
	if len(f.known) != len(shapes) {
		t.Errorf("%d stacks are known, want %d", len(f.known), len(shapes))
	}
}
