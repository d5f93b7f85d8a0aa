package staging

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/softgpu"
)

// hanging is a reader whose Read hangs until a channel is closed. begun is called when it
// begins.
type hanging struct {
	begun func()
	until chan struct{}
}

func (h hanging) Read(p []byte) (int, error) {
	h.begun()
	<-h.until
	return len(p), nil
}

// TestReaderHangs: the end of the context ends In. What the reader returns afterwards is
// dropped, and its slot is free again.
func TestReaderHangs(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Eager)
	r.poison()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	h := hanging{cancel, make(chan struct{})}
	done := make(chan struct{})
	job := r.job(r.n)
	job.Ordered, job.Done = true, func() { close(done) }
	src := io.MultiReader(bytes.NewReader(make([]byte, 6000)), h)
	n, err := r.ring.In(ctx, job, Reader(src))
	if n > 6000 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes, %v", n, err)
	}
	select {
	case <-done:
		t.Error("Done was called while the reader hangs")
	default:
	}
	r.stillWorks()
	before := r.d.in.Load()
	close(h.until)
	<-done
	if r.d.in.Load() != before {
		t.Error("a copy of an abandoned transfer was queued")
	}
}

// TestReaderHangsAtTheEnd: if the ring is closed meanwhile, the slot is freed when the
// reader returns.
func TestReaderHangsAtTheEnd(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Eager)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	h := hanging{cancel, make(chan struct{})}
	done := make(chan struct{})
	job := r.job(r.n)
	job.Ordered, job.Done = true, func() { close(done) }
	_, err := r.ring.In(ctx, job, Reader(h))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.check(r.ring.Close())
	if n := r.d.slots.Load(); n != 1 {
		t.Errorf("%d slots exist, want that of the reader", n)
	}
	close(h.until)
	<-done
	if _, err := r.ring.In(background, r.job(1), Memory{1}); err == nil {
		t.Error("a closed ring accepted a transfer")
	}
}

// TestOneReadHangs: the other workers do not wait for a read that hangs when the context
// has ended. That read ends the transfer when it returns.
func TestOneReadHangs(t *testing.T) {
	r := newRig(t, small, 100<<10, softgpu.Eager)
	until, done := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
	defer cancel()
	job := r.job(r.n)
	job.Done = func() { close(done) }
	src := slow{random(r.n), func(off int64) {
		if off == 1<<10 {
			<-until
		}
	}}
	if n, err := r.ring.In(ctx, job, src); n > 1<<10 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.stillWorks()
	close(until)
	<-done
}

// TestCancelWhileWaiting: the context ends a transfer that waits for slots of its own
// stream, which does not advance.
func TestCancelWhileWaiting(t *testing.T) {
	r := newRig(t, small, 100<<10, softgpu.Eager)
	resume := r.block(r.stream)
	for _, copy := range []func(context.Context) (int64, error){
		func(ctx context.Context) (int64, error) { return r.ring.In(ctx, r.job(r.n), Memory(random(r.n))) },
		func(ctx context.Context) (int64, error) {
			return r.ring.Out(ctx, r.job(r.n), Memory(make([]byte, r.n)))
		},
	} {
		ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
		if n, err := copy(ctx); n == r.n || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d bytes, %v", n, err)
		}
		cancel()
	}
	resume()
	r.stillWorks()
}

// TestCancelInTheMiddle: the bytes before the one that the error names arrive.
func TestCancelInTheMiddle(t *testing.T) {
	r := newRig(t, small, 200<<10, softgpu.Eager)
	for range 20 {
		want := random(r.n)
		ctx, cancel := context.WithCancel(background)
		src := cancelling{Memory(want), ctx, cancel, new(atomic.Int64)}
		r.poison()
		n, err := r.ring.In(ctx, r.job(r.n), src)
		if !errors.Is(err, context.Canceled) || n >= r.n {
			t.Fatalf("%d bytes, %v", n, err)
		}
		r.same("before the end", r.onDevice(n), want[:n])
		cancel()
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	n, err := r.ring.Out(ctx, r.job(r.n), Memory(make([]byte, r.n)))
	if n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("out: %d bytes, %v", n, err)
	}
	r.stillWorks()
}

// cancelling is memory that ends a context after some reads.
type cancelling struct {
	Memory
	ctx    context.Context
	cancel func()
	reads  *atomic.Int64
}

func (c cancelling) ReadAt(p []byte, off int64) (int, error) {
	switch n := c.reads.Add(1); {
	case n == 25:
		c.cancel()
	case n > 25:
		<-c.ctx.Done()
	}
	return c.Memory.ReadAt(p, off)
}

// TestBlockedStream: transfers in a stream that does not advance hold all slots. A transfer
// of memory in another stream returns ErrBusy and how many bytes it has copied. So does one of a
// reader that yields. One that does not yield waits, because there is no other way.
func TestBlockedStream(t *testing.T) {
	r := newRig(t, small, 4<<10, softgpu.Eager)
	resume := r.block(r.stream)
	for range small.Slots {
		_, err := r.ring.In(background, r.job(1<<10), Memory(random(1<<10)))
		r.check(err)
		_, err = r.ring.In(background, r.job(1<<10), Reader(zeroes{})) // has a slot of the other size
		r.check(err)
	}
	other := Job{Stream: r.newStream(), Device: r.device + 2<<10, Bytes: 2 << 10}
	n, err := r.ring.In(background, other, Memory(random(2<<10)))
	if n != 0 || !errors.Is(err, ErrBusy) {
		t.Errorf("in: %d bytes, %v", n, err)
	}
	n, err = r.ring.Out(background, other, Memory(make([]byte, 2<<10)))
	if n != 0 || !errors.Is(err, ErrBusy) {
		t.Errorf("out: %d bytes, %v", n, err)
	}
	other.Ordered = true
	ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
	defer cancel()
	if n, err = r.ring.In(ctx, other, Reader(zeroes{})); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reader: %d bytes, %v", n, err)
	}
	yields := other
	yields.Yields = true
	if n, err = r.ring.In(background, yields, Reader(zeroes{})); n != 0 || !errors.Is(err, ErrBusy) {
		t.Errorf("reader that yields: %d bytes, %v", n, err)
	}
	if n, err = r.ring.Out(background, yields, Writer(io.Discard)); n != 0 || !errors.Is(err, ErrBusy) {
		t.Errorf("writer that yields: %d bytes, %v", n, err)
	}
	time.AfterFunc(5*time.Millisecond, resume)
	_, err = r.ring.In(background, other, Reader(zeroes{}))
	r.check(err)
}

// zeroes reads zeros without end.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }
