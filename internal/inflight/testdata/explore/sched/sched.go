// Package sched stands for sync, sync/atomic and runtime in a copy of a package whose
// interleavings a test explores: a thread can be interrupted before each atomic
// instruction, and nowhere else. Threads are coroutines, so only one runs at a time.
package sched

import "iter"

// thread is a coroutine.
type thread struct {
	resume func() (struct{}, bool)
	yield  func(struct{}) bool
	ready  func() bool // nil for a thread that waits for nothing
	ended  bool
}

var (
	current *thread // nil outside of Explore
	writes  int
)

// Step lets another thread run.
func Step() {
	if current != nil {
		me := current
		me.yield(struct{}{})
	}
}

// wait lets other threads run until ready.
func wait(ready func() bool) {
	if current == nil {
		if !ready() {
			panic("a wait outside of a thread would not end")
		}
		return
	}
	for me := current; !ready(); {
		me.ready = ready
		me.yield(struct{}{})
		me.ready = nil
	}
}

// Gosched waits until another thread has written.
func Gosched() {
	if before := writes; current != nil {
		wait(func() bool { return writes > before })
	}
}

// Recv receives from a channel.
func Recv[T any](c chan T) T {
	Step()
	wait(func() bool { return len(c) > 0 })
	return <-c
}

// accesses is how many threads access memory that they must not share.
var accesses int

// Begin begins an access to memory that one thread at a time may access. End ends it.
func Begin() {
	if accesses++; accesses > 1 {
		panic("two threads access memory at once that is not atomic")
	}
	Step()
}

func End() { accesses-- }

// choice is a point of a schedule: the threads that could run, and which does.
type choice struct {
	threads []int
	at      int
}

// Explore runs threads that prepare makes in all schedules with at most the given number of
// preemptions, and check after each, until failed. It returns the number of schedules
// and the last one. hung reports that threads waited for ever.
func Explore(preemptions int, prepare func() (threads []func(), check func()), failed func() bool) (schedules int, last []int, hung bool) {
	var path []choice
	for {
		functions, check := prepare()
		schedules++
		path, hung = run(functions, preemptions, path)
		if !hung {
			check()
		}
		if hung || failed() {
			for _, c := range path {
				last = append(last, c.threads[c.at])
			}
			return schedules, last, hung
		}
		for len(path) > 0 && path[len(path)-1].at == len(path[len(path)-1].threads)-1 {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return schedules, nil, false
		}
		path[len(path)-1].at++
	}
}

// run runs threads by a schedule, and goes on with the first choice where it ends.
func run(functions []func(), preemptions int, path []choice) (_ []choice, hung bool) {
	threads := make([]*thread, len(functions))
	for i, f := range functions {
		t := new(thread)
		t.resume, _ = iter.Pull(func(yield func(struct{}) bool) {
			t.yield = yield
			f()
		})
		threads[i] = t
	}
	last, left := -1, len(threads)
	for depth := 0; left > 0; depth++ {
		if depth == len(path) {
			able := runnable(threads, last, preemptions)
			if len(able) == 0 {
				return path, true
			}
			path = append(path, choice{threads: able})
		}
		c := &path[depth]
		next := c.threads[c.at]
		if last >= 0 && next != last && canRun(threads[last]) {
			preemptions--
		}
		last = next
		current = threads[next]
		_, more := current.resume()
		current = nil
		if !more {
			threads[next].ended = true
			left--
		}
	}
	return path, false
}

func canRun(t *thread) bool { return !t.ended && (t.ready == nil || t.ready()) }

// runnable is the threads that can run, the last one first.
func runnable(threads []*thread, last, preemptions int) (able []int) {
	if last >= 0 && canRun(threads[last]) {
		able = append(able, last)
		if preemptions == 0 {
			return able
		}
	}
	for i, t := range threads {
		if i != last && canRun(t) {
			able = append(able, i)
		}
	}
	return able
}

// Mutex is a sync.Mutex.
type Mutex struct{ locked bool }

func (m *Mutex) Lock() {
	Step()
	wait(func() bool { return !m.locked })
	m.locked = true
}

func (m *Mutex) Unlock() {
	Step()
	m.locked = false
}

// number is an atomic number.
type number[T int32 | int64 | uint64] struct{ v T }

type (
	Int32  = number[int32]
	Int64  = number[int64]
	Uint64 = number[uint64]
)

func (x *number[T]) Load() T {
	Step()
	return x.v
}

func (x *number[T]) Swap(v T) (old T) {
	Step()
	return x.set(v)
}

func (x *number[T]) Store(v T) { x.Swap(v) }

func (x *number[T]) Add(v T) T {
	Step()
	x.set(x.v + v)
	return x.v
}

func (x *number[T]) Or(v T) (old T) {
	Step()
	return x.set(x.v | v)
}

func (x *number[T]) And(v T) (old T) {
	Step()
	return x.set(x.v & v)
}

func (x *number[T]) CompareAndSwap(old, v T) bool {
	Step()
	if x.v != old {
		return false
	}
	x.set(v)
	return true
}

func (x *number[T]) set(v T) (old T) {
	old, x.v = x.v, v
	writes++
	return old
}

// Pointer is an atomic.Pointer.
type Pointer[T any] struct{ p *T }

func (x *Pointer[T]) Load() *T {
	Step()
	return x.p
}

func (x *Pointer[T]) Store(p *T) {
	Step()
	x.p = p
	writes++
}

// Bool is an atomic.Bool.
type Bool struct{ v bool }

func (x *Bool) Load() bool {
	Step()
	return x.v
}

func (x *Bool) Store(v bool) {
	Step()
	x.v = v
	writes++
}
