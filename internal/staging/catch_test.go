package staging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

var errPlanted = errors.New("planted")

// ends are the ways in which a Read or Write can fail.
var ends = map[string]func() error{
	"error":  func() error { return errPlanted },
	"panic":  func() error { panic(errPlanted) },
	"Goexit": func() error { runtime.Goexit(); return nil },
}

// ending is a reader of ones and a writer. It works up to an offset, and calls end there.
type ending struct {
	at  int64
	end func() error
}

func (e ending) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		p[i] = 1
	}
	return e.WriteAt(p, off)
}

func (e ending) WriteAt(p []byte, off int64) (int, error) {
	if n := max(0, e.at-off); n < int64(len(p)) {
		return int(n), e.end()
	}
	return len(p), nil
}

// outcome is how a call of In or Out ended.
type outcome struct {
	n        int64
	err      error
	returned bool
	value    any // of a panic
}

// attempt transfers between the device and x on a new goroutine. The transfer must end, and
// must call Done once.
func (r *rig) attempt(ctx context.Context, x ending, out, ordered bool) (o outcome) {
	r.Helper()
	var done atomic.Int64
	job := r.job(r.n)
	job.Ordered, job.Done = ordered, func() { done.Add(1) }
	var src io.ReaderAt = x
	var dst io.WriterAt = x
	if ordered {
		src = Reader(io.NewSectionReader(x, 0, r.n))
		dst = Writer(io.NewOffsetWriter(x, 0))
	}
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.value = recover()
			ended <- o
		}()
		if out {
			o.n, o.err = r.ring.Out(ctx, job, dst)
		} else {
			o.n, o.err = r.ring.In(ctx, job, src)
		}
		o.returned = true
	}()
	select {
	case o = <-ended:
	case <-time.After(20 * time.Second):
		r.Fatal("the transfer hangs")
	}
	if n := done.Load(); n != 1 {
		r.Errorf("Done was called %d times when the transfer had ended, want once", n)
	}
	r.gateEmpty()
	r.ring.mu.Lock()
	defer r.ring.mu.Unlock()
	for i, s := range r.ring.slots {
		if s.state == slotTaken {
			r.Errorf("slot %d of %d is taken", i, len(r.ring.slots))
		}
	}
	if r.ring.transfers != 0 {
		r.Errorf("%d transfers run, want 0", r.ring.transfers)
	}
	return o
}

// TestEnds: however a Read or Write ends, the transfer releases everything, and the next one
// works. A panic reaches the caller with its value. Goexit ends the goroutine that reads or
// writes. If that is a worker, it is an error. The kinds of transfers are drawn.
func TestEnds(t *testing.T) {
	for name, end := range ends {
		for _, kind := range sample.Of(t, []struct{ out, ordered, canEnd, emulated bool }{
			{false, true, false, false}, {false, true, true, false}, {false, false, false, false}, {false, false, true, false},
			{true, true, false, false}, {true, true, true, false}, {true, false, false, false}, {true, false, true, false},
			{false, true, false, true}, {false, false, true, true}, {true, false, false, true}, {true, true, true, true},
		}, 5) {
			t.Run(fmt.Sprintf("%s/%+v", name, kind), func(t *testing.T) {
				r := newRig(t, small, 20<<10, softgpu.Random)
				if kind.emulated {
					r.ring = New(r.d.Driver, r.ctx, small, Hooks{})
				}
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				if !kind.canEnd {
					ctx = background
				}
				onCaller := !kind.canEnd && (kind.ordered || kind.emulated)
				for i := range 2 * small.Slots {
					at := []int64{0, 5000, 20<<10 - 1}[i%3]
					r.check(r.d.CtxSynchronize(r.ctx)) // copies of the last round may be in flight
					r.poison()
					o := r.attempt(ctx, ending{at, end}, kind.out, kind.ordered)
					r.wantEnd(name, o, at, onCaller)
					if o.returned && !kind.out {
						got := r.onDevice(r.n)
						if n := bytes.Count(got[:o.n], []byte{1}); int64(n) != o.n || got[o.n] == 1 {
							t.Errorf("%d bytes of %d have arrived, and byte %d is %#x", n, o.n, o.n, got[o.n])
						}
					}
				}
				r.stillWorks()
			})
		}
	}
}

// wantEnd checks the outcome of a transfer whose reader or writer ended at an offset.
func (r *rig) wantEnd(name string, o outcome, at int64, onCaller bool) {
	r.Helper()
	want := outcome{n: at, err: errPlanted, returned: true}
	switch {
	case name == "panic":
		want = outcome{value: errPlanted}
	case name == "Goexit" && onCaller:
		want = outcome{}
	case name == "Goexit":
		want.n, want.err = at-at%int64(small.Block), ErrGoexit // the block is lost
	}
	if o.n != want.n || o.returned != want.returned || o.value != want.value || !errors.Is(o.err, want.err) {
		r.Errorf("at byte %d: %+v, want %+v", at, o, want)
	}
}

// TestPanicOutranks: a panic reaches the caller although a block before it fails.
func TestPanicOutranks(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Eager)
	for range 20 {
		panics := make(chan struct{})
		src := slow{make([]byte, r.n), func(off int64) {
			switch off {
			case 0:
				<-panics
				runtime.Goexit()
			case 3 << 10:
				close(panics)
				panic(errPlanted)
			}
		}}
		value := func() (v any) {
			defer func() { v = recover() }()
			n, err := r.ring.In(background, r.job(r.n), src)
			t.Errorf("%d bytes, %v, want a panic", n, err)
			return nil
		}()
		if value != any(errPlanted) {
			t.Errorf("panic of %v, want %v", value, errPlanted)
		}
	}
	r.stillWorks()
}

// TestAbandonedEnds: however an abandoned Read or Write ends, its transfer releases its slot.
func TestAbandonedEnds(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Eager)
	for name, end := range ends {
		for _, out := range []bool{false, true} {
			until, done := make(chan struct{}), make(chan struct{})
			ctx, cancel := context.WithCancel(background)
			hangs := ending{5000, func() error {
				cancel()
				<-until
				return end()
			}}
			job := r.job(r.n)
			job.Ordered, job.Done = true, func() { close(done) }
			var n int64
			var err error
			if out {
				n, err = r.ring.Out(ctx, job, Writer(io.NewOffsetWriter(hangs, 0)))
			} else {
				n, err = r.ring.In(ctx, job, Reader(io.NewSectionReader(hangs, 0, r.n)))
			}
			if n > 5000 || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, out %t: %d bytes, %v", name, out, n, err)
			}
			close(until)
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Fatalf("%s, out %t: the transfer does not end", name, out)
			}
			r.stillWorks()
		}
	}
}
