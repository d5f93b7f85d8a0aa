package pipeline

import (
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/internal/workers"
)

// newCopyQueue starts the workers that copy between pageable memory and the page-locked
// chunks of a run with depth chunks in flight. They share the blocks of the oldest
// task, so that it is done as soon as possible. With spin, they poll for work before
// they sleep, which suits a pipeline beside which no other goroutine needs the
// processors.
func newCopyQueue(depth int, spin bool, t *tuning) *workers.Queue {
	return workers.NewQueue(queuedBlocks*depth, spin, t.workers)
}

// copyTask is the copy of one chunk, from or to pageable memory at an offset. It can be
// started again after Wait.
//
// The goroutine that calls start owns all fields. Workers read them from start until
// Wait returns, and nobody changes them in that time.
type copyTask struct {
	workers.Task
	memory staging.Memory
	chunk  []byte
	off    int
	in     bool // from memory to the chunk
	tuning tuning
}

// start queues the copy.
func (t *copyTask) start(q *workers.Queue) {
	if t.Copy == nil {
		t.Copy = t.copyBlock
	}
	block := t.tuning.workers.BlockBytes
	q.Add(&t.Task, (len(t.chunk)+block-1)/block)
}

// copyBlock copies one block. Memory that cannot be accessed is an error.
func (t *copyTask) copyBlock(number int) error {
	block := t.tuning.workers.BlockBytes
	from := number * block
	part, off := t.chunk[from:min(from+block, len(t.chunk))], int64(t.off+from)
	var err error
	if t.in {
		_, err = t.memory.ReadAt(part, off)
	} else {
		_, err = t.memory.WriteNonTemporal(part, off, t.tuning.nonTemporalFrom)
	}
	return err
}
