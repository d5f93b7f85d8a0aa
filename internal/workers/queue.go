package workers

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Queue is an ordered list of copy tasks and the workers that copy them. All workers
// share the blocks of the oldest task: few tasks are unfinished then, and the first one
// is done as soon as possible. Blocks of tasks that are added at the same time may mix. A
// Queue is safe for concurrent use.
//
// Workers wait for a channel, and the Go scheduler wakes one for each block. To wake all of
// them at once, as a [Pool] does, was not faster here: see docs/notes/staging.md,
// "A fourth look".
type Queue struct {
	set    Settings
	spin   bool
	blocks chan block
	pool   Pool
	end    sync.WaitGroup // of the workers
}

// block is one block of a task.
type block struct {
	task   *Task
	number int
}

// Task is work on numbered blocks, such as a copy. A Task can be added again after Wait.
//
// The goroutine that adds the task owns Copy. Workers read Copy from Add until Wait
// returns: it and what it uses must not change in that time. The other fields are
// safe for all goroutines.
type Task struct {
	// Copy copies one block. Workers call it once for each block, at the same time.
	Copy func(block int) error

	left atomic.Int64          // blocks that are not copied yet
	err  atomic.Pointer[error] // the first error of a block
	done chan struct{}         // capacity 1; receives when no block is left
}

// NewQueue starts the workers of a queue. Add does not block while the queue has no more
// than capacity blocks. With spin, workers poll for blocks for Settings.SpinTime before
// they sleep: use it if no other goroutine needs the processors.
func NewQueue(capacity int, spin bool, set Settings) *Queue {
	q := &Queue{set: set, spin: spin, blocks: make(chan block, capacity)}
	n := max(set.MinWorkers, runtime.GOMAXPROCS(0)-set.SpareProcessors)
	q.end.Add(n)
	q.pool.Start(n, &Job{Work: q.work})
	return q
}

// Close ends the workers when they have copied all blocks, and waits for them. Add
// must not be called at the same time or later.
func (q *Queue) Close() {
	q.pool.Close()
	close(q.blocks)
	q.end.Wait()
}

// Add queues a task of blocks 0 to n-1. Each Add needs one Wait before the next Add of
// the same task.
func (q *Queue) Add(t *Task, n int) {
	t.err.Store(nil)
	if t.done == nil {
		t.done = make(chan struct{}, 1)
	}
	if n == 0 {
		t.done <- struct{}{}
		return
	}
	t.left.Store(int64(n))
	for i := range n {
		q.blocks <- block{t, i}
	}
}

// Wait waits until all blocks of the task are copied. It returns the first error of
// Copy; the blocks after it are copied all the same.
func (t *Task) Wait() error {
	<-t.done
	if err := t.err.Load(); err != nil {
		return *err
	}
	return nil
}

// work copies blocks in a worker until the queue is closed.
func (q *Queue) work() {
	defer q.end.Done()
	for {
		b, ok := q.next()
		if !ok {
			return
		}
		if b.copy() {
			runtime.Gosched() // lets the goroutine run that waits for the task
		}
	}
}

// next waits for a block. ok is false if the queue is closed and empty. next polls without
// the Go scheduler, because the scheduler has one lock for all processors.
func (q *Queue) next() (b block, ok bool) {
	for begin := time.Now(); q.spin && time.Since(begin) < q.set.SpinTime; runtime.Gosched() {
		for range q.set.SpinChecks {
			select {
			case b, ok = <-q.blocks:
				return b, ok
			default:
			}
		}
	}
	b, ok = <-q.blocks
	return b, ok
}

// copy copies the block. It reports whether that was the last block of the task.
func (b block) copy() (last bool) {
	t := b.task
	if err := t.Copy(b.number); err != nil {
		t.err.CompareAndSwap(nil, &err)
	}
	if last = t.left.Add(-1) == 0; last {
		t.done <- struct{}{}
	}
	return last
}
