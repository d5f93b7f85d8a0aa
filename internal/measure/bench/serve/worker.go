package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ferrygpu/ferry"
)

// worker is one goroutine that makes requests, with its stream and buffers.
type worker struct {
	stream   *ferry.Stream
	kernel   *ferry.Kernel
	args     []any
	device   *ferry.Device[float32]
	from, to ferry.Memory[float32] // in and out as Copy takes them
	in, out  []float32
	pool     *pinnedPool            // nil if the buffers stay
	lent     [2]ferry.Host[float32] // from the pool
	ctx      context.Context
	turn     int // counts requests, so that each has new data

	latency histogram
	done    uint64 // requests that ended before the deadline
	err     error
}

// newWorker makes the stream and the buffers of a worker. undo closes them.
func newWorker(g *ferry.GPU, c Cell, k *ferry.Kernel, p *pinnedPool, undo *closers) (w *worker, err error) {
	w = &worker{kernel: k, ctx: context.Background(), pool: p}
	if w.stream, err = newStream(g); undo.add(err, w.stream.Close) != nil {
		return nil, err
	}
	n := c.Bytes / 4
	if w.device, err = ferry.Alloc[float32](g, n); undo.add(err, w.device.Close) != nil {
		return nil, err
	}
	w.args = []any{w.device, uint64(n)}
	if c.Context {
		ctx, cancel := context.WithCancel(context.Background())
		undo.add(nil, func() error { cancel(); return nil })
		w.ctx = ctx
	}
	switch c.Kind {
	case "pinned":
		err = w.pinned(g, n, undo)
	case "pageable":
		w.in, w.out = make([]float32, n), make([]float32, n)
		w.from, w.to = pageable(w.in), pageable(w.out)
	case "pool":
		w.from, w.to = &w.lent[0], &w.lent[1]
	}
	return w, err
}

// pinned makes page-locked buffers.
func (w *worker) pinned(g *ferry.GPU, n int, undo *closers) error {
	for i, m := range []*ferry.Memory[float32]{&w.from, &w.to} {
		h, err := ferry.AllocHost[float32](g, n, nil)
		if undo.add(err, h.Close) != nil {
			return err
		}
		*m = h
		if s := h.Slice(); i == 0 {
			w.in = s
		} else {
			w.out = s
		}
	}
	return nil
}

// request makes one request with new data and checks the first and the last element.
func (w *worker) request() error {
	if err := w.borrow(); err != nil {
		return err
	}
	w.turn = (w.turn + 1) & (1<<20 - 1) // a number that a float32 can have
	x, last := float32(w.turn), len(w.in)-1
	w.in[0], w.in[last] = x, x
	w.out[0], w.out[last] = -1, -1
	if err := w.submit(); err != nil {
		return err
	}
	if a, b := w.out[0], w.out[last]; a != x+1 || b != x+1 {
		return fmt.Errorf("wrong data: request %d has %v and %v at its ends, want %v", w.turn, a, b, x+1)
	}
	return w.giveBack()
}

// submit queues copy, kernel and copy, and waits.
func (w *worker) submit() error {
	if err := ferry.Copy(w.stream, w.device, w.from); err != nil {
		return err
	}
	if err := w.stream.Launch(w.kernel, ferry.Cover(len(w.in)/4, 256), w.args...); err != nil {
		return err
	}
	if err := ferry.Copy(w.stream, w.to, w.device); err != nil {
		return err
	}
	return w.stream.Wait(w.ctx)
}

// borrow takes the buffers of a request from the pool.
func (w *worker) borrow() (err error) {
	if w.pool == nil {
		return nil
	}
	for i := range w.lent {
		if err = w.lent[i].Alloc(w.pool, w.device.Len()); err != nil {
			return err
		}
	}
	w.in, w.out = w.lent[0].Slice(), w.lent[1].Slice()
	return nil
}

// giveBack gives the buffers back to the pool.
func (w *worker) giveBack() error {
	if w.pool == nil {
		return nil
	}
	return errors.Join(w.lent[0].Close(), w.lent[1].Close())
}

// serve makes requests until the deadline. Times count from start.
func (w *worker) serve(start time.Time, deadline time.Duration) {
	for begin := time.Since(start); ; {
		if w.err = w.request(); w.err != nil {
			return
		}
		end := time.Since(start)
		w.latency.add(end - begin)
		if end > deadline {
			return
		}
		w.done++
		begin = end
	}
}

// verify checks every element of the last request, if its buffers stay, and of one more.
func (w *worker) verify() error {
	var last error
	if w.pool == nil {
		last = w.compare()
	}
	if err := errors.Join(last, w.borrow()); err != nil {
		return err
	}
	w.fill(1)
	clear(w.out)
	return errors.Join(w.submit(), w.compare(), w.giveBack())
}

// fill writes the data of a request.
func (w *worker) fill(seed int) {
	for i := range w.in {
		w.in[i] = float32((i*7 + seed + w.turn) % 65521)
	}
}

// compare compares every element of a result.
func (w *worker) compare() error {
	for i, x := range w.in {
		if w.out[i] != x+1 {
			return fmt.Errorf("wrong data: element %d of %d is %v, want %v", i, len(w.in), w.out[i], x+1)
		}
	}
	return nil
}
