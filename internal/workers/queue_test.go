package workers

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// onQueues calls test with a queue whose workers spin and with one whose workers sleep.
func onQueues(t *testing.T, capacity int, test func(t *testing.T, q *Queue)) {
	for _, spin := range []bool{false, true} {
		t.Run(fmt.Sprintf("spin=%t", spin), func(t *testing.T) {
			q := NewQueue(capacity, spin, DefaultSettings())
			defer q.Close()
			test(t, q)
		})
	}
}

// TestQueueCopiesAll checks that every block of a task is copied once. Some tasks are
// added again, have no blocks, or have more than the queue has room for.
func TestQueueCopiesAll(t *testing.T) {
	onQueues(t, 4, func(t *testing.T, q *Queue) {
		var task Task
		for _, n := range []int{0, 1, 3, 0, 100, 2} {
			seen := make([]atomic.Int32, n)
			task.Copy = func(block int) error { seen[block].Add(1); return nil }
			q.Add(&task, n)
			if err := task.Wait(); err != nil {
				t.Error(err)
			}
			for i := range seen {
				if times := seen[i].Load(); times != 1 {
					t.Errorf("%d blocks: block %d was copied %d times", n, i, times)
				}
			}
		}
	})
}

// TestQueueOldestFirst: no block of a task begins before all blocks of the older tasks
// have begun.
func TestQueueOldestFirst(t *testing.T) {
	const tasks, blocks = 5, 8
	onQueues(t, tasks*blocks, func(t *testing.T, q *Queue) {
		var begun [tasks]atomic.Int32
		workers := int32(max(q.set.MinWorkers, int(q.pool.workers.Load())))
		all := make([]Task, tasks)
		for i := range all {
			all[i].Copy = func(int) error {
				begun[i].Add(1)
				for older := range i { // a worker may have taken a block and not begun it yet
					if lacking := blocks - begun[older].Load(); lacking >= workers {
						return fmt.Errorf("task %d begins, and %d blocks of task %d have not begun", i, lacking, older)
					}
				}
				return nil
			}
		}
		for i := range all {
			q.Add(&all[i], blocks)
		}
		for i := range all {
			if err := all[i].Wait(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestQueueErrors: Wait returns the first error, all blocks are copied, and the next use
// of the task has no error.
func TestQueueErrors(t *testing.T) {
	onQueues(t, 16, func(t *testing.T, q *Queue) {
		cause := errors.New("disk on fire")
		var copied atomic.Int32
		task := Task{Copy: func(block int) error {
			copied.Add(1)
			if block == 3 {
				return cause
			}
			return nil
		}}
		q.Add(&task, 10)
		if err := task.Wait(); !errors.Is(err, cause) || copied.Load() != 10 {
			t.Errorf("error %v, %d blocks copied, want %v and 10", err, copied.Load(), cause)
		}
		q.Add(&task, 3)
		if err := task.Wait(); err != nil {
			t.Errorf("the second use: %v", err)
		}
	})
}

// TestQueueCloses: Close waits for tasks that nobody waits for.
func TestQueueCloses(t *testing.T) {
	for _, spin := range []bool{false, true} {
		q := NewQueue(100, spin, DefaultSettings())
		var copied atomic.Int32
		q.Add(&Task{Copy: func(int) error { copied.Add(1); return nil }}, 50)
		q.Close()
		if copied.Load() != 50 {
			t.Errorf("spin %t: %d blocks are copied after Close, want 50", spin, copied.Load())
		}
		eventually(t, "workers of a closed queue", &q.pool.workers, 0)
	}
}

// TestQueueConcurrent: many goroutines add tasks whose memory they use again at once.
// The race detector sees a worker that still uses a task after Wait.
func TestQueueConcurrent(t *testing.T) {
	const block = 512
	onQueues(t, 64, func(t *testing.T, q *Queue) {
		var all sync.WaitGroup
		for g := range 6 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 1))
				var task Task
				dst, src := make([]byte, 64*block), make([]byte, 64*block)
				for range 100 {
					n := 1 + r.IntN(64)
					for i := range src {
						src[i] = byte(r.Uint32())
					}
					to, from := dst[:n*block], src[:n*block]
					task.Copy = func(i int) error { copy(to[i*block:(i+1)*block], from[i*block:]); return nil }
					q.Add(&task, n)
					if err := task.Wait(); err != nil || !bytes.Equal(to, from) {
						t.Errorf("%d blocks: the bytes differ, or %v", n, err)
					}
				}
			})
		}
		all.Wait()
	})
}

// BenchmarkQueue copies chunks of 4 MiB, several of them queued at once.
func BenchmarkQueue(b *testing.B) {
	const chunk = 4 << 20
	for _, spin := range []bool{false, true} {
		for _, depth := range []int{1, 10} {
			b.Run(fmt.Sprintf("spin=%t/depth=%d", spin, depth), func(b *testing.B) {
				set := DefaultSettings()
				q := NewQueue(64*depth, spin, set)
				defer q.Close()
				tasks := make([]Task, depth)
				src := make([]byte, depth*chunk)
				for i := range tasks {
					dst, src := make([]byte, chunk), src[i*chunk:(i+1)*chunk]
					tasks[i].Copy = func(n int) error {
						copy(dst[n*set.BlockBytes:(n+1)*set.BlockBytes], src[n*set.BlockBytes:])
						return nil
					}
				}
				b.SetBytes(int64(depth * chunk))
				b.ReportAllocs()
				for b.Loop() {
					for i := range tasks {
						q.Add(&tasks[i], chunk/set.BlockBytes)
					}
					for i := range tasks {
						if err := tasks[i].Wait(); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// BenchmarkQueueStart measures the time to start a queue and to close it.
func BenchmarkQueueStart(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewQueue(640, true, DefaultSettings()).Close()
	}
}
